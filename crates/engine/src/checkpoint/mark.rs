//! Directories that a run made, told from those that merely look like one.
//!
//! A directory of checkpoints has an id, a random number in `.stepwell-id`. The mark of a
//! checkpoint in it says this number and the checkpoint's step, so it's moved, mounted elsewhere
//! and copied with the directory as a whole. The mark holds nowhere else: in another directory,
//! under another step's name, or where somebody made the directory, nothing is ever removed or
//! written into.
//!
//! Earlier builds marked a checkpoint with the device and the inode of its directory. Such marks
//! hold as long as both are the same.
//!
//! A directory has its mark before anything else is put into it, and loses it after everything
//! else: whatever a crash leaves of one that was being written or removed has a mark, or the
//! beginning of one and nothing else, or is empty. The id is durable before the first mark.
//!
//! The same file is what a reader locks while it reads the checkpoint ([`Lease`]): a run that would
//! remove an old one leaves it until its readers are done. Whoever removes one has the lock alone
//! meanwhile, so that no reader begins on what is going.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use stepwell_base::random;
use stepwell_disk::{Disk, EntryKind, FileDisk, Identity, Lock};

use super::files;
use crate::{Error, Result};

/// Name of the mark within the directory that it is for.
const MARK_FILE: &str = ".stepwell";
/// Name of the id within a directory of checkpoints.
pub(super) const ID_FILE: &str = ".stepwell-id";
/// More than either holds.
const MARK_BYTES_MAX: u64 = 256;
/// What every mark begins with.
const MADE_BY: &str = "made by stepwell: ";
/// What an id begins with; 32 hexadecimal digits follow.
const ID_OF: &str = "stepwell checkpoints ";

/// The mark that earlier builds gave the directory at `path`. A link counts as itself.
///
/// # Errors
/// When it cannot be looked at.
pub fn identity(disk: &dyn Disk, path: &Path) -> Result<String> {
    let Identity { device, inode } = disk.identity(path)?;
    Ok(format!("{MADE_BY}device {device} inode {inode}\n"))
}

/// The marks of the checkpoints in one directory.
#[derive(Clone, Debug)]
pub(super) struct Marks {
    /// The directory's id; none where no build that knows ids wrote there.
    id: Option<String>,
}

impl Marks {
    /// Those that hold in `home`.
    pub(super) fn of(home: &dyn Disk) -> Result<Self> {
        let id = text(home, ID_FILE)?.filter(|id| is_id(id));
        Ok(Self { id })
    }

    /// The same, for writing: `home` gets an id if it has none, and that is durable.
    pub(super) fn to_write(home: &dyn Disk) -> Result<Self> {
        let mut marks = Self::of(home)?;
        if marks.id.is_some() {
            // It may have been written and not synced.
            home.open(ID_FILE)?.sync()?;
        } else {
            if home.exists(ID_FILE)? {
                // What a crash left of one, by which nothing is marked yet.
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

    /// What the mark of the checkpoint of `step` says.
    fn of_step(&self, step: u64) -> Option<String> {
        let id = self.id.as_ref()?.strip_prefix(ID_OF)?;
        Some(format!("{MADE_BY}step {step} of checkpoints {id}"))
    }

    /// Marks `directory`, which is empty and will be the checkpoint of `step`.
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

/// Whether `directory` holds nothing, or a mark, or what a crash left of one (its first bytes, or
/// zeros for those that were lost), and nothing else: whoever made it loses nothing with it.
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

/// The text of a small file in `directory`; none where there is no file that could be one.
fn text(directory: &dyn Disk, name: &str) -> Result<Option<String>> {
    use ErrorKind::{InvalidData, InvalidInput, NotFound, PermissionDenied};
    match directory.read(name, MARK_BYTES_MAX) {
        Ok(bytes) => Ok(String::from_utf8(bytes).ok()),
        Err(error) => match error.kind() {
            // Missing, not of this program's making, or not this user's.
            NotFound | InvalidInput | InvalidData | PermissionDenied => Ok(None),
            _ => Err(error.into()),
        },
    }
}

#[cfg(test)]
mod tests;
