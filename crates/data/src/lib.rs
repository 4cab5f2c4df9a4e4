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
mod cut_list;
mod cut_lists;
mod head;
mod read_options;
mod rows;

mod columnar;
mod compression;
mod data_cache;
mod data_file;
mod file_notes;
mod files;
mod first_line;
mod from_path;
mod lines;
mod natural_order;
mod open_file;
mod packed;
mod path_columns;
mod publish;
mod resolve;

mod count;
mod field_ends;
mod file_reader;
mod fingerprint;

mod log1p;
mod moment;
mod number;
mod parse_lines;
mod record;
mod short_fields;

pub mod synth;

mod guess;
mod idx;
mod input;
mod pass_share;
mod reader;

mod record_texts;
mod sign_hash;
mod sources;
mod stages;
mod statistics;

pub use block::{Block, Seal};
pub use chunk::{Chunk, Malformed};
pub use compression::is_packed_file;
pub use count::{count_lines, has_no_record, lines_of_each, lines_of_each_until};
pub use cut_list::CutList;
pub use cut_lists::{CutColumn, CutLists};
pub use data_cache::{
    CACHE_MALFORMED_MAX, CacheAt, CacheReader, CacheWriter, DataCache, SourceFile,
};
pub use data_file::{is_stream, is_url, length_of, read_objects_with};
pub use error::DataError;
pub use file_notes::{note_recordless, recordless_note, repeated, repeated_note};
pub use file_reader::FileReader;
pub use files::Files;
pub use fingerprint::{READ_MAX as FINGERPRINT_READ_MAX, fingerprint_of_ends, fingerprints};
pub use from_path::name_of_file;
pub use guess::{Guess, Guessed, GuessedColumn, Misfits, guess};
pub use idx::Idx;
pub use input::Input;
pub use layout::{
    Column, ColumnKind, DenseRule, Format, IdRule, LabelRule, Layout, LayoutOptions, ListRule,
    Part, SplitBy, SplitRule, Transform, ValuesRule, may_separate,
};
pub use log1p::{log1p_of, log1p_of_number};
pub use moment::TimePart;
pub use open_file::read_text;
pub use packed::{PackedOptions, PackedWriter};
pub use parse_lines::parse_block;
pub use pass_share::{Lines, PartOf, Share, Sharing, Walk};
pub use publish::publish;
pub use read_options::{BLOCK_BYTES, Position, ReadOptions};
pub use reader::{Decoder, Reader, Skips, Source};
pub use record::UNLABELLED;
pub use record_texts::Texts;
pub use resolve::resolve;
pub use rows::Rows;
pub use schema::{Labels, REASONS_MAX, Schema};
pub use sign_hash::{OneSignHash, SIGN_HASH_NAME};
pub use sources::{NameNotes, Purposes, ReadFrom, SourceOptions, Sources, names_notes};
pub use stages::{
    BLOCKS_PER_PARSER, CacheFate, CacheMaking, OnFate, Ordered, ParseStage, Parsed, Pass, Passes,
    ReadStage, Reading, Recorder, Recording, stages,
};
pub use statistics::{STATISTICS_RECORDS, Statistics, statistics};
pub use synth::{Synth, SynthOptions, Zipf};
