//! Directory of a run's stores: one that the user names, or a temporary one that is removed with
//! the process.
//!
//! A process locks its temporary directory. The next run removes directories of killed processes,
//! whose locks are free. In a named directory, only rows with a run's mark are ever removed
//! (`leftovers`).

mod leftovers;
mod set_aside;

use std::fs::{self, File, TryLockError};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use stepwell_base::counted;
use stepwell_disk::{Disk, FileDisk};
use tracing::{info, warn};

pub use self::set_aside::SetAside;
use crate::checkpoint::Placement;
use crate::error::file_error;
use crate::{Error, Result};

pub use leftovers::{name_of_rank, refuse_checkpoint, refuse_store};

const PREFIX: &str = "stepwell-scratch-";
const LOCK: &str = "lock";

/// Keeps other runs out of a directory as long as it lives; a kill also releases it.
#[derive(Debug)]
pub struct DirectoryLock {
    file: File,
}

impl Drop for DirectoryLock {
    fn drop(&mut self) {
        // A child made by fork shares the lock and may outlive this.
        let _ = self.file.unlock();
    }
}

impl DirectoryLock {
    /// Takes the lock of `directory`, which must exist.
    pub fn take(directory: &Path) -> Result<Self> {
        let path = directory.join(format!(".{LOCK}"));
        let options = File::options().create(true).append(true).open(&path);
        let file = options.map_err(file_error("open", &path))?;
        match file.try_lock() {
            Ok(()) => Ok(Self { file }),
            Err(TryLockError::WouldBlock) => Err(Error::Refused(format!(
                "{} is in use by another run; choose another directory or wait for that run to end",
                directory.display()
            ))),
            Err(TryLockError::Error(error)) => Err(file_error("lock", &path)(error)),
        }
    }
}

/// The directory of a run's stores.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    /// Held as long as the process lives.
    _lock: DirectoryLock,
    /// Whether the directory is removed with the process.
    temporary: bool,
    /// Whether rows in a named directory are kept on drop.
    kept: bool,
    /// Note on entries that were set aside.
    note: Option<String>,
}

impl Scratch {
    /// A named directory, if `placement` allows it, or a temporary one.
    ///
    /// # Errors
    /// If it already contains rows and `placement` is fresh, or can't be created.
    pub fn open(named: Option<&Path>, placement: Placement) -> Result<Self> {
        match named {
            Some(path) => Self::named(path, placement),
            None => Self::temporary(),
        }
    }

    /// Rejects a directory that is in use or contains something else, like [`Scratch::open`],
    /// without creating or moving anything.
    ///
    /// # Errors
    /// Describes why the directory is rejected.
    pub fn check(named: &Path) -> Result<()> {
        refuse_checkpoint("tiers.ssd", named)?;
        refuse_store("tiers.ssd", named)?;
        if named.is_dir() {
            let _lock = DirectoryLock::take(named)?;
            leftovers::refuse_open(&leftovers::find(named)?)?;
        }
        Ok(())
    }

    fn named(path: &Path, placement: Placement) -> Result<Self> {
        refuse_checkpoint("tiers.ssd", path)?;
        refuse_store("tiers.ssd", path)?;
        FileDisk::create(path)?;
        let lock = DirectoryLock::take(path)?;
        let note = clear(path, placement)?;
        Ok(Self { path: path.to_owned(), _lock: lock, temporary: false, kept: false, note })
    }

    fn temporary() -> Result<Self> {
        let parent = temporary_parent();
        sweep(&parent);
        // The lock is created before the directory, so no sweep finds a directory without a lock.
        let free = (0u32..).find_map(|number| {
            let path = parent.join(format!("{PREFIX}{}-{number}", std::process::id()));
            lock_anew(&path.with_extension(LOCK)).transpose().map(|lock| (path, lock))
        });
        if !parent.is_dir() {
            return Err(Error::Refused(format!(
                "the directory {} for rows that do not fit into memory does not exist: create it, \
                 or give another one with tiers.ssd or the variable TMPDIR",
                parent.display()
            )));
        }
        let Some((path, lock)) = free else {
            return Err(Error::Refused(format!(
                "{} has too many scratch directories",
                parent.display()
            )));
        };
        let lock = lock?;
        if path.exists() {
            // The directory's lock was free, so it isn't in use.
            fs::remove_dir_all(&path).map_err(file_error("remove", &path))?;
        }
        fs::create_dir(&path).map_err(file_error("create directory", &path))?;
        Ok(Self {
            path,
            _lock: DirectoryLock { file: lock },
            temporary: true,
            kept: false,
            note: None,
        })
    }

    /// The directory of table group `group`'s store; created if missing.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn rows(&self, group: usize) -> Result<PathBuf> {
        let path = self.path.join(leftovers::name_of(group));
        match fs::create_dir(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            made => {
                made.map_err(file_error("create directory", &path))?;
                if !self.temporary {
                    leftovers::mark(&path)?;
                    let disk = FileDisk::open(&self.path)?;
                    disk.sync_directory()?;
                }
            }
        }
        Ok(path)
    }

    /// Treats rows that a run with another number of ranks left in `named` (those of ranks that no
    /// longer exist, or a single rank's if there are several now) as [`Scratch::open`] treats
    /// existing rows; returns notes of what was set aside. A resumed run leaves rows that are in
    /// use or have no mark.
    ///
    /// # Errors
    /// If there are such rows and `placement` is fresh, or they cannot be moved.
    pub fn clear_other_ranks(
        named: &Path,
        ranks: usize,
        placement: Placement,
    ) -> Result<Vec<String>> {
        let mut places = leftovers::of_ranks(named, if ranks > 1 { ranks } else { 0 })?;
        if ranks > 1 {
            places.insert(0, named.to_owned());
        }
        places.retain(|place| place.is_dir());
        if matches!(placement, Placement::Resume | Placement::ResumeOrStart | Placement::Append) {
            places.iter().try_for_each(|place| forget(place))?;
            return Ok(Vec::new());
        }
        let mut taken = Vec::new();
        for place in places {
            if !leftovers::find(&place)?.is_empty() {
                // All locks are taken before anything is moved.
                taken.push((DirectoryLock::take(&place)?, place));
            }
        }
        let notes = taken.iter().map(|(_lock, place)| clear(place, placement));
        Ok(notes.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
    }

    /// Keeps the rows in a named directory on drop. Otherwise they are removed, so that a run that
    /// fails to start leaves nothing that would make the next try fail.
    pub fn keep(&mut self) {
        self.kept = true;
    }

    /// Everything set aside in a named directory, now or earlier.
    pub fn aside(&self) -> Vec<SetAside> {
        if self.temporary { Vec::new() } else { Self::aside_in(&self.path) }
    }

    /// Everything that runs set aside in a directory, and in its ranks' directories.
    pub fn aside_in(path: &Path) -> Vec<SetAside> {
        let of_ranks = Self::ranks_in(path).into_iter().flat_map(|place| set_aside::of(&place));
        set_aside::of(path).into_iter().chain(of_ranks).collect()
    }

    /// The ranks' directories in a directory that was named for rows.
    pub fn ranks_in(path: &Path) -> Vec<PathBuf> {
        leftovers::of_ranks(path, 0).unwrap_or_default()
    }

    /// Note for the user about what was set aside on opening.
    pub fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !self.temporary && !self.kept {
            // All marked rows belong to this run: earlier ones were rejected, removed or moved.
            let _ = leftovers::find(&self.path).and_then(leftovers::remove_marked);
        }
        if self.temporary {
            // If this fails, the next run finds the directory by its lock and removes it.
            if fs::remove_dir_all(&self.path).is_ok() {
                let _ = fs::remove_file(self.path.with_extension(LOCK));
            }
        }
    }
}

/// Treats the rows in `path`, whose lock is held, according to `placement`; returns a note of what
/// was set aside.
fn clear(path: &Path, placement: Placement) -> Result<Option<String>> {
    let old = leftovers::find(path)?;
    leftovers::refuse_open(&old)?;
    let aside = match placement {
        Placement::Fresh if !old.is_empty() => {
            return Err(Error::Refused(format!(
                "tiers.ssd = {} holds rows of an earlier run; set them aside with --force, \
                 continue from a checkpoint with --resume, or choose another directory",
                path.display()
            )));
        }
        Placement::Fresh | Placement::SetAside => old,
        // Resuming always rebuilds a run's rows from the checkpoint.
        Placement::Resume | Placement::ResumeOrStart | Placement::Append => {
            leftovers::remove_marked(old)?
        }
    };
    if aside.is_empty() {
        return Ok(None);
    }
    let groups = counted(aside.len() as u64, "table group");
    let place = leftovers::set_aside(path, &aside)?;
    info!(directory = %path.display(), aside = %place.display(), "rows set aside");
    Ok(Some(format!(
        "tiers.ssd = {} held rows ({groups}): they were set aside into {}",
        path.display(),
        place.display()
    )))
}

/// Removes the rows that runs left in `place`, unless it is in use. The directory and its lock
/// stay, as another run may be about to take it.
fn forget(place: &Path) -> Result<()> {
    let old = leftovers::find(place)?;
    if old.is_empty() {
        return Ok(());
    }
    let Ok(_lock) = DirectoryLock::take(place) else { return Ok(()) };
    leftovers::remove_marked(old).map(|_| ())
}

/// Parent of temporary directories: on disk if possible, as the usual one may be in memory.
fn temporary_parent() -> PathBuf {
    let on_disk = Path::new("/var/tmp");
    // If TMPDIR is set but empty, it names no directory.
    match std::env::var_os("TMPDIR").filter(|named| !named.is_empty()) {
        Some(named) => named.into(),
        None if on_disk.is_dir() => on_disk.to_owned(),
        None => PathBuf::from("/tmp"),
    }
}

/// Creates and locks a lock file; `None` if the name is taken, or a sweep removed it first.
fn lock_anew(path: &Path) -> Result<Option<File>> {
    let lock = match File::create_new(path) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => return Ok(None),
        made => made.map_err(file_error("create", path))?,
    };
    lock.lock().map_err(file_error("lock", path))?;
    Ok(is_at(&lock, path).then_some(lock))
}

/// Whether `path` names the open `file`.
fn is_at(file: &File, path: &Path) -> bool {
    let identity = |data: fs::Metadata| (data.dev(), data.ino());
    match (file.metadata(), fs::metadata(path)) {
        (Ok(open), Ok(named)) => identity(open) == identity(named),
        _ => false,
    }
}

/// Removes directories of processes that no longer exist.
fn sweep(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        if !name.is_some_and(|name| name.starts_with(PREFIX)) || !path.is_dir() {
            continue;
        }
        let lock_path = path.with_extension(LOCK);
        let Ok(lock) = File::open(&lock_path) else { continue };
        // The name may belong to another directory since; then the lock isn't its own. The lock is
        // held until everything is removed.
        if lock.try_lock().is_ok() && is_at(&lock, &lock_path) {
            match fs::remove_dir_all(&path) {
                Ok(()) => info!(path = %path.display(), "rows of a killed run removed"),
                Err(error) => {
                    warn!(path = %path.display(), %error, "rows of a killed run stay");
                }
            }
            let _ = fs::remove_file(&lock_path);
        }
    }
}

#[cfg(test)]
mod tests;
