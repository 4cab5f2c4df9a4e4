//! Errors of a store.

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
    /// The disk failed; the message names operation, file and offset.
    #[error(transparent)]
    Disk(#[from] stepwell_disk::Error),
    /// A file's bytes differ from what was written.
    #[error("{} is damaged at offset {offset}: {why}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Offset of the damaged part.
        offset: u64,
        /// The damage, and the expected content.
        why: String,
    },
    /// A page is damaged, and rows on it are lost.
    #[error(
        "{} is damaged at offset {offset} (table {table}, page {page}): {why}; lost here: {}; \
         `stepwell store repair` salvages the rest", path.display(), list(keys)
    )]
    Page {
        /// The file.
        path: PathBuf,
        /// Offset of the page.
        offset: u64,
        /// The table of the page's rows.
        table: u32,
        /// The page's number in its file.
        page: u32,
        /// Description of the damage.
        why: String,
        /// Keys whose rows were requested and are lost.
        keys: Vec<Key>,
    },
    /// Segments are missing from the given directories.
    #[error(
        "{} names {count} segments that are in none of the given directories, the first is \
         {first}; give all directories of the store: {}", path.display(), directories.join(", ")
    )]
    Lost {
        /// The manifest.
        path: PathBuf,
        /// Number of missing segments.
        count: usize,
        /// Name of the first one.
        first: String,
        /// Directories that the manifest lists.
        directories: Vec<String>,
    },
    /// The files have another format version.
    #[error(
        "{} has format version {found}, this build reads version {known}: {}",
        path.display(), mend(*found, *known)
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// Version of the file.
        found: u64,
        /// The version of this build.
        known: u64,
    },
    /// The store's rows differ from the options.
    #[error("{} {why}", path.display())]
    Mismatch {
        /// The manifest.
        path: PathBuf,
        /// The difference, with both numbers.
        why: String,
    },
    /// The directory already has a store.
    #[error(
        "{} already holds a store: open it, set it aside, or choose another directory",
        path.display()
    )]
    Exists {
        /// The directory.
        path: PathBuf,
    },
    /// The store is in use, here or in another process.
    #[error(
        "{} is in use: a store there is open or being checked; wait for that to end, or stop it",
        path.display()
    )]
    InUse {
        /// The directory.
        path: PathBuf,
    },
    /// The directory has no store.
    #[error("{} holds no store (no manifest.json)", path.display())]
    Missing {
        /// The directory.
        path: PathBuf,
    },
    /// A stop was requested before the operation ended.
    #[error("stopped on request")]
    Stopped,
    /// Options that no store can have.
    #[error("{0}")]
    Options(String),
    /// The index would exceed its bound.
    #[error(
        "the index of {rows} rows takes {bytes} bytes and must grow by {growth}, which is above \
         its bound of {bytes_max}; it keeps growing with new rows: raise tiers.index to {} or more",
        bytes_lasting(*bytes, *growth, *bytes_max)
    )]
    IndexFull {
        /// Number of rows indexed.
        rows: u64,
        /// Bytes of the index.
        bytes: u64,
        /// Bytes of the next step of growth.
        growth: u64,
        /// The bound.
        bytes_max: u64,
    },
    /// A row to put has a key that belongs to another store.
    #[error(
        "{} has key shards {shards} of its table, but key {:016x} is in key shard {}: put it \
         into the store that has this key shard", path.display(), key.0, key_shard(*key)
    )]
    OtherShard {
        /// The store's directory.
        path: PathBuf,
        /// The key.
        key: Key,
        /// Key shards of this store.
        shards: KeyShardSet,
    },
    /// Writes are refused: the store is only looked at, a change panicked, or a disk may lack data.
    #[error("{}: {why}", path.display())]
    Refused {
        /// The store's directory.
        path: PathBuf,
        /// The refused change, the reason, and the fix.
        why: String,
    },
}

impl Error {
    /// Whether files differ from what was written, so that repair or an older copy may help.
    pub fn is_damage(&self) -> bool {
        match self {
            Self::Damaged { .. } | Self::Page { .. } | Self::Lost { .. } => true,
            // Only files that a manifest names are opened by name, so a missing one is damage.
            Self::Disk(error) => error.kind() == ErrorKind::NotFound,
            _ => false,
        }
    }

    /// Whether the disk is full or the owner's quota is used up.
    pub(crate) fn is_no_room(&self) -> bool {
        let Self::Disk(error) = self else { return false };
        matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
    }

    /// Whether file descriptors ran out, which is no sign of damage.
    pub(crate) fn is_no_descriptor(&self) -> bool {
        matches!(self, Self::Disk(error) if error.is_no_descriptor())
    }

    /// Reports damage in `file`, of which the damaged file is a link or copy.
    pub(crate) fn found_in(self, file: PathBuf) -> Self {
        match self {
            Self::Damaged { offset, why, .. } => Self::Damaged { path: file, offset, why },
            other => other,
        }
    }

    /// Reports damage in the file of the same name in `directory`, of which the damaged file is a
    /// link or copy.
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

/// Bound with which a full index lasts for a while: twice the bytes that it needs.
fn bytes_lasting(bytes: u64, growth: u64, bytes_max: u64) -> u64 {
    bytes.saturating_add(growth).max(bytes_max).saturating_mul(2)
}

/// Formats the first keys for a message.
fn list(keys: &[Key]) -> String {
    const SHOWN_MAX: usize = 4;
    let shown = keys.iter().take(SHOWN_MAX).map(|key| format!("key {:016x}", key.0));
    let mut text = shown.collect::<Vec<_>>().join(", ");
    if keys.len() > SHOWN_MAX {
        text.push_str(&format!(" and {} more", keys.len() - SHOWN_MAX));
    }
    text
}

/// Describes how to fix a version mismatch.
fn mend(found: u64, known: u64) -> &'static str {
    if found < known {
        "resume from it or open it as a store once, which converts it"
    } else {
        "use the build that wrote it"
    }
}
