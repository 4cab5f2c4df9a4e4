//! Reads Parquet files.
//!
//! The library decodes pages. One thread reads the same number of rows of every column in use, and
//! any number of threads turn them into examples, column by column. An id is made from the text
//! that CSV would have for its value (`logical_types.rs`, `rows`), so the same rows as text give
//! the same examples.
//!
//! Failure: an unusable value makes its row malformed, like a line. A file that the library can't
//! read ends the run with the library's message.
//!
//! Cost: decompressed pages and dictionaries of the columns in use, for at most one row group;
//! [`ColumnFile::bytes_max`] is a bound on all of it.

mod bags;
mod data;
mod emit;
mod file;
mod hybrid;
mod labels;
mod lists;
mod logical_types;
mod panics;
mod reader;
mod texts;
mod walk;

pub(crate) use self::emit::emit;
pub(crate) use self::file::ColumnFile;
pub(crate) use self::reader::{ColumnFileReader, rows_bytes_max};
