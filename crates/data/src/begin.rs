//! The beginning of a text: its first line is looked at, and left out where it names the columns.

use std::io::{Cursor, Read};
use std::path::Path;
use std::sync::Arc;

use memchr::memchr;

use crate::DataError;
use crate::compression::broken;
use crate::layout::Layout;
use crate::lines::BLOCK_BYTES;
use crate::record::Head;

/// Bytes that are read at once until the first line has its end.
const STEP_BYTES: u64 = 4096;

/// A mark that some programs put before text in UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// What to say of a text in UTF-16.
pub(crate) const UTF16: &str =
    "is text in UTF-16, and text is read in UTF-8: write it so, for example with `iconv -f utf-16`";

/// Whether a text begins as one in UTF-16 does.
pub(crate) fn is_utf16(text: &[u8]) -> bool {
    text.starts_with(b"\xFF\xFE") || text.starts_with(b"\xFE\xFF")
}

/// A text that is read from its first record on.
pub(crate) struct Begun {
    /// What its first line says; none where lines are plain.
    pub(crate) head: Option<Arc<Head>>,
    pub(crate) text: Box<dyn Read + Send>,
}

/// Looks at the first line of `text`, that of the file at `path`, for a reader of `layout`.
pub(crate) fn begin(
    path: &Path,
    mut text: Box<dyn Read + Send>,
    layout: Option<&Layout>,
) -> Result<Begun, DataError> {
    let Some(layout) = layout else { return Ok(Begun { head: None, text }) };
    let mut start = Vec::new();
    let end = loop {
        let from = start.len();
        let read = text.as_mut().take(STEP_BYTES).read_to_end(&mut start);
        let read = read.map_err(|error| DataError::Read {
            path: path.to_owned(),
            line: 0,
            why: broken(&error),
        })?;
        if let Some(end) = memchr(b'\n', &start[from..]) {
            break from + end + 1;
        }
        // A line without an end is refused by whoever reads it.
        if read < STEP_BYTES as usize || start.len() >= BLOCK_BYTES {
            break start.len();
        }
    };
    if is_utf16(&start) {
        return Err(DataError::Path { path: path.to_owned(), why: UTF16.to_owned() });
    }
    // A file of nothing names nothing, whatever is said of headers.
    if start.is_empty() {
        return Ok(Begun { head: Some(Arc::new(Head::of_nothing(layout))), text });
    }
    let line = start[..end].strip_suffix(b"\n").unwrap_or(&start[..end]);
    let head = Head::of(layout, path, line.strip_suffix(b"\r").unwrap_or(line))?;
    let skip = match head.header_lines {
        0 if start.starts_with(BYTE_ORDER_MARK) => BYTE_ORDER_MARK.len(),
        0 => 0,
        _ => end,
    };
    start.drain(..skip);
    let text = Box::new(Cursor::new(start).chain(text));
    Ok(Begun { head: Some(Arc::new(head)), text })
}

/// Bytes of `text`, the end of a file, without a last line that is empty, as some programs leave
/// one; a file that has nothing else, whether `more` stands before it, keeps it.
pub(crate) fn without_blank_end(text: &[u8], more: bool) -> usize {
    for blank in [&b"\r\n"[..], b"\n"] {
        if let Some(before) = text.strip_suffix(blank)
            && (before.ends_with(b"\n") || (before.is_empty() && more))
        {
            return before.len();
        }
    }
    text.len()
}
