//! What can go wrong with a store.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use stepwell_base::Key;

use crate::key_shard::{KeyShardSet, key_shard};

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An operating error of a store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The disk refused; its message names operation, file and offset.
    #[error(transparent)]
    Disk(#[from] stepwell_disk::Error),
    /// A byte is not what was written.
    #[error("{} is damaged at offset {offset}: {why}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where the damaged part starts.
        offset: u64,
        /// What does not fit, and what was wanted.
        why: String,
    },
    /// A page lost some of its rows' bytes.
    #[error(
        "{} is damaged at offset {offset} (table {table}, page {page}): {why}; lost here: {}; \
         `stepwell store repair` salvages the rest", path.display(), list(keys)
    )]
    Page {
        /// The file.
        path: PathBuf,
        /// Where the page starts.
        offset: u64,
        /// The table whose rows these are.
        table: u32,
        /// The page's number in its file.
        page: u32,
        /// What does not fit.
        why: String,
        /// The keys whose rows were wanted and are lost.
        keys: Vec<Key>,
    },
    /// Segments are missing from the directories that were given.
    #[error(
        "{} names {count} segments that are in none of the directories given, the first is \
         {first}; it was written over: {}", path.display(), directories.join(", ")
    )]
    Lost {
        /// The manifest.
        path: PathBuf,
        /// How many.
        count: usize,
        /// Name of the first.
        first: String,
        /// What the manifest says of directories.
        directories: Vec<String>,
    },
    /// The files are of another version of the format.
    #[error(
        "{} is of format version {found}, this build reads version {known}: {}",
        path.display(), mend(*found, *known)
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u64,
        /// The version of this build.
        known: u64,
    },
    /// The store holds other rows than the options say.
    #[error("{} {why}", path.display())]
    Mismatch {
        /// The manifest.
        path: PathBuf,
        /// What differs, with both numbers.
        why: String,
    },
    /// There is a store where there should be none.
    #[error(
        "{} holds a store already: open it, set it aside, or name another directory",
        path.display()
    )]
    Exists {
        /// The directory.
        path: PathBuf,
    },
    /// Somebody has the store open.
    #[error(
        "{} is in use: a store there is open, or being checked; wait for that to end, or stop it",
        path.display()
    )]
    InUse {
        /// The directory.
        path: PathBuf,
    },
    /// There is no store.
    #[error("{} holds no store (no manifest.json)", path.display())]
    Missing {
        /// The directory.
        path: PathBuf,
    },
    /// Somebody asked to stop before it was through.
    #[error("stopped, as was asked for")]
    Stopped,
    /// Options that no store can have.
    #[error("{0}")]
    Options(String),
    /// The index may not grow.
    #[error(
        "the index of {rows} rows takes {bytes} bytes and must grow by {growth}, which is above \
         its bound of {bytes_max}; it grows on as rows come: raise tiers.index to {} or more",
        bytes_lasting(*bytes, *growth, *bytes_max)
    )]
    IndexFull {
        /// Rows indexed.
        rows: u64,
        /// Bytes they take.
        bytes: u64,
        /// Bytes of the next step of growth.
        growth: u64,
        /// The bound.
        bytes_max: u64,
    },
    /// A row was to be put whose key another store has.
    #[error(
        "{} has key shards {shards} of its table, and key {:016x} is in key shard {}: put it into \
         the store that has that", path.display(), key.0, key_shard(*key)
    )]
    OtherShard {
        /// The store's directory.
        path: PathBuf,
        /// The key.
        key: Key,
        /// Those that the store has.
        shards: KeyShardSet,
    },
    /// It is only looked at, a change of it panicked, or nobody knows what the disk has.
    #[error("{}: {why}", path.display())]
    Refused {
        /// The store's directory.
        path: PathBuf,
        /// What is refused, why, and what helps.
        why: String,
    },
}

impl Error {
    /// Whether files are not as they were written: what repairs or older copies are for.
    pub fn is_damage(&self) -> bool {
        match self {
            Self::Damaged { .. } | Self::Page { .. } | Self::Lost { .. } => true,
            // What is opened by name is named by a manifest.
            Self::Disk(error) => error.kind() == ErrorKind::NotFound,
            _ => false,
        }
    }

    /// Whether the disk has no room left for it, or no more for its owner.
    pub(crate) fn is_no_room(&self) -> bool {
        let Self::Disk(error) = self else { return false };
        matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
    }

    /// Whether there was no descriptor left for it: that says nothing of the file.
    pub(crate) fn is_no_descriptor(&self) -> bool {
        matches!(self, Self::Disk(error) if error.is_no_descriptor())
    }

    /// Of damage, that it lies in the file that this one is a link to or a copy of.
    pub(crate) fn found_in(self, file: PathBuf) -> Self {
        match self {
            Self::Damaged { offset, why, .. } => Self::Damaged { path: file, offset, why },
            other => other,
        }
    }

    /// Of damage, that it lies in the file of that name in `directory`, of which this one is a link
    /// or a copy.
    pub(crate) fn found_below(self, directory: &Path) -> Self {
        let name = match &self {
            Self::Damaged { path, .. } => path.file_name().map(ToOwned::to_owned),
            _ => None,
        };
        match name {
            Some(name) => self.found_in(directory.join(name)),
            None => self,
        }
    }
}

/// Bytes with which an index that was full goes on for a while: twice as many.
fn bytes_lasting(bytes: u64, growth: u64, bytes_max: u64) -> u64 {
    bytes.saturating_add(growth).max(bytes_max).saturating_mul(2)
}

/// Keys as a message shows them.
fn list(keys: &[Key]) -> String {
    const SHOWN_MAX: usize = 4;
    let shown = keys.iter().take(SHOWN_MAX).map(|key| format!("key {:016x}", key.0));
    let mut text = shown.collect::<Vec<_>>().join(", ");
    if keys.len() > SHOWN_MAX {
        text.push_str(&format!(" and {} more", keys.len() - SHOWN_MAX));
    }
    text
}

/// What to do about another version.
fn mend(found: u64, known: u64) -> &'static str {
    if found < known {
        "resume from it or open it as a store once, which writes it anew"
    } else {
        "use the build that wrote it"
    }
}
