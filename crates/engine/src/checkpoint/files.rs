//! Files of a checkpoint.

use stepwell_disk::{Disk, EntryKind};

use crate::Result;
use crate::dense::Piece;

/// Limit on the size of every file except the dense part.
const TEXT_BYTES_MAX: u64 = 1 << 30;

/// Whether a file of this name exists; a link to a file counts.
pub(super) fn is_there(disk: &dyn Disk, name: &str) -> Result<bool> {
    let mut entries = disk.entries()?.into_iter();
    Ok(match entries.find(|(found, _)| found == name) {
        Some((_, EntryKind::File)) => true,
        Some((_, EntryKind::Other)) => disk.open(name).is_ok(),
        Some((_, EntryKind::Directory)) | None => false,
    })
}

/// Reads a whole file, other than the dense part.
pub(super) fn read(disk: &dyn Disk, name: &str) -> Result<Vec<u8>> {
    Ok(disk.read(name, TEXT_BYTES_MAX)?)
}

/// Writes a new file and syncs it.
pub(super) fn write_synced(disk: &dyn Disk, name: &str, bytes: &[u8]) -> Result<()> {
    let file = disk.create(name)?;
    file.write_at(0, bytes)?;
    Ok(file.sync()?)
}

/// Writes a new file piece by piece and syncs it.
pub(super) fn write_pieces_synced(
    disk: &dyn Disk,
    name: &str,
    pieces: impl Iterator<Item = Piece>,
) -> Result<()> {
    let (file, mut written) = (disk.create(name)?, 0);
    for piece in pieces {
        file.write_at(written, piece.bytes())?;
        written += piece.bytes().len() as u64;
    }
    Ok(file.sync()?)
}

/// Reads a file piece by piece; all but the last piece are `piece_bytes` long.
pub(super) fn read_pieces(
    disk: &dyn Disk,
    name: &str,
    piece_bytes: usize,
    mut take: impl FnMut(&[u8]),
) -> Result<()> {
    let file = disk.open(name)?;
    let (bytes, mut read) = (file.len()?, 0);
    let mut piece = vec![0; piece_bytes];
    while read < bytes {
        let length = (bytes - read).min(piece_bytes as u64) as usize;
        file.read_at(read, &mut piece[..length])?;
        take(&piece[..length]);
        read += length as u64;
    }
    Ok(())
}

/// Length of a file.
pub(super) fn length(disk: &dyn Disk, name: &str) -> Result<u64> {
    Ok(disk.open(name)?.len()?)
}
