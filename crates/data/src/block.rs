//! What the sequential part of reading hands to the parallel one.

use std::sync::Arc;

use crate::columnar::Rows;
use crate::lines::lines_in;
use crate::packed::Seal;
use crate::record::Head;
use crate::share::Lines;

/// Whole lines of one file, examples of a packed file, or a range of the built-in stream.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Block {
    /// Index of the file.
    pub file: u32,
    /// Lines of the file before this block; in a packed file, examples.
    pub first_line: u64,
    /// Lines in this block; one without a line end counts.
    pub lines: u32,
    /// The lines themselves, or the columns of a packed file; empty in a block of the built-in
    /// stream.
    pub bytes: Vec<u8>,
    /// What the bytes must be, in a block of a packed file.
    pub packed: Option<Seal>,
    /// Its rows, in a block of a file of columns.
    pub rows: Option<Rows>,
    /// How its lines are records, where that is not the same for all files.
    pub(crate) head: Option<Arc<Head>>,
    /// The lines that are wanted; none where all are. Where they are no lines at all, the bytes may
    /// be missing.
    pub wanted: Option<Lines>,
}

impl Block {
    /// A block of text that comes from elsewhere than a file.
    pub fn of_text(bytes: Vec<u8>) -> Self {
        Self { lines: lines_in(&bytes), bytes, ..Self::default() }
    }
}
