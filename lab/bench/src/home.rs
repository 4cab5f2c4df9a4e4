//! The directory that a benchmark makes for itself, and takes over from one that was killed.
//!
//! - **How.** A lock file lies in it, locked while the benchmark lives. A directory whose lock is
//!   free was left by a benchmark that was killed: its content is removed. One without a lock file
//!   is somebody else's and never touched.

use std::fs::{self, File, TryLockError};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::{Error, Result};

const LOCK: &str = "bench.lock";

/// A directory that goes with its owner.
#[derive(Debug)]
pub(crate) struct Home {
    path: PathBuf,
    _lock: File,
}

impl Home {
    /// Makes the directory, or takes it over.
    ///
    /// # Errors
    /// When another benchmark uses it, when it is no benchmark's, or when it cannot be made.
    pub(crate) fn take(path: &Path) -> Result<Self> {
        let name = path.display();
        let lock_path = path.join(LOCK);
        if path.exists() && !lock_path.is_file() {
            let why = format!("{name} is there and not known to be a benchmark's: remove it");
            return Err(Error::Arguments(why));
        }
        make(path)?;
        let lock = File::options().create(true).append(true).open(&lock_path);
        let lock = lock.map_err(|error| refused("make", &lock_path, &error))?;
        let in_use = || {
            let why = format!("{name} is in use by another benchmark: name another directory");
            Error::Arguments(why)
        };
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(in_use()),
            Err(TryLockError::Error(error)) => return Err(refused("lock", &lock_path, &error)),
        }
        // The one that had it may have removed it in between.
        let same = |open: &fs::Metadata, named: &fs::Metadata| {
            (open.dev(), open.ino()) == (named.dev(), named.ino())
        };
        match (lock.metadata(), fs::metadata(&lock_path)) {
            (Ok(open), Ok(named)) if same(&open, &named) => {}
            _ => return Err(in_use()),
        }
        let home = Self { path: path.to_owned(), _lock: lock };
        home.clear()?;
        Ok(home)
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn clear(&self) -> Result<()> {
        let list = fs::read_dir(&self.path).map_err(|error| refused("list", &self.path, &error))?;
        for path in list.flatten().map(|entry| entry.path()) {
            if path.is_dir() {
                remove(&path)?;
            } else if !path.ends_with(LOCK) {
                fs::remove_file(&path).map_err(|error| refused("remove", &path, &error))?;
            }
        }
        Ok(())
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        // What cannot be removed now is taken over by the next benchmark.
        let _ = self.clear();
        let _ = fs::remove_dir_all(&self.path);
    }
}

pub(crate) fn make(path: &Path) -> Result<()> {
    fs::create_dir_all(path).map_err(|error| refused("make", path, &error))
}

/// Removes a directory, if there is one.
pub(crate) fn remove(path: &Path) -> Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(refused("remove", path, &error))
        }
        _ => Ok(()),
    }
}

fn refused(what: &str, path: &Path, error: &std::io::Error) -> Error {
    Error::Arguments(format!("cannot {what} {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_used_once_and_taken_over_from_the_dead() {
        let outer = std::env::temp_dir().join(format!("stepwell-home-{}", std::process::id()));
        let path = outer.join("bench");
        let home = Home::take(&path).unwrap();
        fs::write(home.path().join("rows"), b"rows").unwrap();
        let busy = Home::take(&path).unwrap_err().to_string();
        assert!(busy.contains("in use"), "{busy}");
        assert!(path.join("rows").exists());
        drop(home);
        assert!(!path.exists());
        // What a killed one left.
        make(&path.join("run")).unwrap();
        fs::write(path.join("examples"), b"many").unwrap();
        fs::write(path.join(LOCK), b"").unwrap();
        let home = Home::take(&path).unwrap();
        assert!(!path.join("examples").exists() && !path.join("run").exists());
        drop(home);
        // What is no benchmark's.
        make(&path).unwrap();
        fs::write(path.join("mine"), b"").unwrap();
        let refused = Home::take(&path).unwrap_err().to_string();
        assert!(refused.contains("remove it") && path.join("mine").exists(), "{refused}");
        fs::remove_dir_all(&outer).unwrap();
    }
}
