//! A benchmark's own directory, which it can reuse after an earlier benchmark was killed.
//!
//! - **How.** The directory contains a lock file, locked while the benchmark runs. If the lock is
//!   free, the benchmark that made the directory was killed, and its files are removed. A directory
//!   without a lock file belongs to someone else and is never modified.

use std::fs::{self, File, TryLockError};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::{Error, Result};

const LOCK: &str = "bench.lock";

/// A directory that is removed on drop.
#[derive(Debug)]
pub(crate) struct Home {
    path: PathBuf,
    _lock: File,
}

impl Home {
    /// Creates the directory, or reuses one.
    ///
    /// # Errors
    /// The directory is in use by another benchmark, isn't a benchmark's, or can't be created.
    pub(crate) fn take(path: &Path) -> Result<Self> {
        let name = path.display();
        let lock_path = path.join(LOCK);
        if path.exists() && !lock_path.is_file() {
            let why = format!("{name} exists and was not created by a benchmark: remove it");
            return Err(Error::Arguments(why));
        }
        make(path)?;
        let lock = File::options().create(true).append(true).open(&lock_path);
        let lock = lock.map_err(|error| refused("make", &lock_path, &error))?;
        let in_use = || {
            let why = format!("{name} is in use by another benchmark: choose another directory");
            Error::Arguments(why)
        };
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(in_use()),
            Err(TryLockError::Error(error)) => return Err(refused("lock", &lock_path, &error)),
        }
        // The previous owner may have removed the file in between.
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

    /// Path of the directory.
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
        // The next benchmark cleans up what can't be removed now.
        let _ = self.clear();
        let _ = fs::remove_dir_all(&self.path);
    }
}

pub(crate) fn make(path: &Path) -> Result<()> {
    fs::create_dir_all(path).map_err(|error| refused("make", path, &error))
}

/// Removes a directory, if it exists.
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
        // Files of a killed benchmark.
        make(&path.join("run")).unwrap();
        fs::write(path.join("examples"), b"many").unwrap();
        fs::write(path.join(LOCK), b"").unwrap();
        let home = Home::take(&path).unwrap();
        assert!(!path.join("examples").exists() && !path.join("run").exists());
        drop(home);
        // A directory that isn't a benchmark's.
        make(&path).unwrap();
        fs::write(path.join("mine"), b"").unwrap();
        let refused = Home::take(&path).unwrap_err().to_string();
        assert!(refused.contains("remove it") && path.join("mine").exists(), "{refused}");
        fs::remove_dir_all(&outer).unwrap();
    }
}
