//! Splits parsing among several readers of the passes of a run.

use std::sync::Arc;

use stepwell_base::stop::StopRequest;

use super::Sources;
use super::shared_lines::{Shared, SharedLines};
use crate::compression::open_packed;
use crate::error::DataError;
use crate::input::Input;
use crate::layout::Layout;
use crate::pass_share::Sharing;
use crate::read_options::Position;

impl Sources {
    /// Returns an error if data can't be read in several streams.
    ///
    /// # Errors
    /// The problem and a fix; a file that can't be read.
    pub fn check_streams(&self, streams: usize) -> Result<(), DataError> {
        if streams < 2 {
            return Ok(());
        }
        self.check_shared_streams()?;
        if self.wanted.is_some() {
            return Err(DataError::Options(format!(
                "data.cache cannot be made with data.streams = {streams}: pack the data with \
                 `stepwell convert`, or leave data.cache out"
            )));
        }
        let eval_input = self.eval_input.as_deref();
        for input in std::iter::once(&*self.input).chain(eval_input) {
            if splits(input) {
                return Err(DataError::Options(format!(
                    "data.streams = {streams} and data.eval_column: only parsing shows which \
                     records are trained on; leave data.streams out, or give data.eval_paths or \
                     data.eval_fraction instead of data.eval_column"
                )));
            }
            if !self.can_share(input)? {
                return Err(DataError::Options(format!(
                    "data.streams = {streams} and lines that may be malformed: give data.skip_max \
                     = 0, or pack the data with `stepwell convert`"
                )));
            }
        }
        Ok(())
    }

    /// Splits the passes, if the mini-batch of each line is known: packed data, the built-in
    /// stream, and text without skipped lines, whose lines are counted. Every reader parses other
    /// data as a whole.
    ///
    /// # Errors
    /// A file that can't be read, data that can't be read in several streams, and
    /// [`DataError::Stopped`].
    pub fn shared(mut self, sharing: Sharing, stop: &StopRequest) -> Result<Self, DataError> {
        self.check_shared_streams()?;
        self.check_streams(sharing.streams)?;
        let counted = self.lines.take();
        let input = self.lines_to_share(&self.input, counted, stop)?;
        let eval_input = match self.eval_input.as_deref() {
            Some(eval_input) => self.lines_to_share(eval_input, None, stop)?,
            None => None,
        };
        self.shared = Some(Shared { sharing, input, eval_input });
        Ok(self)
    }

    fn lines_to_share(
        &self,
        input: &Input,
        counted: Option<Vec<u64>>,
        stop: &StopRequest,
    ) -> Result<SharedLines, DataError> {
        let of_each = || counted.map_or_else(|| input.lines_of_each_until(stop), Ok);
        self.can_share(input)?.then(of_each).transpose().map(|lines| lines.map(Arc::from))
    }

    /// Whether every line of `input` is known to be an example.
    fn can_share(&self, input: &Input) -> Result<bool, DataError> {
        Ok(match input {
            Input::Stream(_) => true,
            Input::Cache(cache) => cache.malformed_around(Position::default()) == (0, 0),
            // Parsing decides which part a record belongs to.
            Input::Files(_) if splits(input) => false,
            Input::Files(_) if self.options.skip_max == 0 => true,
            Input::Files(files) => {
                let mut packed = true;
                for file in &files.paths {
                    packed &= open_packed(file)?.is_some();
                }
                packed
            }
        })
    }
}

/// Whether a column selects the records of `input` for evaluation.
fn splits(input: &Input) -> bool {
    matches!(input, Input::Files(files) if files.layout.as_deref().is_some_and(Layout::splits))
}
