//! Counts the lines of files without parsing them.

use std::io::Read;
use std::path::{Path, PathBuf};

use memchr::{memchr_iter, memrchr};
use stepwell_base::stop::StopRequest;

use crate::compression::{Content, broken};
use crate::error::DataError;
use crate::file_reader::open_as;
use crate::files::Files;
use crate::first_line::{Begun, begin, without_blank_end};
use crate::layout::Layout;
use crate::lines::too_long;
use crate::read_options::BLOCK_BYTES;

/// Lines of each file, including a last line without a line end. For a packed file, the number of
/// examples, which is read from its footer.
///
/// # Errors
/// A file that can't be read or decompressed, a damaged file, or a line longer than
/// [`BLOCK_BYTES`].
pub fn lines_of_each(files: &[PathBuf]) -> Result<Vec<u64>, DataError> {
    lines_of_each_until(files, &StopRequest::new())
}

/// Like [`lines_of_each`], but stops when `stop` is requested.
///
/// # Errors
/// The errors of [`lines_of_each`], and [`DataError::Stopped`].
pub fn lines_of_each_until(files: &[PathBuf], stop: &StopRequest) -> Result<Vec<u64>, DataError> {
    files.iter().map(|path| lines_of(path, None, stop)).collect()
}

/// Records of each of `files`: lines without headers and without an empty last line. Stops when
/// `stop` is requested.
pub(crate) fn records_of_each(files: &Files, stop: &StopRequest) -> Result<Vec<u64>, DataError> {
    let layout = files.layout.as_deref();
    files.paths.iter().map(|path| lines_of(path, layout, stop)).collect()
}

/// Whether the file has no records. Reads only the start of a text file. Returns false if the file
/// can't be read or doesn't match `layout`: the reader reports that error.
pub fn has_no_record(path: &Path, layout: Option<&Layout>) -> bool {
    let begun = match open_as(path, layout) {
        Ok(Content::Text(text)) => begin(path, text, layout),
        Ok(Content::Packed(file)) => return file.examples() == 0,
        Ok(Content::Columns(file)) => return file.rows() == 0,
        Err(_) => return false,
    };
    let first = |begun: Begun| begun.text.take(1).read_to_end(&mut Vec::new()).ok();
    begun.ok().and_then(first) == Some(0)
}

/// Total lines of all files; see [`lines_of_each`].
///
/// # Errors
/// The errors of [`lines_of_each`].
pub fn count_lines(files: &[PathBuf]) -> Result<u64, DataError> {
    Ok(lines_of_each(files)?.iter().sum())
}

fn lines_of(path: &Path, layout: Option<&Layout>, stop: &StopRequest) -> Result<u64, DataError> {
    let begun = match open_as(path, layout)? {
        Content::Text(text) => begin(path, text, layout)?,
        Content::Packed(file) => return Ok(file.examples()),
        Content::Columns(file) => return Ok(file.rows()),
    };
    let header = begun.head.map_or(0, |head| u64::from(head.header_lines));
    let (mut source, mut buffer) = (begun.text, Vec::with_capacity(BLOCK_BYTES));
    // Bytes after the last line end, which form a line at the end of the file.
    let (mut lines, mut unended) = (0, 0);
    // Whether the last line is empty.
    let (mut end, mut blank) = (Vec::new(), false);
    loop {
        if stop.is_made() {
            return Err(DataError::Stopped);
        }
        buffer.clear();
        let read = source.as_mut().take(BLOCK_BYTES as u64).read_to_end(&mut buffer);
        lines += memchr_iter(b'\n', &buffer).count() as u64;
        let line = header + lines;
        read.map_err(|e| DataError::Read { path: path.to_owned(), line, why: broken(&e) })?;
        if buffer.is_empty() {
            let blank = u64::from(blank && layout.is_some());
            return Ok(lines + u64::from(unended > 0) - blank);
        }
        // A line end may be split between two reads.
        end.extend_from_slice(&buffer[buffer.len().saturating_sub(3)..]);
        end.drain(..end.len().saturating_sub(3));
        blank = without_blank_end(&end, lines.saturating_sub(1)) < end.len();
        unended = match memrchr(b'\n', &buffer) {
            Some(end) => buffer.len() - end - 1,
            None => unended + buffer.len(),
        };
        if unended >= BLOCK_BYTES {
            return Err(too_long(path, line, BLOCK_BYTES));
        }
    }
}
