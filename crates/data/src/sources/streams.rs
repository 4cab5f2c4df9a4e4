//! Rejects operations that need to read a stream more than once, before anything is read.

use std::path::{Path, PathBuf};

use super::{SourceOptions, Sources};
use crate::data_file::is_stream;
use crate::error::DataError;
use crate::input::Input;

/// Returns an error if a stream would have to be counted, cached, or read several times.
pub(super) fn check(options: &SourceOptions) -> Result<(), DataError> {
    let SourceOptions { paths, eval_paths, eval_fraction, .. } = options;
    for (key, names) in [("data.paths", paths), ("data.eval_paths", eval_paths)] {
        let streams = || names.iter().filter(|name| is_stream(Path::new(name)));
        let twice = streams().find(|name| streams().filter(|other| other == name).count() > 1);
        if let Some(name) = twice {
            return refused(format!("{key} has {name} more than once, {ONCE}: name it once"));
        }
    }
    let Some(name) = paths.iter().find(|name| is_stream(Path::new(name))) else { return Ok(()) };
    if let Some(cache) = &options.cache {
        let cache = cache.display();
        return refused(format!(
            "data.cache = {cache} and data from {name}, {ONCE}: leave data.cache out, or pack the \
             data with `stepwell convert {name} --out FILE`"
        ));
    }
    if !eval_paths.is_empty() {
        return Ok(());
    }
    if options.layout.as_deref().is_some_and(crate::layout::Layout::splits) {
        return refused(format!(
            "data.eval_column and data from {name}, {ONCE}, where training and evaluation both \
             read it: name data.eval_paths, or write the data to a file"
        ));
    }
    if *eval_fraction > 0.0 {
        return refused(format!(
            "data.eval_fraction = {eval_fraction} of data from {name}, whose records cannot be \
             counted before they are read: name data.eval_paths, or give data.eval_fraction = 0"
        ));
    }
    Ok(())
}

const ONCE: &str = "which can be read only once";

fn refused(why: String) -> Result<(), DataError> {
    Err(DataError::Options(why))
}

/// The first stream among `files`.
fn stream_of(files: &[PathBuf]) -> Option<&Path> {
    files.iter().map(PathBuf::as_path).find(|path| is_stream(path))
}

impl Sources {
    /// Returns an error for training on a stream in several epochs, or evaluating on one: training
    /// reads evaluation data before the first step and after each epoch.
    ///
    /// # Errors
    /// A fix.
    pub fn check_read_once(&self) -> Result<(), DataError> {
        let epochs = self.options.epochs;
        if let Some(path) = stream_of(self.input.files()).filter(|_| epochs > 1) {
            let path = path.display();
            return refused(format!(
                "data.epochs = {epochs} and data from {path}, {ONCE}: give data.epochs = 1, or \
                 write the data to a file"
            ));
        }
        let evaluated = self.eval_input.as_deref().and_then(|input| stream_of(input.files()));
        match evaluated {
            None => Ok(()),
            Some(path) => refused(format!(
                "data.eval_paths has {}, {ONCE}, and evaluation reads it before the first step, \
                 too: write it to a file",
                path.display()
            )),
        }
    }

    /// Returns an error for splitting a stream among several readers.
    pub(super) fn check_shared_streams(&self) -> Result<(), DataError> {
        let inputs = std::iter::once(&*self.input).chain(self.eval_input.as_deref());
        match inputs.map(Input::files).find_map(stream_of) {
            None => Ok(()),
            Some(path) => refused(format!(
                "data from {}, {ONCE}, by several ranks or streams: give ranks = 1 and \
                 data.streams = 1, or write the data to a file",
                path.display()
            )),
        }
    }
}
