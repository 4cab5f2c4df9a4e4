//! Start of a text: examines the first line, and skips it if it names the columns.

use std::io::{Cursor, Read};
use std::path::Path;
use std::sync::Arc;

use memchr::memchr;

use crate::compression::broken;
use crate::error::DataError;
use crate::head::Head;
use crate::layout::Layout;
use crate::read_options::BLOCK_BYTES;

/// Bytes per read until the first line is complete.
const STEP_BYTES: usize = 4096;

/// Bytes to examine if the first line is inconclusive.
const LOOKED_BYTES: usize = 64 << 10;

/// Byte order mark, which some programs write before UTF-8 text.
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// Error for text in UTF-16.
pub(crate) const UTF16: &str =
    "is UTF-16 text, but only UTF-8 is read: convert it, for example with `iconv -f utf-16`";

/// Whether a text starts with a UTF-16 byte order mark.
pub(crate) fn is_utf16(text: &[u8]) -> bool {
    text.starts_with(b"\xFF\xFE") || text.starts_with(b"\xFE\xFF")
}

/// A text, positioned at its first record.
pub(crate) struct Begun {
    /// Result of examining the first line; `None` for plain lines.
    pub(crate) head: Option<Arc<Head>>,
    pub(crate) text: Box<dyn Read + Send>,
}

/// Examines the first line of `text`, the contents of the file at `path`, for a reader of `layout`.
pub(crate) fn begin(
    path: &Path,
    text: Box<dyn Read + Send>,
    layout: Option<&Layout>,
) -> Result<Begun, DataError> {
    let mut start = Start { path, bytes: Vec::new(), text, ended: false };
    let Some(layout) = layout else {
        start.read_up_to(BYTE_ORDER_MARK.len())?;
        start.check()?;
        return Ok(start.begun(None, 0));
    };
    // The reader reports a line without an end.
    while memchr(b'\n', &start.bytes).is_none() && !start.ended && start.bytes.len() < BLOCK_BYTES {
        start.read_up_to(start.bytes.len() + STEP_BYTES)?;
    }
    start.check()?;
    // An empty file has no header, regardless of the settings.
    if start.bytes.is_empty() {
        return Ok(start.begun(Some(Head::of_nothing(layout, path)?), 0));
    }
    loop {
        let is_all = start.ended || start.bytes.len() >= LOOKED_BYTES;
        let text = &start.bytes[start.mark()..];
        let Some(head) = Head::of(layout, path, text, is_all)? else {
            start.read_up_to(LOOKED_BYTES)?;
            continue;
        };
        let end = memchr(b'\n', text).map_or(text.len(), |end| end + 1);
        let header = if head.header_lines == 0 { 0 } else { end };
        return Ok(start.begun(Some(head), header));
    }
}

/// First bytes of a text, and the unread rest.
struct Start<'a> {
    path: &'a Path,
    bytes: Vec<u8>,
    text: Box<dyn Read + Send>,
    /// Whether the text has ended.
    ended: bool,
}

impl Start<'_> {
    /// Reads until `bytes` bytes are buffered or the text ends.
    fn read_up_to(&mut self, bytes: usize) -> Result<(), DataError> {
        let more = bytes.saturating_sub(self.bytes.len());
        let read = self.text.as_mut().take(more as u64).read_to_end(&mut self.bytes);
        let read = read.map_err(|error| DataError::Read {
            path: self.path.to_owned(),
            line: 0,
            why: broken(&error),
        })?;
        self.ended |= read < more;
        Ok(())
    }

    /// Returns an error for UTF-16.
    fn check(&self) -> Result<(), DataError> {
        match is_utf16(&self.bytes) {
            true => Err(DataError::Path { path: self.path.to_owned(), why: UTF16.to_owned() }),
            false => Ok(()),
        }
    }

    /// Length of the byte order mark.
    fn mark(&self) -> usize {
        if self.bytes.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 }
    }

    /// The text without its byte order mark and `header` bytes of column names.
    fn begun(mut self, head: Option<Head>, header: usize) -> Begun {
        self.bytes.drain(..self.mark() + header);
        let text = Box::new(Cursor::new(self.bytes).chain(self.text));
        Begun { head: head.map(Arc::new), text }
    }
}

/// Length of `text`, the end of a file, without an empty last line, which some programs write.
/// `lines` lines precede it: a file that consists of an empty line keeps that line.
pub(crate) fn without_blank_end(text: &[u8], lines: u64) -> usize {
    for blank in [&b"\r\n"[..], b"\n"] {
        if let Some(before) = text.strip_suffix(blank)
            && (before.ends_with(b"\n") || (before.is_empty() && lines > 0))
        {
            return before.len();
        }
    }
    text.len()
}
