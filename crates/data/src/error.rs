//! What can go wrong with a source of examples.

use std::path::PathBuf;

use stepwell_base::mend;

/// What helps where a packed file is damaged.
pub(crate) const MEND_PACKED: &str = "copy it again, or make it again with `stepwell convert`";
/// The same where it is a cache.
pub(crate) const MEND_CACHE: &str =
    "if it is a cache, remove it, and the next run with data.cache makes it anew";

/// An error of a source of examples.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// A path or pattern leads to no readable file.
    #[error("{}: {why}", path.display())]
    Path {
        /// The path or pattern as given.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A file lacks a column that is asked for.
    #[error("{}: {why}", path.display())]
    NoColumn {
        /// The file.
        path: PathBuf,
        /// Name of the missing column.
        column: String,
        /// Column of the file with a similar name.
        near: Option<String>,
        /// Description of the missing column, and the fix.
        why: String,
    },
    /// Somebody asked to stop before it was through.
    #[error("stopped, as was asked for")]
    Stopped,
    /// Reading or decompressing failed on the way.
    #[error("{}: after line {line}: {why}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Lines that were read whole before it.
        line: u64,
        /// The system's or the decompressor's word.
        why: String,
    },
    /// A line is not an example, and no more such lines may be skipped.
    #[error("{}: line {line}{}: {why}{}", path.display(), at(*column), skipped_hint(*skip_max))]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Number of the line, from 1.
        line: u64,
        /// Number of the column, from 1; 0 where it has none.
        column: u32,
        /// What is wrong with it.
        why: String,
        /// Malformed lines that were allowed.
        skip_max: u64,
    },
    /// A packed file is not what was written.
    #[error("{}: {place}: {why}; the file is damaged or cut short: {mend}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The part of it, with its offset.
        place: String,
        /// What is wrong with it.
        why: String,
        /// What helps.
        mend: &'static str,
    },
    /// A packed file that is being made cannot be written any further.
    #[error(
        "{}: cannot be written after {examples} examples: {source}{}",
        path.display(), mend(source)
    )]
    Packing {
        /// Where it was to be.
        path: PathBuf,
        /// Examples in the blocks before.
        examples: u64,
        /// The system's word.
        source: std::io::Error,
    },
    /// A position that the files do not have.
    #[error("{}: cannot continue after line {wanted}: {why}", path.display())]
    Position {
        /// The file, or the place in the list where one is missing.
        path: PathBuf,
        /// Lines to pass over.
        wanted: u64,
        /// What was found instead.
        why: String,
    },
    /// Options that make no sense.
    #[error("{0}")]
    Options(String),
    /// Writing generated examples failed.
    #[error("writing examples failed after {examples} of them: {source}{}", mend(source))]
    Write {
        /// Examples written before.
        examples: u64,
        /// The system's word.
        source: std::io::Error,
    },
}

impl DataError {
    /// Whether the settings are wrong, by themselves or for this data, so that nothing has begun.
    pub fn is_of_settings(&self) -> bool {
        matches!(self, Self::Options(_) | Self::NoColumn { .. })
    }

    /// Whether a packed file is not as it was written.
    pub fn is_damage(&self) -> bool {
        matches!(self, Self::Damaged { .. })
    }
}

fn at(column: u32) -> String {
    if column == 0 { String::new() } else { format!(", column {column}") }
}

fn skipped_hint(skip_max: u64) -> String {
    match skip_max {
        0 => String::new(),
        1 => " (the 1 malformed line that may be skipped is used up)".to_owned(),
        n => format!(" (the {n} malformed lines that may be skipped are used up)"),
    }
}
