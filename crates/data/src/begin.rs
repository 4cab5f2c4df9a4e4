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
const STEP_BYTES: usize = 4096;

/// Bytes that are looked at where the first line does not show what it is.
const LOOKED_BYTES: usize = 64 << 10;

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
    text: Box<dyn Read + Send>,
    layout: Option<&Layout>,
) -> Result<Begun, DataError> {
    let mut start = Start { path, bytes: Vec::new(), text, ended: false };
    let Some(layout) = layout else {
        start.read_up_to(BYTE_ORDER_MARK.len())?;
        start.check()?;
        return Ok(start.begun(None, 0));
    };
    // A line without an end is refused by whoever reads it.
    while memchr(b'\n', &start.bytes).is_none() && !start.ended && start.bytes.len() < BLOCK_BYTES {
        start.read_up_to(start.bytes.len() + STEP_BYTES)?;
    }
    start.check()?;
    // An empty file has no header, whatever the settings say.
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

/// The first bytes of a text, and what follows them.
struct Start<'a> {
    path: &'a Path,
    bytes: Vec<u8>,
    text: Box<dyn Read + Send>,
    /// Whether nothing follows.
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

    /// Refuses what is no UTF-8.
    fn check(&self) -> Result<(), DataError> {
        match is_utf16(&self.bytes) {
            true => Err(DataError::Path { path: self.path.to_owned(), why: UTF16.to_owned() }),
            false => Ok(()),
        }
    }

    /// Bytes of the mark before the text.
    fn mark(&self) -> usize {
        if self.bytes.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 }
    }

    /// The text from its first record on, which so many bytes of names stand before.
    fn begun(mut self, head: Option<Head>, header: usize) -> Begun {
        self.bytes.drain(..self.mark() + header);
        let text = Box::new(Cursor::new(self.bytes).chain(self.text));
        Begun { head: head.map(Arc::new), text }
    }
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
