//! Examples: from files or from the built-in click stream, in columns, in order, at speed.
//!
//! A sequential part cuts the source into blocks, a parallel part turns blocks into columns, and
//! every example knows where it stood, so that a run can stop and go on after any of them.

#![forbid(unsafe_code)]

mod error;
mod schema;

mod chunk;

mod compression;
mod files;
mod lines;

mod log1p;
mod parse;
mod scan;

pub mod synth;

mod reader;

pub use chunk::{Chunk, Malformed, Position, REASONS_MAX};
pub use error::DataError;
pub use files::resolve;
pub use lines::{BLOCK_BYTES, Block, LineReader, count_lines, lines_of_each};
pub use log1p::log1p_of;
pub use parse::parse_block;
pub use reader::{Decoder, Input, ReadOptions, Reader, Skips, Source};
pub use schema::Schema;
pub use synth::{Synth, SynthOptions, Zipf};
