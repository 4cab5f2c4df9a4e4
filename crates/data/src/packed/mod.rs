//! Packed files: parsed examples, in columns, at the speed of memory.
//!
//! Why: parsing and hashing a line costs ten times what reading its columns does, in every epoch
//! and every run anew.
//!
//! How: `PACKED.md` has every byte. A header says what the examples are and how they were made;
//! blocks hold them in the columns of a [`crate::Chunk`]; a table at the end says where each block
//! lies and what its checksum is.
//!
//! ```text
//!   header | block | block | ... | table: offset, examples, checksum of each block | tail
//! ```
//!
//! Invariants
//! - P1 every byte is under a checksum or compared: a file that was cut, or where one bit is
//!   other than written, is an error before an example of the damaged part is seen;
//! - P2 a file has its name only when it is complete: it is written beside its place and moved;
//! - P3 a chunk from a block of b bytes takes no more memory than one parsed from b bytes of text.
//!
//! Failure  [`crate::DataError::Damaged`] names file, block and the mend. It is never skipped as
//! a malformed line is.
//!
//! Cost: 8 bytes a key, 4 a dense feature, 1 a label, 4 a bag where a block has a bag of other than
//! one key, 4 where the truth is known; 32 bytes a block in the table, which a reader holds.

mod cache;
mod cache_writer;
mod decode;
mod encode;
mod file;
mod layout;
mod origin;
mod reader;
#[cfg(test)]
mod tests;
mod writer;

pub use cache::{CacheAt, CacheReader, DataCache};
pub use cache_writer::CacheWriter;
pub use layout::Seal;
pub use origin::{CACHE_MALFORMED_MAX, SourceFile};
pub use writer::{PackedOptions, PackedWriter};

pub(crate) use decode::decode;
pub(crate) use file::PackedFile;
pub(crate) use layout::{HEAD_BYTES, is_packed};
pub(crate) use reader::PackedReader;
