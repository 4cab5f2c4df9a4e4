//! Directories that a run made, told from those that merely look like one.
//!
//! A mark names device and inode of the directory that it is for. What somebody copied, or made
//! under the same name, has another inode, so that nothing of a user's is ever removed or written
//! into.
//!
//! The same file is what a reader locks while it reads the checkpoint: a run that would remove an
//! old one leaves it until its readers are done.

use std::fs::{File, TryLockError};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use super::files;
use crate::{Error, Result};

/// Name of the mark within the directory that it is for.
const MARK_FILE: &str = ".stepwell";

/// What `directory` alone has. A link counts as itself.
///
/// # Errors
/// When it cannot be looked at.
pub fn identity(directory: &Path) -> Result<String> {
    let about = std::fs::symlink_metadata(directory).map_err(|source| Error::File {
        action: "look at",
        path: directory.to_owned(),
        source,
    })?;
    Ok(format!("made by stepwell: device {} inode {}\n", about.dev(), about.ino()))
}

/// Marks `directory` as made by this program.
pub(super) fn mark(directory: &Path) -> Result<()> {
    files::write_synced(&directory.join(MARK_FILE), identity(directory)?.as_bytes())
}

/// Keeps a checkpoint from being removed while it lives; what bears no mark is removed by nobody.
#[derive(Clone, Debug, Default)]
pub struct Lease {
    _file: Option<Arc<File>>,
}

impl Lease {
    /// On the checkpoint in `directory`.
    pub(super) fn take(directory: &Path) -> Self {
        // Where it cannot be locked, as on some network file systems, it is read without.
        let file = File::open(directory.join(MARK_FILE)).ok();
        Self { _file: file.filter(|file| file.try_lock_shared().is_ok()).map(Arc::new) }
    }
}

/// Whether somebody has a [`Lease`] on `directory`.
pub(super) fn is_leased(directory: &Path) -> bool {
    let mark = File::open(directory.join(MARK_FILE));
    mark.is_ok_and(|mark| matches!(mark.try_lock(), Err(TryLockError::WouldBlock)))
}

/// Whether a kill ended the marking of `directory`: it holds the first bytes of its mark, or none,
/// and nothing else.
pub(super) fn is_half_marked(directory: &Path) -> bool {
    let alone = files::entries(directory).is_ok_and(|found| found == [directory.join(MARK_FILE)]);
    let begun = std::fs::read_to_string(directory.join(MARK_FILE));
    alone && begun.is_ok_and(|mark| identity(directory).is_ok_and(|all| all.starts_with(&mark)))
}

/// Whether `directory` has a mark, and is what the mark is for.
pub(super) fn is_marked(directory: &Path) -> bool {
    let found = std::fs::read_to_string(directory.join(MARK_FILE));
    found.is_ok_and(|mark| identity(directory).is_ok_and(|identity| mark == identity))
}
