//! Texts of columns, read record by record along with the scores of the same records.

use std::collections::VecDeque;

use stepwell_data::{DataError, Files, Texts, is_stream, resolve};
use stepwell_settings::Config;

use crate::failure::Failure;

/// Texts of columns that name records, in the order of the data.
pub(crate) struct Names {
    texts: Texts,
    /// The flag that names the columns.
    flag: &'static str,
    /// The columns.
    pub(crate) columns: Vec<String>,
    /// Texts of a block that are read but whose examples are not scored yet.
    ahead: VecDeque<Vec<u8>>,
}

impl Names {
    /// Opens the texts of `columns`, which `flag` names, in the files that `config` evaluates on.
    pub(crate) fn open(
        config: &Config,
        flag: &'static str,
        columns: &[String],
    ) -> Result<Self, Failure> {
        let said = format!("{flag} {}", columns.join(", "));
        let layout = config.named_layout()?;
        let paths = resolve(&config.data.eval_paths).map_err(|error| error.to_string())?;
        if let Some(path) = paths.iter().find(|path| is_stream(path)) {
            return Err(Failure::Error(format!(
                "{said} reads the data a second time, and {} can be read only once: write it to a \
                 file",
                path.display()
            )));
        }
        let texts = Texts::open(&Files { paths, layout: None }, &layout, columns);
        let wrong = |error: DataError| match error {
            // The fix is in the flag, not in the data or the settings.
            DataError::NoColumn { path, column, near: Some(near), .. } => Failure::Usage(format!(
                "{flag} {column}: {} has no column {column}; did you mean {near}?",
                path.display()
            )),
            error if error.is_of_settings() => Failure::Usage(format!("{said}: {error}")),
            error => Failure::Error(format!("{said}: {error}")),
        };
        let (mut texts, mut ahead) = (texts.map_err(wrong)?, Vec::new());
        // Reading the first block shows whether records have these columns.
        texts.next(&mut ahead).map_err(wrong)?;
        Ok(Self { texts, flag, columns: columns.to_vec(), ahead: ahead.into() })
    }

    /// The next record's texts, one for each column, of a scored record.
    pub(crate) fn next(&mut self) -> Result<Vec<Vec<u8>>, String> {
        self.next_or_end()?.ok_or_else(|| "the data became shorter while it was scored".to_owned())
    }

    /// The next record's texts, one for each column; `None` at the end of the data.
    pub(crate) fn next_or_end(&mut self) -> Result<Option<Vec<Vec<u8>>>, String> {
        while self.ahead.is_empty() {
            let mut texts = Vec::new();
            let more = self.texts.next(&mut texts);
            let said = |error| format!("{} {}: {error}", self.flag, self.columns.join(", "));
            let more = more.map_err(said)?;
            if !more {
                return Ok(None);
            }
            self.ahead.extend(texts);
        }
        Ok(Some(self.ahead.drain(..self.columns.len().min(self.ahead.len())).collect()))
    }
}
