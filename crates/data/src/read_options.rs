//! How to read a source, and where to start.

use crate::schema::Schema;

/// Default block size in bytes, which is also the limit on the length of a line.
pub const BLOCK_BYTES: usize = 1 << 20;

/// A position between two lines: after the first `line` lines of file number `file`.
///
/// In the built-in stream, `file` is 0 and `line` counts examples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Index in the list of files.
    pub file: u32,
    /// Lines of that file before this position.
    pub line: u64,
}

/// How to read a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadOptions {
    /// Columns of the examples.
    pub schema: Schema,
    /// Where to start.
    pub start: Position,
    /// Bytes of a block, which is also the limit on a line or a block of a packed file.
    pub block_bytes: usize,
    /// Most keys of an example of a packed file; text has one per id column.
    pub example_keys_max: usize,
    /// Malformed lines to skip before one is an error.
    pub skip_max: u64,
}

impl ReadOptions {
    /// Reads from the start, in blocks of [`BLOCK_BYTES`], at most one key per id column, no
    /// malformed lines allowed.
    pub fn new(schema: Schema) -> Self {
        Self {
            schema,
            start: Position::default(),
            block_bytes: BLOCK_BYTES,
            example_keys_max: schema.id_columns,
            skip_max: 0,
        }
    }
}
