//! Reads examples from text, packed files or the built-in click stream, in columns and in order.
//!
//! A sequential part cuts the source into blocks and a parallel part turns blocks into columns.
//! Every example knows its position, so a run can stop after any example and resume there. Both
//! parts are available as pipeline stages ([`stages`]) and as one loop ([`Reader`]). [`Sources`]
//! describes what a run reads and how often: the files, the lines held out for evaluation, and the
//! cache that replaces text.

#![forbid(unsafe_code)]

mod error;
mod layout;
mod schema;

mod block;
mod chunk;
mod cut_lists;

mod begin;
mod columnar;
mod compression;
mod data_file;
mod files;
mod lines;
mod packed;
mod path_columns;
mod publish;

mod count;
mod ends;
mod file_reader;
mod fingerprint;

mod log1p;
mod moment;
mod number;
mod parse;
mod record;
mod scan;

pub mod synth;

mod guess;
mod idx;
mod input;
mod reader;
mod share;

mod sources;
mod stages;
mod statistics;
mod texts;

pub use block::Block;
pub use chunk::{Chunk, Malformed, Position, REASONS_MAX};
pub use columnar::Rows;
pub use count::{count_lines, has_no_record, lines_of_each, lines_of_each_until};
pub use cut_lists::{CutColumn, CutList, CutLists};
pub use data_file::{is_stream, length_of, read_objects_with};
pub use error::DataError;
pub use file_reader::FileReader;
pub use files::{note_recordless, read_text, recordless_note, repeated, repeated_note, resolve};
pub use fingerprint::{READ_MAX as FINGERPRINT_READ_MAX, fingerprint_of_ends, fingerprints};
pub use guess::{Guess, Guessed, GuessedColumn, guess};
pub use idx::Idx;
pub use input::{Files, Input};
pub use layout::{
    Column, ColumnKind, DenseRule, Format, IdRule, LabelRule, Layout, LayoutOptions, ListRule,
    Part, SplitBy, SplitRule, Transform, ValuesRule, may_separate,
};
pub use lines::BLOCK_BYTES;
pub use log1p::{log1p_of, log1p_of_number};
pub use moment::TimePart;
pub use packed::{
    CACHE_MALFORMED_MAX, CacheAt, CacheReader, CacheWriter, DataCache, PackedOptions, PackedWriter,
    Seal, SourceFile,
};
pub use parse::parse_block;
pub use path_columns::name_of_file;
pub use publish::publish;
pub use reader::{Decoder, ReadOptions, Reader, Skips, Source};
pub use record::UNLABELLED;
pub use schema::{Labels, Schema};
pub use share::{Lines, PartOf, Share, Sharing, Walk};
pub use sources::{NameNotes, Purposes, ReadFrom, SourceOptions, Sources, names_notes};
pub use stages::{
    BLOCKS_PER_PARSER, CacheFate, CacheMaking, OnFate, Ordered, ParseStage, Parsed, Pass, Passes,
    ReadStage, Reading, Recorder, Recording, stages,
};
pub use statistics::{STATISTICS_RECORDS, Statistics, statistics};
pub use synth::{Synth, SynthOptions, Zipf};
pub use texts::Texts;
