//! Marks, which distinguish directories made by a run from others that look alike.
//!
//! A directory of checkpoints has an id, a random number in `.stepwell-id`. The mark of a
//! checkpoint in it contains this number and the checkpoint's step, so it stays valid when the
//! directory is moved, mounted elsewhere or copied as a whole. It is valid nowhere else: in another
//! directory, under another step's name, or in a directory made by a user, nothing is ever removed
//! or overwritten.
//!
//! Earlier builds marked a checkpoint with the device and inode of its directory. Such marks are
//! valid as long as both are the same.
//!
//! A directory gets its mark before any other content, and loses it after all other content: after
//! a crash, a directory that was being written or removed has a mark, or only a partial mark, or is
//! empty. The id is durable before the first mark.
//!
//! Readers lock the same file while they read the checkpoint ([`Lease`]): a run that would remove
//! an old checkpoint leaves it until its readers finish. Removing one requires the exclusive lock,
//! so that nobody starts to read it.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use stepwell_base::random;
use stepwell_disk::{Disk, EntryKind, FileDisk, Identity, Lock};

use super::files;
use crate::{Error, Result};

/// Name of the mark in the directory that it marks.
const MARK_FILE: &str = ".stepwell";
/// Name of the id in a directory of checkpoints.
pub(super) const ID_FILE: &str = ".stepwell-id";
/// Limit on the bytes of a mark or an id.
const MARK_BYTES_MAX: u64 = 256;
/// Start of every mark.
const MADE_BY: &str = "made by stepwell: ";
/// Start of an id; 32 hexadecimal digits follow.
const ID_OF: &str = "stepwell checkpoints ";

/// The mark of earlier builds for the directory at `path`. A link counts as itself.
///
/// # Errors
/// If its metadata cannot be read.
pub fn identity(disk: &dyn Disk, path: &Path) -> Result<String> {
    let Identity { device, inode } = disk.identity(path)?;
    Ok(format!("{MADE_BY}device {device} inode {inode}\n"))
}

/// The marks of the checkpoints in one directory.
#[derive(Clone, Debug)]
pub(super) struct Marks {
    /// The directory's id; `None` if no build that knows ids wrote there.
    id: Option<String>,
}

impl Marks {
    /// The marks valid in `home`.
    pub(super) fn of(home: &dyn Disk) -> Result<Self> {
        let id = text(home, ID_FILE)?.filter(|id| is_id(id));
        Ok(Self { id })
    }

    /// Like [`Marks::of`], for writing: gives `home` a durable id if it has none.
    pub(super) fn to_write(home: &dyn Disk) -> Result<Self> {
        let mut marks = Self::of(home)?;
        if marks.id.is_some() {
            // The id may have been written and not synced.
            home.open(ID_FILE)?.sync()?;
        } else {
            if home.exists(ID_FILE)? {
                // Partial id after a crash; no mark uses it yet.
                home.remove(ID_FILE)?;
            }
            let [high, low] = random::drawn();
            let id = format!("{ID_OF}{high:016x}{low:016x}\n");
            files::write_synced(home, ID_FILE, id.as_bytes())?;
            marks.id = Some(id);
        }
        home.sync_directory()?;
        Ok(marks)
    }

    /// Text of the mark of the checkpoint of `step`.
    fn of_step(&self, step: u64) -> Option<String> {
        let id = self.id.as_ref()?.strip_prefix(ID_OF)?;
        Some(format!("{MADE_BY}step {step} of checkpoints {id}"))
    }

    /// Marks `directory`, which is empty and becomes the checkpoint of `step`.
    pub(super) fn mark(&self, directory: &dyn Disk, step: u64) -> Result<()> {
        let mark = self.of_step(step).unwrap_or_default();
        files::write_synced(directory, MARK_FILE, mark.as_bytes())?;
        Ok(directory.sync_directory()?)
    }

    /// Whether a run made `directory`, here and as the checkpoint of `step`.
    pub(super) fn hold(&self, directory: &dyn Disk, step: u64) -> Result<bool> {
        let Some(mark) = text(directory, MARK_FILE)? else { return Ok(false) };
        Ok(self.of_step(step).is_some_and(|own| own == mark)
            || mark == identity(directory, directory.path())?)
    }
}

fn is_id(text: &str) -> bool {
    let digits = text.strip_prefix(ID_OF).and_then(|rest| rest.strip_suffix('\n'));
    digits.is_some_and(|digits| digits.len() == 32 && digits.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// Removes the marked directory at `path`; after a crash, the rest is still marked.
pub(super) fn remove_marked(disk: &dyn Disk, path: &Path) -> Result<()> {
    let inside = disk.directory(path)?;
    for (name, kind) in inside.entries()? {
        let removed = match kind {
            _ if name == MARK_FILE => Ok(()),
            EntryKind::Directory => inside.remove_tree(&path.join(&name)),
            EntryKind::File | EntryKind::Other => inside.remove(&name),
        };
        match removed {
            // Entries whose names aren't valid text are removed with the directory.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            removed => removed?,
        }
    }
    inside.sync_directory()?;
    Ok(disk.remove_tree(path)?)
}

/// Keeps a checkpoint from being removed as long as it lives; unmarked ones are never removed.
#[derive(Clone, Debug, Default)]
pub struct Lease {
    _lock: Option<Arc<dyn Lock>>,
}

impl Lease {
    /// Takes a lease on the checkpoint in `directory`; `None` if it is being removed.
    pub(super) fn take(directory: &dyn Disk) -> Option<Self> {
        let marked = directory.exists(MARK_FILE).unwrap_or(false);
        let lock = match directory.lock_shared(MARK_FILE) {
            Ok(None) => return None,
            Ok(lock) => lock,
            // If locking isn't supported, as on some network file systems, read without a lock.
            Err(_) => None,
        };
        // The mark may have been removed before it was locked.
        let gone = marked && !directory.exists(MARK_FILE).unwrap_or(true);
        (!gone).then(|| Self { _lock: lock.map(Arc::from) })
    }

    /// Takes a lease on the checkpoint at `path`, or on the one it is part of, as a table's rows
    /// are; an empty lease if it is neither.
    ///
    /// # Errors
    /// If the checkpoint is being removed.
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

/// Error for a checkpoint that is being removed.
pub(super) fn being_removed(path: &Path) -> Error {
    let why = "is being removed as an old checkpoint: read a later one, or raise checkpoint.keep";
    Error::Checkpoint { path: path.to_owned(), why: why.to_owned() }
}

/// The right to remove a checkpoint; as long as it lives, nobody gets a [`Lease`].
#[derive(Debug)]
pub(super) struct Claim {
    _lock: Option<Box<dyn Lock>>,
}

impl Claim {
    /// Claims `directory`; `None` if somebody has a lease.
    pub(super) fn lay(directory: &dyn Disk) -> Option<Self> {
        // Locking would create the file.
        if !directory.exists(MARK_FILE).unwrap_or(false) {
            return Some(Self { _lock: None });
        }
        match directory.lock(MARK_FILE) {
            Ok(None) => None,
            Ok(lock) => Some(Self { _lock: lock }),
            // Nobody can lock the mark, including readers.
            Err(_) => Some(Self { _lock: None }),
        }
    }
}

/// Whether `directory` contains nothing, or only a mark, complete or partial after a crash (its
/// first bytes, or zeros for lost ones): then its owner loses nothing with it.
pub(super) fn is_bare(directory: &dyn Disk) -> Result<bool> {
    let entries = directory.entries()?;
    if !entries.iter().all(|(name, kind)| name == MARK_FILE && *kind == EntryKind::File) {
        return Ok(false);
    }
    if entries.is_empty() {
        return Ok(true);
    }
    let mark = text(directory, MARK_FILE)?;
    let mark = mark.as_deref().map(|mark| mark.trim_end_matches('\0'));
    Ok(mark.is_some_and(|mark| MADE_BY.starts_with(mark) || mark.starts_with(MADE_BY)))
}

/// Text of a small file in `directory`; `None` if there is no valid one.
fn text(directory: &dyn Disk, name: &str) -> Result<Option<String>> {
    use ErrorKind::{InvalidData, InvalidInput, NotFound, PermissionDenied};
    match directory.read(name, MARK_BYTES_MAX) {
        Ok(bytes) => Ok(String::from_utf8(bytes).ok()),
        Err(error) => match error.kind() {
            // Missing, not made by this program, or not readable by this user.
            NotFound | InvalidInput | InvalidData | PermissionDenied => Ok(None),
            _ => Err(error.into()),
        },
    }
}

#[cfg(test)]
mod tests;
