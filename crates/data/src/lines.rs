//! Blocks of whole lines, read from a file of text.
//!
//! Why: decompressing is sequential, parsing is not. One thread cuts a file into blocks of
//! whole lines and counts them; any number of threads parse the blocks, each of which knows where
//! it stood.
//!
//! How: a block is filled up to its size and cut after its last line end; what is left over, less
//! than a line, moves to the front of the next block.
//!
//! Invariants
//! - I1 the blocks of a file, one after the other, are the file;
//! - I2 a block ends with a line end, unless it is the last of a file that does not;
//! - I3 where blocks are cut depends on the file, the block size and the starting position
//!   alone, never on how many bytes the system returns at once.
//!
//! Cost: two buffers of `block_bytes` (the caller's block and the remainder) and the
//! decompressor's (see `compression.rs`); one pass to count line ends, about 0.05 ns a byte.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use memchr::{memchr_iter, memrchr};

use crate::DataError;
use crate::begin::{Begun, begin, without_blank_end};
use crate::block::Block;
use crate::compression::broken;
use crate::layout::Layout;
use crate::packed::{HEAD_BYTES, is_packed};
use crate::record::Head;

/// Bytes of a block unless the caller says otherwise; no line may be longer.
pub const BLOCK_BYTES: usize = 1 << 20;

/// Reads one file as blocks of whole lines.
pub(crate) struct LineReader {
    path: PathBuf,
    index: u32,
    block_bytes: usize,
    /// Lines before the next block.
    line: u64,
    /// The file, unless it has been read to its end.
    source: Option<Box<dyn Read + Send>>,
    /// Bytes read beyond the last block.
    rest: Vec<u8>,
    /// How its lines are records; none where they are plain.
    head: Option<Arc<Head>>,
    /// Lines that a block has at most.
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
    /// Starts behind `lines` lines of `source`, the text of file number `index` of a list; those
    /// lines are counted, not parsed.
    ///
    /// # Errors
    /// A file that cannot be read, or that has fewer lines.
    pub(crate) fn open(
        path: &Path,
        index: u32,
        source: Box<dyn Read + Send>,
        lines: u64,
        (block_bytes, layout): (usize, Option<&Layout>),
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

    /// Fills `block` with the next lines; false at the end of the file.
    ///
    /// # Errors
    /// A file that cannot be read or decompressed, or a line longer than a block.
    pub(crate) fn next_block(&mut self, block: &mut Block) -> Result<bool, DataError> {
        self.fill(block)?;
        Ok(block.lines > 0)
    }

    /// Reads on without looking at the lines until `wanted` of them lie behind.
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

    /// Takes back all but the first `lines` lines of `block`.
    fn put_back(&mut self, block: &Block, lines: usize) {
        let ends = memchr_iter(b'\n', &block.bytes);
        let cut = ends.take(lines).last().map_or(0, |end| end + 1);
        self.rest.splice(..0, block.bytes[cut..].iter().copied());
    }

    /// The next block; of no lines at the end.
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
                        bytes.truncate(without_blank_end(bytes, self.line > 0));
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

    /// Lines before the first record.
    fn header_lines(&self) -> u64 {
        self.head.as_ref().map_or(0, |head| head.header_lines.into())
    }

    /// Bytes of `bytes`, which are whole lines, that a block has room for.
    fn few_lines(&self, bytes: &[u8]) -> usize {
        // Each takes a byte at least.
        if bytes.len() <= self.lines_max {
            return bytes.len();
        }
        let end = memchr_iter(b'\n', bytes).nth(self.lines_max - 1);
        end.map_or(bytes.len(), |end| end + 1)
    }

    /// Bytes of `bytes`, which are whole lines, without an empty one at their end as long as nobody
    /// knows whether the file ends there, too: it waits for the next block.
    fn before_blank(&self, bytes: &[u8]) -> usize {
        match (&self.head, &self.source) {
            // Nothing else is in the block: there is no room to wait in.
            (Some(_), Some(_)) => match without_blank_end(bytes, self.line > 0) {
                0 => bytes.len(),
                before => before,
            },
            _ => bytes.len(),
        }
    }

    /// Bytes of `bytes` that are whole lines.
    fn whole_lines(&self, bytes: &[u8]) -> Result<usize, DataError> {
        if self.source.is_none() {
            return Ok(bytes.len());
        }
        let end = memrchr(b'\n', bytes).map(|end| end + 1);
        end.ok_or_else(|| too_long(&self.path, self.header_lines() + self.line, bytes.len()))
    }
}

/// The line behind `lines` lines has no end within `bytes` bytes.
pub(crate) fn too_long(path: &Path, lines: u64, bytes: usize) -> DataError {
    let (path, line) = (path.to_owned(), lines + 1);
    let why = format!("the line is longer than {bytes} bytes; is this a text file?");
    DataError::Malformed { path, line, column: 1, why, skip_max: 0 }
}

/// Lines in a text; a last one without a line end counts.
pub(crate) fn lines_in(bytes: &[u8]) -> u32 {
    let ends = memchr_iter(b'\n', bytes).count();
    let unended = bytes.last().is_some_and(|last| *last != b'\n');
    // A block is at most 4 GiB, so the count fits.
    (ends + usize::from(unended)) as u32
}
