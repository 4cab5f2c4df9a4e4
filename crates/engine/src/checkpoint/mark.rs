//! Directories that a run made, told from those that merely look like one.
//!
//! A mark names device and inode of the directory that it is for. What somebody copied, or made
//! under the same name, has another inode, so that nothing of a user's is ever removed or written
//! into.
//!
//! A directory has its mark before anything else is put into it, and loses it after everything
//! else: whatever a crash leaves of one that was being written or removed has a mark, or the
//! beginning of one and nothing else, or is empty.
//!
//! The same file is what a reader locks while it reads the checkpoint ([`Lease`]): a run that would
//! remove an old one leaves it until its readers are done. Whoever removes one has the lock alone
//! meanwhile, so that no reader begins on what is going.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use stepwell_disk::{Disk, EntryKind, FileDisk, Identity, Lock};

use crate::{Error, Result};

/// Name of the mark within the directory that it is for.
const MARK_FILE: &str = ".stepwell";
/// More than a mark holds.
const MARK_BYTES_MAX: u64 = 256;

/// What the directory at `path` alone has, as text. A link counts as itself.
///
/// # Errors
/// When it cannot be looked at.
pub fn identity(disk: &dyn Disk, path: &Path) -> Result<String> {
    let Identity { device, inode } = disk.identity(path)?;
    Ok(format!("made by stepwell: device {device} inode {inode}\n"))
}

/// Marks `directory`, which is empty, as made by this program.
pub(super) fn mark(directory: &dyn Disk) -> Result<()> {
    let identity = identity(directory, directory.path())?;
    super::files::write_synced(directory, MARK_FILE, identity.as_bytes())?;
    Ok(directory.sync_directory()?)
}

/// Removes the directory at `path`, which is marked; a part that a crash leaves is marked too.
pub(super) fn remove_marked(disk: &dyn Disk, path: &Path) -> Result<()> {
    let inside = disk.directory(path)?;
    for (name, kind) in inside.entries()? {
        let removed = match kind {
            _ if name == MARK_FILE => Ok(()),
            EntryKind::Directory => inside.remove_tree(&path.join(&name)),
            EntryKind::File | EntryKind::Other => inside.remove(&name),
        };
        match removed {
            // What has a name that no text can say goes with the directory.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            removed => removed?,
        }
    }
    inside.sync_directory()?;
    Ok(disk.remove_tree(path)?)
}

/// Keeps a checkpoint from being removed while it lives; what bears no mark is removed by nobody.
#[derive(Clone, Debug, Default)]
pub struct Lease {
    _lock: Option<Arc<dyn Lock>>,
}

impl Lease {
    /// On the checkpoint in `directory`; none where it is being removed.
    pub(super) fn take(directory: &dyn Disk) -> Option<Self> {
        let marked = directory.exists(MARK_FILE).unwrap_or(false);
        let lock = match directory.lock_shared(MARK_FILE) {
            Ok(None) => return None,
            Ok(lock) => lock,
            // Where it cannot be locked, as on some network file systems, it is read without.
            Err(_) => None,
        };
        // The mark may have gone before it was locked.
        let gone = marked && !directory.exists(MARK_FILE).unwrap_or(true);
        (!gone).then(|| Self { _lock: lock.map(Arc::from) })
    }

    /// On the checkpoint that the directory at `path` is, or that it is a part of, as the rows of a
    /// table are; on nothing where it is neither.
    ///
    /// # Errors
    /// When that is being removed.
    pub fn over(path: &Path) -> Result<Self> {
        for path in [Some(path), path.parent()].into_iter().flatten() {
            let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
            let Ok(disk) = FileDisk::open(path) else { continue };
            if disk.exists(MARK_FILE).unwrap_or(false) {
                return Self::take(&disk).ok_or_else(|| being_removed(path));
            }
        }
        Ok(Self::default())
    }
}

/// What is said of a checkpoint that is being removed.
pub(super) fn being_removed(path: &Path) -> Error {
    let why = "is being removed, as old ones are: read a later one, or raise checkpoint.keep";
    Error::Checkpoint { path: path.to_owned(), why: why.to_owned() }
}

/// The right to remove a checkpoint; while it lives nobody gets a [`Lease`].
#[derive(Debug)]
pub(super) struct Claim {
    _lock: Option<Box<dyn Lock>>,
}

impl Claim {
    /// On `directory`; none where somebody has a lease.
    pub(super) fn lay(directory: &dyn Disk) -> Option<Self> {
        // Taking the lock would make the file.
        if !directory.exists(MARK_FILE).unwrap_or(false) {
            return Some(Self { _lock: None });
        }
        match directory.lock(MARK_FILE) {
            Ok(None) => None,
            Ok(lock) => Some(Self { _lock: lock }),
            // Nobody can lock it, readers included.
            Err(_) => Some(Self { _lock: None }),
        }
    }
}

/// Whether the marking of `directory` was never ended: it holds the first bytes of its mark, or
/// none, or zeros for those that were lost, and nothing else.
pub(super) fn is_half_marked(directory: &dyn Disk) -> Result<bool> {
    let mut entries = directory.entries()?.into_iter();
    if !entries.all(|(name, kind)| name == MARK_FILE && kind == EntryKind::File) {
        return Ok(false);
    }
    let identity = identity(directory, directory.path())?;
    Ok(text(directory)?.is_some_and(|mark| identity.starts_with(mark.trim_end_matches('\0'))))
}

/// Whether `directory` has a mark, and is what the mark is for.
pub(super) fn is_marked(directory: &dyn Disk) -> Result<bool> {
    let identity = identity(directory, directory.path())?;
    Ok(text(directory)?.is_some_and(|mark| mark == identity))
}

/// The text of the mark in `directory`; none where there is no file that could be one.
fn text(directory: &dyn Disk) -> Result<Option<String>> {
    use ErrorKind::{InvalidData, InvalidInput, NotFound, PermissionDenied};
    match directory.read(MARK_FILE, MARK_BYTES_MAX) {
        Ok(bytes) => Ok(String::from_utf8(bytes).ok()),
        Err(error) => match error.kind() {
            // Missing, not of this program's making, or not this user's.
            NotFound | InvalidInput | InvalidData | PermissionDenied => Ok(None),
            _ => Err(error.into()),
        },
    }
}
