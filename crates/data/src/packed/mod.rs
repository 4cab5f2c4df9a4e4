//! Packed files: parsed examples in columns, which load at memory speed.
//!
//! Why: parsing and hashing a line costs ten times as much as reading its columns, in every epoch
//! of every run.
//!
//! How: `PACKED.md` specifies every byte. A header describes the examples and the rules that made
//! them. Blocks contain them in the columns of a [`crate::Chunk`]. A table at the end has the
//! offset and checksum of each block.
//!
//! ```text
//!   header | block | block | ... | table: offset, examples, checksum of each block | tail
//! ```
//!
//! Invariants:
//! - DATA-I4: every byte is covered by a checksum or compared: truncation or a flipped bit is an
//!   error before any example of the damaged part is returned;
//! - DATA-I5: a file gets its name only once it is complete: it is written under another name and
//!   renamed;
//! - DATA-I6: a chunk from a block of b bytes takes no more memory than one parsed from b bytes of
//!   text.
//!
//! Failure: [`crate::DataError::Damaged`] names the file, the block and a fix. Damage is never
//! skipped like a malformed line.
//!
//! Cost: 8 bytes per key, 4 per dense feature, 1 per label, 4 per bag in blocks with a bag that
//! doesn't have exactly one key, 4 per known true probability. A reader keeps the table, 32 bytes
//! per block.

mod decode;
mod encode;
mod file;
mod layout;
mod reader;
#[cfg(test)]
mod tests;
mod writer;

pub use writer::{PackedOptions, PackedWriter};

pub(crate) use decode::decode;
pub(crate) use file::PackedFile;
pub(crate) use layout::{
    ENTRY_BYTES, HEAD_BYTES, Head, NAME_BYTES, is_packed, put, u32_at, u64_at,
};
pub(crate) use reader::PackedReader;
