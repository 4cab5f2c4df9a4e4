//! Blocks of whole lines, read from a list of files in order.
//!
//! Why: decompressing is sequential, parsing is not. One thread cuts the files into blocks of
//! whole lines and counts them; any number of threads parse the blocks, each of which knows where
//! it stood.
//!
//! How: a block is filled up to its size and cut after its last line end; what is left over, less
//! than a line, moves to the front of the next block.
//!
//! Invariants
//! - I1 the blocks of a file, one after the other, are the file; a block never spans two files;
//! - I2 a block ends with a line end, unless it is the last of a file that does not;
//! - I3 where blocks are cut depends on the files, the block size and the starting position
//!   alone, never on how many bytes the system returns at once.
//!
//! Cost: two buffers of `block_bytes` (the caller's block and the remainder) and the
//! decompressor's (see `compression.rs`); one pass to count line ends, about 0.05 ns a byte.

use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use memchr::{memchr_iter, memrchr};

use crate::files::explain;
use crate::{DataError, Position, compression};

/// Bytes of a block unless the caller says otherwise; no line may be longer.
pub const BLOCK_BYTES: usize = 1 << 20;

/// Whole lines of one file, or a range of the built-in stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// Index of the file.
    pub file: u32,
    /// Lines of the file before this block.
    pub first_line: u64,
    /// Lines in this block; one without a line end counts.
    pub lines: u32,
    /// The lines themselves; empty in a block of the built-in stream.
    pub bytes: Vec<u8>,
}

impl Block {
    /// A block of text that comes from elsewhere than a file.
    pub fn of_text(bytes: Vec<u8>) -> Self {
        Self { file: 0, first_line: 0, lines: lines_in(&bytes), bytes }
    }
}

/// Reads files in order, as blocks of whole lines.
pub struct LineReader {
    files: Vec<PathBuf>,
    block_bytes: usize,
    /// Where the next block starts.
    next: Position,
    /// The file at `next.file`, unless it has not been opened or has been read to its end.
    source: Option<Box<dyn Read + Send>>,
    /// Bytes read beyond the last block.
    rest: Vec<u8>,
}

impl std::fmt::Debug for LineReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LineReader")
            .field("files", &self.files)
            .field("next", &self.next)
            .finish_non_exhaustive()
    }
}

impl LineReader {
    /// Starts at `start`; lines before it are counted, not parsed.
    ///
    /// # Errors
    /// A file that cannot be read, or that has fewer lines than `start` says.
    pub fn open(
        files: Vec<PathBuf>,
        start: Position,
        block_bytes: usize,
    ) -> Result<Self, DataError> {
        assert!(block_bytes > 0, "a block has room for at least one byte");
        assert!(u32::try_from(block_bytes).is_ok(), "offsets within a block are 32 bits wide");
        if start.file as usize >= files.len() {
            let why = format!("there are {} files", files.len());
            let path = format!("file number {}", start.file).into();
            return Err(DataError::Position { path, wanted: start.line, why });
        }
        let next = Position { file: start.file, line: 0 };
        let mut reader = Self { files, block_bytes, next, source: None, rest: Vec::new() };
        reader.enter()?;
        reader.pass_over(start.line)?;
        Ok(reader)
    }

    /// The files in order.
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// Fills `block` with the next lines; false at the end of the last file.
    ///
    /// # Errors
    /// A file that cannot be opened, read or decompressed, or a line longer than a block.
    pub fn next_block(&mut self, block: &mut Block) -> Result<bool, DataError> {
        loop {
            self.fill(block)?;
            if block.lines > 0 {
                return Ok(true);
            }
            if self.next.line == 0 {
                let path = self.path().to_owned();
                return Err(DataError::Path { path, why: "is empty".to_owned() });
            }
            if self.next.file as usize + 1 == self.files.len() {
                return Ok(false);
            }
            self.next = Position { file: self.next.file + 1, line: 0 };
            self.enter()?;
        }
    }

    fn path(&self) -> &Path {
        &self.files[self.next.file as usize]
    }

    fn enter(&mut self) -> Result<(), DataError> {
        self.source = Some(compression::open(self.path())?);
        Ok(())
    }

    /// Reads on without looking at the lines until `wanted` of them lie behind.
    fn pass_over(&mut self, wanted: u64) -> Result<(), DataError> {
        let mut block = Block::default();
        while self.next.line < wanted {
            self.fill(&mut block)?;
            if block.lines == 0 {
                let why = format!("the file has {} lines; it may have changed", self.next.line);
                return Err(DataError::Position { path: self.path().to_owned(), wanted, why });
            }
            let first = block.first_line;
            if self.next.line > wanted {
                self.put_back(&block, (wanted - first) as usize);
                self.next.line = wanted;
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

    /// The next block of the current file; of no lines at its end.
    fn fill(&mut self, block: &mut Block) -> Result<(), DataError> {
        let Position { file, line } = self.next;
        (block.file, block.first_line) = (file, line);
        block.bytes.clear();
        block.bytes.reserve_exact(self.block_bytes);
        block.bytes.append(&mut self.rest);
        self.read_up(&mut block.bytes)?;
        let whole = self.whole_lines(&block.bytes)?;
        self.rest.extend_from_slice(&block.bytes[whole..]);
        block.bytes.truncate(whole);
        block.lines = lines_in(&block.bytes);
        self.next.line += u64::from(block.lines);
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
                }
                Ok(())
            }
            Err(error) => {
                let ends = memchr_iter(b'\n', bytes).count();
                let line = self.next.line + ends as u64;
                Err(DataError::Read { path: self.path().to_owned(), line, why: broken(&error) })
            }
        }
    }

    /// Bytes of `bytes` that are whole lines.
    fn whole_lines(&self, bytes: &[u8]) -> Result<usize, DataError> {
        if self.source.is_none() {
            return Ok(bytes.len());
        }
        memrchr(b'\n', bytes).map(|end| end + 1).ok_or_else(|| DataError::Malformed {
            path: self.path().to_owned(),
            line: self.next.line + 1,
            column: 1,
            why: format!("the line is longer than {} bytes; is this a text file?", bytes.len()),
            skip_max: 0,
        })
    }
}

fn lines_in(bytes: &[u8]) -> u32 {
    let ends = memchr_iter(b'\n', bytes).count();
    let unended = bytes.last().is_some_and(|last| *last != b'\n');
    // A block is at most 4 GiB, so the count fits.
    (ends + usize::from(unended)) as u32
}

fn broken(error: &std::io::Error) -> String {
    match error.kind() {
        ErrorKind::UnexpectedEof => {
            "the compressed data ends too early; the file may be cut short".to_owned()
        }
        ErrorKind::InvalidData | ErrorKind::InvalidInput | ErrorKind::Other => {
            format!("the compressed data is damaged: {error}")
        }
        _ => explain(error),
    }
}

/// Lines of each file, a last one without a line end included; nothing is parsed.
///
/// # Errors
/// A file that cannot be read or decompressed, or that is empty.
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
    let mut source = compression::open(path)?;
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
