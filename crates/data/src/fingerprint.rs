//! Detects whether data files have changed since a run last read them.
//!
//! - **Why.** A resumed run continues in the middle of data, and remembers only its position. If
//!   the data has changed, the model silently differs.
//! - **How.** A digest of each file's length and bytes. It covers all bytes if the files have at
//!   most [`READ_MAX`] bytes together. Otherwise it covers blocks of 64 KiB: the first and last of
//!   each file, and evenly spaced ones for the file's share of [`READ_MAX`].
//! - **Cost.** At most [`READ_MAX`] bytes read, and two blocks per file: about a second.
//!
//! So any change in data of up to 1 GiB is found, compressed or not. In larger data, a change is
//! found if it shifts what follows, or covers more than the distance between blocks.

use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use stepwell_base::hash::Digest128;

use crate::data_file::{DataFile, is_stream, length_of};
use crate::error::DataError;
use crate::open_file::explain;

/// Bytes that fingerprints of all files read together, except for both ends of each file.
pub const READ_MAX: u64 = 1 << 30;

const BLOCK: u64 = 64 << 10;

/// Blocks of a remote object to request at once.
const BLOCKS_AHEAD: u64 = 16;

/// Fingerprints of `files`, in order. Each depends on the lengths of all files. A stream has
/// fingerprint 0, as its content is unknown until it is read.
///
/// # Errors
/// A file that can't be read.
pub fn fingerprints(files: &[PathBuf]) -> Result<Vec<u128>, DataError> {
    fingerprints_within(files, READ_MAX)
}

/// Fingerprint of a file's length and of its first and last 64 KiB; `None` for a stream.
///
/// # Errors
/// A file that can't be read.
pub fn fingerprint_of_ends(file: &Path) -> Result<Option<u128>, DataError> {
    if is_stream(file) {
        return Ok(None);
    }
    let fail =
        |error: std::io::Error| DataError::Path { path: file.to_owned(), why: explain(&error) };
    let bytes = length_of(file)?;
    let mut data = DataFile::open(file)?;
    let mut digest = Digest128::new();
    digest.update(&bytes.to_le_bytes());
    let mut buffer = Vec::new();
    for start in [0, bytes.saturating_sub(BLOCK)] {
        data.seek(SeekFrom::Start(start)).map_err(fail)?;
        buffer.clear();
        data.by_ref().take(BLOCK).read_to_end(&mut buffer).map_err(fail)?;
        digest.update(&buffer);
    }
    Ok(Some(digest.value()))
}

fn fingerprints_within(files: &[PathBuf], read_max: u64) -> Result<Vec<u128>, DataError> {
    let fail = |path: &Path| {
        let path = path.to_owned();
        move |error: std::io::Error| DataError::Path { path, why: explain(&error) }
    };
    let lengths: Vec<u64> =
        files.iter().map(|path| length_of(path)).collect::<Result<_, DataError>>()?;
    let total: u128 = lengths.iter().map(|bytes| u128::from(*bytes)).sum();
    let mut buffer = Vec::new();
    let mut found = Vec::with_capacity(files.len());
    for (path, bytes) in files.iter().zip(lengths) {
        let share = u128::from(bytes) * u128::from(read_max) / total.max(u128::from(read_max));
        if is_stream(path) {
            found.push(0);
            continue;
        }
        let file = DataFile::open(path)?;
        found.push(of_file(file, bytes, share as u64, &mut buffer).map_err(fail(path))?);
    }
    Ok(found)
}

/// Fingerprint of a file of `bytes` bytes that reads about `share` of them.
fn of_file(
    mut file: DataFile,
    bytes: u64,
    share: u64,
    buffer: &mut Vec<u8>,
) -> std::io::Result<u128> {
    let mut digest = Digest128::new();
    digest.update(&bytes.to_le_bytes());
    let all = bytes.div_ceil(BLOCK);
    let read = if share >= bytes { all } else { (share / BLOCK).clamp(all.min(2), all) };
    // The first, the last, and evenly spaced blocks between them.
    let start_of = |number: u64| {
        let spread = u128::from(number) * u128::from(all - 1) / u128::from(read.max(2) - 1);
        spread as u64 * BLOCK
    };
    let mut at = None;
    for number in 0..read {
        let start = start_of(number);
        if number % BLOCKS_AHEAD == 0 && read < all {
            let ahead = (number..read.min(number + BLOCKS_AHEAD)).map(start_of);
            let ahead: Vec<_> = ahead.map(|start| start..bytes.min(start + BLOCK)).collect();
            file.will_read(&ahead)?;
        }
        if at != Some(start) {
            file.seek(SeekFrom::Start(start))?;
        }
        buffer.clear();
        file.by_ref().take(BLOCK).read_to_end(buffer)?;
        digest.update(buffer);
        at = Some(start + BLOCK);
    }
    Ok(digest.value())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes a file of `bytes` bytes without equal blocks.
    fn file(folder: &Path, name: &str, bytes: usize) -> PathBuf {
        let path = folder.join(name);
        let content: Vec<u8> = (0..bytes as u64).map(|n| (n * n / 7 + n / 4096) as u8).collect();
        std::fs::write(&path, content).unwrap();
        path
    }

    fn change(path: &Path, at: usize) {
        let mut content = std::fs::read(path).unwrap();
        content[at] ^= 1;
        std::fs::write(path, content).unwrap();
    }

    #[test]
    fn every_byte_counts_where_files_are_small() {
        let folder = tempfile::tempdir().unwrap();
        for bytes in [1, 100, BLOCK as usize, BLOCK as usize + 1, 3 * BLOCK as usize + 5] {
            let files = [file(folder.path(), "a", bytes), file(folder.path(), "b", 1000)];
            let was = fingerprints(&files).unwrap();
            for at in (0..bytes).step_by(bytes.div_ceil(40)).chain([bytes - 1]) {
                change(&files[0], at);
                let now = fingerprints(&files).unwrap();
                assert!(now[0] != was[0] && now[1] == was[1], "byte {at} of {bytes}");
                change(&files[0], at);
            }
            assert_eq!(fingerprints(&files).unwrap(), was);
        }
    }

    #[test]
    fn blocks_of_large_files_are_spread_and_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let (block, blocks) = (BLOCK as usize, 32);
        let files = [file(folder.path(), "a", blocks * block)];
        let read_max = 8 * BLOCK;
        let was = fingerprints_within(&files, read_max).unwrap();
        let found = |number: usize| {
            change(&files[0], number * block + 17);
            let now = fingerprints_within(&files, read_max).unwrap();
            change(&files[0], number * block + 17);
            now != was
        };
        let seen: Vec<usize> = (0..blocks).filter(|number| found(*number)).collect();
        assert_eq!(seen, [0, 4, 8, 13, 17, 22, 26, 31]);
    }

    #[test]
    fn an_empty_file_has_a_fingerprint_and_a_lost_one_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let files = [file(folder.path(), "empty", 0), file(folder.path(), "a", 1)];
        assert_eq!(fingerprints(&files).unwrap().len(), 2);
        std::fs::remove_file(&files[1]).unwrap();
        let error = fingerprints(&files).unwrap_err().to_string();
        assert!(error.contains("does not exist"), "{error}");
    }
}
