//! Files of a checkpoint, with errors that name them.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::{Error, Result};

fn named<T>(action: &'static str, path: &Path, result: std::io::Result<T>) -> Result<T> {
    result.map_err(|source| Error::File { action, path: path.to_owned(), source })
}

pub(super) fn entries(directory: &Path) -> Result<Vec<PathBuf>> {
    let read = named("list", directory, fs::read_dir(directory))?;
    read.map(|entry| named("list", directory, entry.map(|entry| entry.path()))).collect()
}

pub(super) fn create_dir_all(path: &Path) -> Result<()> {
    named("create directory", path, fs::create_dir_all(path))
}

pub(super) fn remove_dir_all(path: &Path) -> Result<()> {
    named("remove", path, fs::remove_dir_all(path))
}

pub(super) fn rename(from: &Path, to: &Path) -> Result<()> {
    named("rename", from, fs::rename(from, to))
}

pub(super) fn read(path: &Path) -> Result<Vec<u8>> {
    named("read", path, fs::read(path))
}

/// Writes a new file and syncs it.
pub(super) fn write_synced(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut file = named("create", path, File::create_new(path))?;
    named("write", path, file.write_all(bytes))?;
    named("sync", path, file.sync_all())
}

pub(super) fn sync_dir(path: &Path) -> Result<()> {
    let directory = named("open", path, File::open(path))?;
    named("sync", path, directory.sync_all())
}
