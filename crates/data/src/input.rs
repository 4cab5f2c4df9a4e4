//! A source of examples that isn't open yet.

use std::path::PathBuf;
use std::sync::Arc;

use stepwell_base::stop::StopRequest;

use crate::columnar::rows_bytes_max;
use crate::compression;
use crate::count::records_of_each;
use crate::data_cache::DataCache;
use crate::error::DataError;
use crate::files::Files;
use crate::layout::Layout;
use crate::synth::{Synth, SynthOptions};

/// A source of examples that isn't open yet.
#[derive(Clone, Debug)]
pub enum Input {
    /// Files.
    Files(Files),
    /// The built-in click stream.
    Stream(Arc<Synth>),
    /// Text that was parsed before, read from its cache: the same chunks, and every example knows
    /// its position in the text.
    Cache(Arc<DataCache>),
}

impl Input {
    /// The built-in stream of `options`.
    ///
    /// # Errors
    /// An option is out of range.
    pub fn synth(options: &SynthOptions) -> Result<Self, DataError> {
        Ok(Self::Stream(Arc::new(Synth::new(options)?)))
    }

    /// Columns of the records; `None` for plain lines.
    pub fn layout(&self) -> Option<&Arc<Layout>> {
        match self {
            Self::Files(files) => files.layout.as_ref(),
            Self::Stream(_) => None,
            Self::Cache(cache) => cache.layout(),
        }
    }

    /// The files. For a cache, the files it was made from; empty for the built-in stream.
    pub fn files(&self) -> &[PathBuf] {
        match self {
            Self::Files(files) => &files.paths,
            Self::Stream(_) => &[],
            Self::Cache(cache) => cache.files(),
        }
    }

    /// Records of each file. Text is counted; packed files and the stream know their number of
    /// examples.
    ///
    /// # Errors
    /// The errors of [`crate::lines_of_each`].
    pub fn lines_of_each(&self) -> Result<Vec<u64>, DataError> {
        self.lines_of_each_until(&StopRequest::new())
    }

    /// Like [`Input::lines_of_each`], but stops when `stop` is requested.
    ///
    /// # Errors
    /// The errors of [`Input::lines_of_each`], and [`DataError::Stopped`].
    pub fn lines_of_each_until(&self, stop: &StopRequest) -> Result<Vec<u64>, DataError> {
        match self {
            Self::Files(files) => records_of_each(files, stop),
            Self::Stream(stream) => Ok(vec![stream.options().examples]),
            Self::Cache(cache) => Ok(cache.lines_of_each()),
        }
    }
}

impl Input {
    /// Most bytes that this input and a [`crate::Source`] of it take in addition to blocks in
    /// circulation: the decompressor and the remainder of a block, the table of a packed file, or
    /// the stream's tables.
    ///
    /// # Errors
    /// A file that can't be read.
    pub fn source_bytes_max(&self, block_bytes: usize) -> Result<u64, DataError> {
        let files = match self {
            Self::Files(files) => &files.paths,
            Self::Stream(stream) => return Ok(stream.bytes() as u64),
            Self::Cache(cache) => return Ok(cache.bytes_max()),
        };
        let mut most = 0;
        for path in files {
            most = most.max(compression::bytes_max(path)?);
        }
        Ok(most + block_bytes as u64)
    }

    /// Most bytes of a block of this input, in addition to its text.
    ///
    /// # Errors
    /// A file that can't be read.
    pub fn rows_bytes_max(&self, block_bytes: usize) -> Result<u64, DataError> {
        if let Self::Files(files) = self {
            for path in &files.paths {
                if compression::has_columns(path)? {
                    return Ok(rows_bytes_max(block_bytes));
                }
            }
        }
        Ok(0)
    }

    /// Whether any examples have a true click probability.
    ///
    /// # Errors
    /// A file that can't be read.
    pub fn has_truth(&self) -> Result<bool, DataError> {
        let files = match self {
            Self::Files(files) => &files.paths,
            Self::Stream(_) => return Ok(true),
            Self::Cache(cache) => return Ok(cache.has_truth()),
        };
        for path in files {
            if compression::open_packed(path)?.is_some_and(|file| file.has_truth()) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether ids may have values other than 1.
    ///
    /// # Errors
    /// A file that can't be read.
    pub fn may_have_values(&self) -> Result<bool, DataError> {
        let files = match self {
            Self::Files(files) => files,
            Self::Stream(_) => return Ok(false),
            Self::Cache(cache) => return Ok(cache.has_values()),
        };
        if files.layout.as_deref().is_some_and(Layout::may_have_values) {
            return Ok(true);
        }
        for path in &files.paths {
            if compression::open_packed(path)?.is_some_and(|file| file.has_values()) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
