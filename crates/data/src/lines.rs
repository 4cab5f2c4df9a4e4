//! Reads a text file in blocks of whole lines.
//!
//! Why: decompression is sequential, parsing isn't. One thread cuts a file into blocks of whole
//! lines and counts them. Any number of threads parse the blocks, each of which knows its position.
//!
//! How: fills a block to its size and cuts it after the last line end. The remainder, less than a
//! line, moves to the front of the next block.
//!
//! Invariants:
//! - DATA-I1: the concatenated blocks of a file are the file;
//! - DATA-I2: a block ends with a line end, except for the last block of a file that doesn't;
//! - DATA-I3: where blocks are cut depends only on the file, the block size and the starting
//!   position, never on how many bytes a read returns.
//!
//! Cost: two buffers of `block_bytes` (the caller's block and the remainder) and the decompressor's
//! (see `compression.rs`). Counting line ends takes one pass, about 0.05 ns per byte.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use memchr::{memchr_iter, memrchr};

use crate::block::{Block, lines_in};
use crate::compression::broken;
use crate::error::DataError;
use crate::first_line::{Begun, begin, without_blank_end};
use crate::head::Head;
use crate::layout::Layout;
use crate::packed::{HEAD_BYTES, is_packed};

/// Reads one file as blocks of whole lines.
pub(crate) struct LineReader {
    path: PathBuf,
    index: u32,
    block_bytes: usize,
    /// Lines before the next block.
    line: u64,
    /// The file; `None` once it has been read to its end.
    source: Option<Box<dyn Read + Send>>,
    /// Bytes read past the last block.
    rest: Vec<u8>,
    /// How lines become records; `None` for plain lines.
    head: Option<Arc<Head>>,
    /// Most lines per block.
    lines_max: usize,
}

impl std::fmt::Debug for LineReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LineReader")
            .field("path", &self.path)
            .field("line", &self.line)
            .finish_non_exhaustive()
    }
}

impl LineReader {
    /// Starts after `lines` lines of `source`, the text of file number `index` of a list. These
    /// lines are counted, not parsed.
    ///
    /// # Errors
    /// A file that can't be read, or that has fewer lines.
    pub(crate) fn open(
        path: &Path,
        index: u32,
        source: Box<dyn Read + Send>,
        lines: u64,
        block_bytes: usize,
        layout: Option<&Layout>,
    ) -> Result<Self, DataError> {
        assert!(block_bytes > 0, "a block has room for at least one byte");
        assert!(u32::try_from(block_bytes).is_ok(), "offsets within a block are 32 bits wide");
        let Begun { head, text: source } = begin(path, source, layout)?;
        let lines_max = layout.map_or(usize::MAX, |layout| layout.records_max(block_bytes));
        let (path, source, rest) = (path.to_owned(), Some(source), Vec::new());
        let mut reader = Self { path, index, block_bytes, line: 0, source, rest, head, lines_max };
        reader.pass_over(lines)?;
        Ok(reader)
    }

    /// Fills `block` with the next lines. Returns false at the end of the file.
    ///
    /// # Errors
    /// A file that can't be read or decompressed, or a line longer than a block.
    pub(crate) fn next_block(&mut self, block: &mut Block) -> Result<bool, DataError> {
        self.fill(block)?;
        Ok(block.lines > 0)
    }

    /// Skips lines without parsing until `wanted` of them have been read.
    fn pass_over(&mut self, wanted: u64) -> Result<(), DataError> {
        let mut block = Block::default();
        while self.line < wanted {
            self.fill(&mut block)?;
            if block.lines == 0 {
                let why = format!("the file has {} lines; it may have changed", self.line);
                return Err(DataError::Position { path: self.path.clone(), wanted, why });
            }
            let first = block.first_line;
            if self.line > wanted {
                self.put_back(&block, (wanted - first) as usize);
                self.line = wanted;
            }
        }
        Ok(())
    }

    /// Puts back all but the first `lines` lines of `block`.
    fn put_back(&mut self, block: &Block, lines: usize) {
        let ends = memchr_iter(b'\n', &block.bytes);
        let cut = ends.take(lines).last().map_or(0, |end| end + 1);
        self.rest.splice(..0, block.bytes[cut..].iter().copied());
    }

    /// Reads the next block; without lines at the end of the file.
    fn fill(&mut self, block: &mut Block) -> Result<(), DataError> {
        (block.file, block.first_line, block.packed) = (self.index, self.line, None);
        block.head.clone_from(&self.head);
        block.bytes.clear();
        block.bytes.reserve_exact(self.block_bytes);
        block.bytes.append(&mut self.rest);
        self.read_up(&mut block.bytes)?;
        if self.line == 0 && block.bytes.get(..HEAD_BYTES).is_some_and(is_packed) {
            let why = "holds packed examples inside gzip or zstd; decompress it first".to_owned();
            return Err(DataError::Path { path: self.path.clone(), why });
        }
        let whole = self.whole_lines(&block.bytes)?;
        let whole = self.few_lines(&block.bytes[..whole]);
        let whole = self.before_blank(&block.bytes[..whole]);
        self.rest.extend_from_slice(&block.bytes[whole..]);
        block.bytes.truncate(whole);
        block.lines = lines_in(&block.bytes);
        self.line += u64::from(block.lines);
        Ok(())
    }

    /// Reads until `bytes` is a full block or the file ends.
    fn read_up(&mut self, bytes: &mut Vec<u8>) -> Result<(), DataError> {
        let Some(source) = &mut self.source else { return Ok(()) };
        let room = self.block_bytes - bytes.len();
        match source.take(room as u64).read_to_end(bytes) {
            Ok(read) => {
                if read < room {
                    self.source = None;
                    if self.head.is_some() {
                        bytes.truncate(without_blank_end(bytes, self.line));
                    }
                }
                Ok(())
            }
            Err(error) => {
                let ends = memchr_iter(b'\n', bytes).count();
                let line = self.header_lines() + self.line + ends as u64;
                Err(DataError::Read { path: self.path.clone(), line, why: broken(&error) })
            }
        }
    }

    /// Lines of the header.
    fn header_lines(&self) -> u64 {
        self.head.as_ref().map_or(0, |head| head.header_lines.into())
    }

    /// Length of the first `lines_max` lines of `bytes`, which are whole lines.
    fn few_lines(&self, bytes: &[u8]) -> usize {
        // A line takes at least one byte.
        if bytes.len() <= self.lines_max {
            return bytes.len();
        }
        let end = memchr_iter(b'\n', bytes).nth(self.lines_max - 1);
        end.map_or(bytes.len(), |end| end + 1)
    }

    /// Length of `bytes`, which are whole lines, without an empty last line while the file may end
    /// there, too. The next block starts with that line.
    fn before_blank(&self, bytes: &[u8]) -> usize {
        match (&self.head, &self.source) {
            // If the block contains nothing else, return it now.
            (Some(_), Some(_)) => match without_blank_end(bytes, self.line) {
                0 => bytes.len(),
                before => before,
            },
            _ => bytes.len(),
        }
    }

    /// Length of the whole lines in `bytes`.
    fn whole_lines(&self, bytes: &[u8]) -> Result<usize, DataError> {
        if self.source.is_none() {
            return Ok(bytes.len());
        }
        let end = memrchr(b'\n', bytes).map(|end| end + 1);
        end.ok_or_else(|| too_long(&self.path, self.header_lines() + self.line, bytes.len()))
    }
}

/// Error for the line after `lines` lines, which doesn't end within `bytes` bytes.
pub(crate) fn too_long(path: &Path, lines: u64, bytes: usize) -> DataError {
    let (path, line) = (path.to_owned(), lines + 1);
    let why = format!("the line is longer than {bytes} bytes; is this a text file?");
    DataError::Malformed { path, line, column: 1, why, skip_max: 0 }
}
