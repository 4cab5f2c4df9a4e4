//! Files of a checkpoint, with errors that name them.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use super::dense::Piece;
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

/// Makes a directory that is not there.
pub(super) fn create_dir(path: &Path) -> Result<()> {
    named("create directory", path, fs::create_dir(path))
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

/// Writes a new file piece by piece and syncs it.
pub(super) fn write_pieces_synced(path: &Path, pieces: impl Iterator<Item = Piece>) -> Result<()> {
    let mut file = named("create", path, File::create_new(path))?;
    for piece in pieces {
        named("write", path, file.write_all(piece.bytes()))?;
    }
    named("sync", path, file.sync_all())
}

/// Reads a file piece by piece; all but the last piece are `piece_bytes` long.
pub(super) fn read_pieces(
    path: &Path,
    piece_bytes: usize,
    mut take: impl FnMut(&[u8]),
) -> Result<()> {
    let mut file = named("open", path, File::open(path))?;
    let mut piece = Vec::with_capacity(piece_bytes);
    loop {
        piece.clear();
        named(
            "read",
            path,
            Read::by_ref(&mut file).take(piece_bytes as u64).read_to_end(&mut piece),
        )?;
        if piece.is_empty() {
            return Ok(());
        }
        take(&piece);
    }
}

/// Length of a file.
pub(super) fn length(path: &Path) -> Result<u64> {
    Ok(named("look at", path, fs::metadata(path))?.len())
}

pub(super) fn sync_dir(path: &Path) -> Result<()> {
    let directory = named("open", path, File::open(path))?;
    named("sync", path, directory.sync_all())
}
