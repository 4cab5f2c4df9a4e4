//! How many lines files have, without parsing one.

use std::io::Read;
use std::path::{Path, PathBuf};

use memchr::memchr_iter;

use crate::DataError;
use crate::compression::{Content, open};
use crate::lines::{BLOCK_BYTES, broken};

/// Lines of each file, a last one without a line end included; of a packed file its examples,
/// which its end tells. Nothing is parsed.
///
/// # Errors
/// A file that cannot be read or decompressed, that is damaged, or that is empty.
pub fn lines_of_each(files: &[PathBuf]) -> Result<Vec<u64>, DataError> {
    files.iter().map(|path| lines_of(path)).collect()
}

/// Lines of all files together, as [`lines_of_each`].
///
/// # Errors
/// A file that cannot be read or decompressed, or that is empty.
pub fn count_lines(files: &[PathBuf]) -> Result<u64, DataError> {
    Ok(lines_of_each(files)?.iter().sum())
}

fn lines_of(path: &Path) -> Result<u64, DataError> {
    let mut source = match open(path)? {
        Content::Text(text) => text,
        Content::Packed(file) => return Ok(file.examples()),
    };
    let mut buffer = Vec::with_capacity(BLOCK_BYTES);
    let (mut lines, mut last) = (0, b'\n');
    loop {
        buffer.clear();
        let read = source.as_mut().take(BLOCK_BYTES as u64).read_to_end(&mut buffer);
        lines += memchr_iter(b'\n', &buffer).count() as u64;
        read.map_err(|e| DataError::Read { path: path.to_owned(), line: lines, why: broken(&e) })?;
        match buffer.last() {
            Some(byte) => last = *byte,
            None => break,
        }
    }
    lines += u64::from(last != b'\n');
    if lines == 0 {
        return Err(DataError::Path { path: path.to_owned(), why: "is empty".to_owned() });
    }
    Ok(lines)
}
