//! Files of columns: Parquet.
//!
//! The library reads pages; one thread takes so many rows of each column that something is made of,
//! and any number of threads make examples of them, column by column. Where it is an id, a value is
//! the text that CSV has of it (`meaning.rs`, `values.rs`), so that the same rows as text give the
//! same examples.
//!
//! Failure  A value that no example can be made of makes its row malformed, as a line is. A file
//! that the library cannot read ends the run with its words.
//!
//! Cost     Decompressed pages and dictionaries of the columns that are read, at most those of one
//! row group; [`ColumnFile::bytes_max`] counts all of it.

mod bags;
mod emit;
mod file;
mod guard;
mod hybrid;
mod labels;
mod lists;
mod meaning;
mod reader;
mod texts;
mod values;
mod walk;

pub(crate) use self::emit::emit;
pub(crate) use self::file::ColumnFile;
pub(crate) use self::reader::{ColumnFileReader, rows_bytes_max};
pub use self::values::Rows;
