//! Where the store of a run lies: in a directory that the user names, or in a temporary one that
//! goes with the process.
//!
//! A temporary directory is locked by its process. What a killed process left is found by its
//! lock being free, and removed by the next run. In a named one, only rows that carry a run's mark
//! are ever removed (`left`).

mod aside;
mod left;

use std::fs::{self, File, TryLockError};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use stepwell_base::counted;
use stepwell_disk::{Disk, FileDisk};

pub use self::aside::SetAside;
use crate::{Error, Placement, Result};

pub use left::{name_of_rank, refuse_checkpoint, refuse_store};

const PREFIX: &str = "stepwell-scratch-";
const LOCK: &str = "lock";

/// Keeps other runs out of a directory while it lives, also where the process is killed.
#[derive(Debug)]
pub struct DirectoryLock {
    _file: File,
}

impl DirectoryLock {
    /// Takes the lock of `directory`, which exists.
    pub fn take(directory: &Path) -> Result<Self> {
        let path = directory.join(format!(".{LOCK}"));
        let options = File::options().create(true).append(true).open(&path);
        let file = options.map_err(file_error("open", &path))?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _file: file }),
            Err(TryLockError::WouldBlock) => Err(Error::Refused(format!(
                "{} is in use by another run; name another directory or wait for it to end",
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
    /// Held while the process lives.
    _lock: DirectoryLock,
    /// Whether the directory goes with the process.
    temporary: bool,
    /// Whether rows in a named directory stay when this goes.
    kept: bool,
    /// What was set aside, to be told.
    note: Option<String>,
}

/// Names what was tried and where.
pub fn file_error(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::File { action, path, source }
}

impl Scratch {
    /// A directory that `placement` allows, or a temporary one where none is named.
    ///
    /// # Errors
    /// When it holds rows already and `placement` is fresh, or cannot be made.
    pub fn open(named: Option<&Path>, placement: Placement) -> Result<Self> {
        match named {
            Some(path) => Self::named(path, placement),
            None => Self::temporary(),
        }
    }

    /// Refuses a directory that somebody uses, or that is another thing, as [`Scratch::open`] does;
    /// nothing is made or moved.
    ///
    /// # Errors
    /// Why it is refused.
    pub fn check(named: &Path) -> Result<()> {
        refuse_checkpoint("tiers.ssd", named)?;
        refuse_store("tiers.ssd", named)?;
        if named.is_dir() {
            let _lock = DirectoryLock::take(named)?;
            left::refuse_open(&left::find(named)?)?;
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
        // The lock is there before the directory, so that no sweep finds one without the other.
        let free = (0u32..).find_map(|number| {
            let path = parent.join(format!("{PREFIX}{}-{number}", std::process::id()));
            lock_anew(&path.with_extension(LOCK)).transpose().map(|lock| (path, lock))
        });
        if !parent.is_dir() {
            return Err(Error::Refused(format!(
                "there is no directory {} for rows that do not fit into memory: name one with \
                 tiers.ssd or the variable TMPDIR",
                parent.display()
            )));
        }
        let Some((path, lock)) = free else {
            return Err(Error::Refused(format!("{} is full of scratch", parent.display())));
        };
        let lock = lock?;
        if path.exists() {
            // Its lock was free: nobody uses it.
            fs::remove_dir_all(&path).map_err(file_error("remove", &path))?;
        }
        fs::create_dir(&path).map_err(file_error("create directory", &path))?;
        Ok(Self {
            path,
            _lock: DirectoryLock { _file: lock },
            temporary: true,
            kept: false,
            note: None,
        })
    }

    /// The directory of table group `group`'s store, made if need be.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn rows(&self, group: usize) -> Result<PathBuf> {
        let path = self.path.join(left::name_of(group));
        match fs::create_dir(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            made => {
                made.map_err(file_error("create directory", &path))?;
                if !self.temporary {
                    left::mark(&path)?;
                    let disk = FileDisk::open(&self.path)?;
                    disk.sync_directory()?;
                }
            }
        }
        Ok(path)
    }

    /// Does with what a run of another number of ranks left in the directory `named` (rows of ranks
    /// that no longer exist, and those of one rank where there are several) what
    /// [`Scratch::open`] does with what is in the way; what was set aside, to be told. A run that
    /// goes on leaves what somebody uses, and what bears no mark.
    ///
    /// # Errors
    /// When there are some and `placement` is fresh, or they cannot be moved.
    pub fn clear_other_ranks(
        named: &Path,
        ranks: usize,
        placement: Placement,
    ) -> Result<Vec<String>> {
        let mut places = left::of_ranks(named, if ranks > 1 { ranks } else { 0 })?;
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
            if !left::find(&place)?.is_empty() {
                // All are taken before anything is moved.
                taken.push((DirectoryLock::take(&place)?, place));
            }
        }
        let notes = taken.iter().map(|(_lock, place)| clear(place, placement));
        Ok(notes.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
    }

    /// Leaves the rows where they are, in a directory that was named. Without this they go: a run
    /// that was refused leaves nothing that a second try would be refused for.
    pub fn keep(&mut self) {
        self.kept = true;
    }

    /// What lies in a named directory since it was set aside, now or before.
    pub fn aside(&self) -> Vec<SetAside> {
        if self.temporary { Vec::new() } else { Self::aside_in(&self.path) }
    }

    /// What lies in a directory since runs set it aside, and in those of ranks in it.
    pub fn aside_in(path: &Path) -> Vec<SetAside> {
        let of_ranks = Self::ranks_in(path).into_iter().flat_map(|place| aside::of(&place));
        aside::of(path).into_iter().chain(of_ranks).collect()
    }

    /// The directories of ranks in a directory that was named for rows.
    pub fn ranks_in(path: &Path) -> Vec<PathBuf> {
        left::of_ranks(path, 0).unwrap_or_default()
    }

    /// What was set aside on opening, for the user to know.
    pub fn note(&self) -> Option<&str> {
        self.note.as_deref()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !self.temporary && !self.kept {
            // All that bear a mark are of this run: earlier ones were refused, removed or moved.
            let _ = left::find(&self.path).and_then(left::remove_marked);
        }
        if self.temporary {
            // What cannot be removed now is removed by the next run, which knows it by its lock.
            if fs::remove_dir_all(&self.path).is_ok() {
                let _ = fs::remove_file(self.path.with_extension(LOCK));
            }
        }
    }
}

/// Does with the rows in `path`, whose lock is held, what `placement` says; what was set aside, to
/// be told.
fn clear(path: &Path, placement: Placement) -> Result<Option<String>> {
    let old = left::find(path)?;
    left::refuse_open(&old)?;
    let aside = match placement {
        Placement::Fresh if !old.is_empty() => {
            return Err(Error::Refused(format!(
                "tiers.ssd = {} holds rows of an earlier run; set them aside with --force, go on \
                 from a checkpoint with --resume, or name another directory",
                path.display()
            )));
        }
        Placement::Fresh | Placement::SetAside => old,
        // Rows of a run are what resuming makes anew from the checkpoint, by definition.
        Placement::Resume | Placement::ResumeOrStart | Placement::Append => {
            left::remove_marked(old)?
        }
    };
    if aside.is_empty() {
        return Ok(None);
    }
    let groups = counted(aside.len() as u64, "table group");
    let place = left::set_aside(path, &aside)?;
    Ok(Some(format!(
        "tiers.ssd = {} held rows ({groups}): they were set aside into {}",
        path.display(),
        place.display()
    )))
}

/// Removes the rows that runs left in `place`, where nobody uses it. The directory stays, and its
/// lock: somebody may be about to take it.
fn forget(place: &Path) -> Result<()> {
    let old = left::find(place)?;
    if old.is_empty() {
        return Ok(());
    }
    let Ok(_lock) = DirectoryLock::take(place) else { return Ok(()) };
    left::remove_marked(old).map(|_| ())
}

/// On disk where possible: the usual temporary directory may be memory.
fn temporary_parent() -> PathBuf {
    let on_disk = Path::new("/var/tmp");
    // One that is set to nothing names no directory.
    match std::env::var_os("TMPDIR").filter(|named| !named.is_empty()) {
        Some(named) => named.into(),
        None if on_disk.is_dir() => on_disk.to_owned(),
        None => PathBuf::from("/tmp"),
    }
}

/// A new lock file, locked; none where the name is taken, or a sweep was faster.
fn lock_anew(path: &Path) -> Result<Option<File>> {
    let lock = match File::create_new(path) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => return Ok(None),
        made => made.map_err(file_error("create", path))?,
    };
    lock.lock().map_err(file_error("lock", path))?;
    Ok(is_at(&lock, path).then_some(lock))
}

/// Whether the open file is the one that has this name now.
fn is_at(file: &File, path: &Path) -> bool {
    let identity = |data: fs::Metadata| (data.dev(), data.ino());
    match (file.metadata(), fs::metadata(path)) {
        (Ok(open), Ok(named)) => identity(open) == identity(named),
        _ => false,
    }
}

/// Removes what processes that are gone have left.
fn sweep(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        if !name.is_some_and(|name| name.starts_with(PREFIX)) || !path.is_dir() {
            continue;
        }
        let lock_path = path.with_extension(LOCK);
        let Ok(lock) = File::open(&lock_path) else { continue };
        // Another directory may have got the name since; then the lock in hand is not its lock.
        // It is held until everything is gone.
        if lock.try_lock().is_ok() && is_at(&lock, &lock_path) {
            let _ = fs::remove_dir_all(&path);
            let _ = fs::remove_file(&lock_path);
        }
    }
}

#[cfg(test)]
mod tests;
