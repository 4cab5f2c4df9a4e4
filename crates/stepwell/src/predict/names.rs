//! The texts that name records, to stand before their scores.

use std::collections::VecDeque;

use stepwell_data::{Files, Texts, is_stream, resolve};
use stepwell_settings::Config;

/// Names of records, in the order of the data.
pub(super) struct Names {
    texts: Texts,
    pub(super) column: String,
    /// Those that were read and have no score yet: those of a block.
    ahead: VecDeque<String>,
}

impl Names {
    /// Those of `column` in the data that `config` names.
    pub(super) fn open(config: &Config, column: &str) -> Result<Self, String> {
        let layout = config.named_layout()?;
        let paths = resolve(&config.data.eval_paths).map_err(|error| error.to_string())?;
        if let Some(path) = paths.iter().find(|path| is_stream(path)) {
            return Err(format!(
                "--id {column} reads the data a second time, and {} can be read once: write it to \
                 a file",
                path.display()
            ));
        }
        let texts = Texts::open(&Files { paths, layout: None }, &layout, column);
        let texts = texts.map_err(|error| format!("--id {column}: {error}"))?;
        Ok(Self { texts, column: column.to_owned(), ahead: VecDeque::new() })
    }

    /// The name of the next record.
    pub(super) fn next(&mut self) -> Result<String, String> {
        while self.ahead.is_empty() {
            let mut texts = Vec::new();
            let more = self.texts.next(&mut texts);
            let more = more.map_err(|error| format!("--id {}: {error}", self.column))?;
            if !more {
                return Err("the data became shorter while it was scored".to_owned());
            }
            self.ahead.extend(texts);
        }
        Ok(self.ahead.pop_front().unwrap_or_default())
    }
}

/// A text as a field of CSV: in quotes where it would not be one field otherwise.
pub(super) fn field(text: String) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text,
    }
}
