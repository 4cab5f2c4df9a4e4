//! Where the store of a run lies: in a directory that the user names, or in a temporary one that
//! goes with the process.
//!
//! A temporary directory is locked by its process. What a killed process left is found by its
//! lock being free, and removed by the next run; nothing else is ever removed.

use std::fs::{self, File, TryLockError};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use stepwell_server::Placement;

use crate::{Error, Result};

const PREFIX: &str = "stepwell-scratch-";
const LOCK: &str = "lock";
const ROWS: &str = "rows-";

/// Keeps other runs out of a directory while it lives, also where the process is killed.
#[derive(Debug)]
pub(crate) struct DirectoryLock {
    _file: File,
}

impl DirectoryLock {
    /// Takes the lock of `directory`, which exists.
    pub(crate) fn take(directory: &Path) -> Result<Self> {
        let path = directory.join(format!(".{LOCK}"));
        let options = File::options().create(true).append(true).open(&path);
        let file = options.map_err(file_error("open", &path))?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _file: file }),
            Err(TryLockError::WouldBlock) => Err(Error::Config(format!(
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
}

/// Names what was tried and where.
pub(crate) fn file_error(
    action: &'static str,
    path: &Path,
) -> impl FnOnce(std::io::Error) -> Error {
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

    fn named(path: &Path, placement: Placement) -> Result<Self> {
        fs::create_dir_all(path).map_err(file_error("create directory", path))?;
        let lock = DirectoryLock::take(path)?;
        let old = old_rows(path)?;
        match placement {
            _ if old.is_empty() => {}
            Placement::Fresh => {
                return Err(Error::Config(format!(
                    "tiers.ssd = {} holds rows of an earlier run; set them aside with --force, go \
                     on from a checkpoint with --resume, or name another directory",
                    path.display()
                )));
            }
            Placement::SetAside => set_aside(path, &old)?,
            // They are what resuming makes anew from the checkpoint, by definition.
            Placement::Resume => {
                for rows in &old {
                    fs::remove_dir_all(rows).map_err(file_error("remove", rows))?;
                }
            }
        }
        Ok(Self { path: path.to_owned(), _lock: lock, temporary: false })
    }

    fn temporary() -> Result<Self> {
        let parent = temporary_parent();
        sweep(&parent);
        // The lock is there before the directory, so that no sweep finds one without the other.
        let free = (0u32..).find_map(|number| {
            let path = parent.join(format!("{PREFIX}{}-{number}", std::process::id()));
            lock_anew(&path.with_extension(LOCK)).transpose().map(|lock| (path, lock))
        });
        let Some((path, lock)) = free else {
            return Err(Error::Config(format!("{} is full of scratch", parent.display())));
        };
        let lock = lock?;
        if path.exists() {
            // Its lock was free: nobody uses it.
            fs::remove_dir_all(&path).map_err(file_error("remove", &path))?;
        }
        fs::create_dir(&path).map_err(file_error("create directory", &path))?;
        Ok(Self { path, _lock: DirectoryLock { _file: lock }, temporary: true })
    }

    /// The directory of table group `group`'s store, made if need be.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn rows(&self, group: usize) -> Result<PathBuf> {
        let path = self.path.join(format!("{ROWS}{group}"));
        fs::create_dir_all(&path).map_err(file_error("create directory", &path))?;
        Ok(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if self.temporary {
            // What cannot be removed now is removed by the next run, which knows it by its lock.
            if fs::remove_dir_all(&self.path).is_ok() {
                let _ = fs::remove_file(self.path.with_extension(LOCK));
            }
        }
    }
}

/// On disk where possible: the usual temporary directory may be memory.
fn temporary_parent() -> PathBuf {
    let on_disk = Path::new("/var/tmp");
    if std::env::var_os("TMPDIR").is_none() && on_disk.is_dir() {
        return on_disk.to_owned();
    }
    std::env::temp_dir()
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

fn old_rows(path: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(path).map_err(file_error("list", path))?;
    let mut old = Vec::new();
    for entry in entries {
        let entry = entry.map_err(file_error("list", path))?;
        if entry.file_name().to_string_lossy().starts_with(ROWS) {
            old.push(entry.path());
        }
    }
    Ok(old)
}

fn set_aside(path: &Path, old: &[PathBuf]) -> Result<()> {
    let aside = (1u64..)
        .map(|number| path.join(format!("set-aside-{number}")))
        .find(|path| !path.exists())
        .unwrap_or_else(|| path.join("set-aside"));
    fs::create_dir(&aside).map_err(file_error("create directory", &aside))?;
    for from in old {
        if let Some(name) = from.file_name() {
            fs::rename(from, aside.join(name)).map_err(file_error("set aside", from))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_at_once_never_take_each_others() {
        std::thread::scope(|scope| {
            for _ in 0..6 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let scratch = Scratch::open(None, Placement::Fresh).unwrap();
                        let rows = scratch.rows(0).unwrap();
                        fs::write(rows.join("row"), b"here").unwrap();
                        assert!(rows.join("row").exists());
                    }
                });
            }
        });
    }

    #[test]
    fn a_temporary_directory_goes_with_its_owner() {
        let scratch = Scratch::open(None, Placement::Fresh).unwrap();
        let rows = scratch.rows(0).unwrap();
        assert!(rows.is_dir());
        // Another run's sweep leaves what is in use alone.
        let other = Scratch::open(None, Placement::Fresh).unwrap();
        assert!(rows.is_dir());
        assert_ne!(other.path, scratch.path);
        drop(scratch);
        assert!(!rows.exists());
        // What a killed process left: a directory whose lock nobody holds.
        let left = temporary_parent().join(format!("{PREFIX}0-left"));
        fs::create_dir_all(&left).unwrap();
        fs::write(left.with_extension(LOCK), b"").unwrap();
        drop(Scratch::open(None, Placement::Fresh).unwrap());
        assert!(!left.exists() && !left.with_extension(LOCK).exists());
    }

    #[test]
    fn rows_of_an_earlier_run_are_refused_or_set_aside() {
        let parent = Scratch::open(None, Placement::Fresh).unwrap();
        let named = parent.path.join("ssd");
        let first = Scratch::open(Some(&named), Placement::Fresh).unwrap();
        let rows = first.rows(0).unwrap();
        fs::write(rows.join("segment"), b"rows").unwrap();
        drop(first);
        let refused = Scratch::open(Some(&named), Placement::Fresh).unwrap_err().to_string();
        assert!(refused.contains("--force"), "{refused}");
        let second = Scratch::open(Some(&named), Placement::SetAside).unwrap();
        assert!(named.join("set-aside-1/rows-0/segment").exists());
        assert!(!second.rows(0).unwrap().join("segment").exists());
        let busy = Scratch::open(Some(&named), Placement::SetAside).unwrap_err().to_string();
        assert!(busy.contains("in use"), "{busy}");
        fs::write(second.rows(0).unwrap().join("segment"), b"rows").unwrap();
        drop(second);
        // Resuming makes the rows anew, so it leaves no second copy of them.
        let third = Scratch::open(Some(&named), Placement::Resume).unwrap();
        assert!(!third.rows(0).unwrap().join("segment").exists());
        assert!(!named.join("set-aside-2").exists());
    }
}
