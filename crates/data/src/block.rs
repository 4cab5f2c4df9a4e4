//! Unit of work that the sequential part of reading passes to the parallel part.

use std::sync::Arc;

use memchr::memchr_iter;

use crate::head::Head;
use crate::pass_share::Lines;
use crate::rows::Rows;

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

/// Expected contents of a block, from the table of a packed file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seal {
    /// Blocks before this one.
    pub(crate) number: u64,
    /// Offset in the file.
    pub(crate) offset: u64,
    /// Examples before this block.
    pub(crate) first: u64,
    /// Examples in this block.
    pub(crate) examples: u32,
    /// Length in bytes.
    pub(crate) bytes: u32,
    /// XXH3-64 of its bytes.
    pub(crate) checksum: u64,
    /// Most keys of one of its examples.
    pub(crate) example_keys_max: u32,
    /// Whether its keys may have values.
    pub(crate) values: bool,
}

impl Seal {
    /// Describes the block for messages.
    pub(crate) fn place(&self) -> String {
        let last = self.first.saturating_add(u64::from(self.examples));
        format!(
            "block {} (examples {} to {last}, at byte {})",
            self.number + 1,
            self.first.saturating_add(1),
            self.offset
        )
    }
}

/// Lines in a text; a last line without a line end counts.
pub(crate) fn lines_in(bytes: &[u8]) -> u32 {
    let ends = memchr_iter(b'\n', bytes).count();
    let unended = bytes.last().is_some_and(|last| *last != b'\n');
    // A block is at most 4 GiB, so the count fits.
    (ends + usize::from(unended)) as u32
}
