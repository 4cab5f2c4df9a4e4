//! Errors of reading and writing examples.

use std::path::PathBuf;

use stepwell_base::mend;

/// How to fix a damaged packed file.
pub(crate) const MEND_PACKED: &str = "copy it again, or make it again with `stepwell convert`";
/// How to fix a damaged cache.
pub(crate) const MEND_CACHE: &str =
    "if it is a cache, remove it: the next run with data.cache creates it again";

/// An error of a source of examples.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// Something at a path is no readable file.
    #[error("{}: {why}", path.display())]
    Path {
        /// The path or pattern as given.
        path: PathBuf,
        /// Reason.
        why: String,
    },
    /// A path names no file, or a pattern matches none.
    #[error("{}: {why}", path.display())]
    Missing {
        /// The path or pattern as given.
        path: PathBuf,
        /// Reason.
        why: String,
    },
    /// A file lacks a required column.
    #[error("{}: {why}{fix}", path.display())]
    NoColumn {
        /// The file.
        path: PathBuf,
        /// Name of the missing column.
        column: String,
        /// Column of the file with a similar name.
        near: Option<String>,
        /// Description of the missing column, and of those that the file has.
        why: String,
        /// The fix, after a separator; may be empty.
        fix: String,
    },
    /// The caller requested a stop.
    #[error("stopped on request")]
    Stopped,
    /// Reading or decompressing failed.
    #[error("{}: after line {line}: {why}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Complete lines read before the error.
        line: u64,
        /// Message of the system or the decompressor.
        why: String,
    },
    /// A line is malformed, and the limit on skipped lines is used up.
    #[error("{}: line {line}{}: {why}{}", path.display(), at(*column), skipped_hint(*skip_max))]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Number of the line, from 1.
        line: u64,
        /// Number of the column, from 1; 0 if no column is at fault.
        column: u32,
        /// Reason.
        why: String,
        /// Number of malformed lines that may be skipped.
        skip_max: u64,
    },
    /// A packed file is damaged.
    #[error("{}: {place}: {why}; the file is damaged or cut short: {mend}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The damaged part and its offset.
        place: String,
        /// What is wrong.
        why: String,
        /// How to fix it.
        mend: &'static str,
    },
    /// Writing a packed file failed.
    #[error(
        "{}: cannot be written after {examples} examples: {source}{}",
        path.display(), mend(source)
    )]
    Packing {
        /// Path of the file.
        path: PathBuf,
        /// Examples in the blocks already written.
        examples: u64,
        /// Error of the system.
        source: std::io::Error,
    },
    /// A cache needs more blocks than its memory was planned for.
    #[error("{}: more than {blocks} blocks", path.display())]
    CacheTooLarge {
        /// Path of the cache.
        path: PathBuf,
        /// Planned blocks.
        blocks: u64,
    },
    /// The requested position isn't in the files.
    #[error("{}: cannot continue after line {wanted}: {why}", path.display())]
    Position {
        /// The file; if the list is too short, its number.
        path: PathBuf,
        /// Lines to skip.
        wanted: u64,
        /// What was found instead.
        why: String,
    },
    /// Invalid options.
    #[error("{0}")]
    Options(String),
    /// Writing generated examples failed.
    #[error("writing examples failed after {examples} of them: {source}{}", mend(source))]
    Write {
        /// Examples already written.
        examples: u64,
        /// Error of the system.
        source: std::io::Error,
    },
}

impl DataError {
    /// Whether a setting is wrong, by itself or for this data; nothing has started then.
    pub fn is_of_settings(&self) -> bool {
        matches!(self, Self::Options(_) | Self::NoColumn { .. })
    }

    /// Whether a packed file is damaged.
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
