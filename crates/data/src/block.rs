//! Unit of work that the sequential part of reading passes to the parallel part.

use std::sync::Arc;

use crate::columnar::Rows;
use crate::lines::lines_in;
use crate::packed::Seal;
use crate::record::Head;
use crate::share::Lines;

/// Whole lines of a text file, examples of a packed file, rows of a Parquet file, or a range of the
/// built-in stream.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Block {
    /// Index of the file.
    pub file: u32,
    /// Lines before this block in the file; examples in a packed file.
    pub first_line: u64,
    /// Lines in this block; a last line without a line end counts.
    pub lines: u32,
    /// The lines, or the columns of a packed file; empty for the built-in stream.
    pub bytes: Vec<u8>,
    /// Expected contents of `bytes`, for a block of a packed file.
    pub packed: Option<Seal>,
    /// Rows of a block of a Parquet file.
    pub rows: Option<Rows>,
    /// How lines become records, if that differs between files.
    pub(crate) head: Option<Arc<Head>>,
    /// Lines to use; `None` for all. If no line is used, `bytes` may be empty.
    pub wanted: Option<Lines>,
}

impl Block {
    /// A block of text that doesn't come from a file.
    pub fn of_text(bytes: Vec<u8>) -> Self {
        Self { lines: lines_in(&bytes), bytes, ..Self::default() }
    }
}
