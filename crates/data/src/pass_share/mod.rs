//! Splits a pass among several readers, and into streams.
//!
//! - **Why.** Ranks that train one model each process a part of every mini-batch. Parsing dominates
//!   the cost of reading, so each rank parses only its own part. With several streams, a mini-batch
//!   has a part from each, so the lines of different ranks are far apart, and a rank needn't read
//!   the files of others.
//! - **How.** Lines and mini-batches of a pass are numbered, so the assignment of lines is known
//!   without examining them. The sequential part of reading marks the wanted lines of each block,
//!   and the parallel part skips the others. Blocks of a packed file without wanted lines aren't
//!   read. Of S streams, stream s has lines L s / S to L (s + 1) / S of a pass of L lines, rounded
//!   down, and examples n s / S to n (s + 1) / S of a mini-batch of n. As S divides all
//!   mini-batches except the last, the lines of a stream exactly fill its parts.
//! - **Invariant.** The number of lines of the pass is known, and each line is an example: a
//!   malformed one would shift all following lines, so it ends the run at its reader.

mod walk;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

pub use self::walk::Walk;
use crate::read_options::Position;

/// Chooses the wanted part of a mini-batch of a given number of examples.
#[derive(Clone)]
pub struct PartOf(Arc<dyn Fn(usize) -> Range<usize> + Send + Sync>);

impl PartOf {
    /// Wraps `part`; the parts of all readers together must be the whole mini-batch.
    pub fn new(part: impl Fn(usize) -> Range<usize> + Send + Sync + 'static) -> Self {
        Self(Arc::new(part))
    }
}

impl fmt::Debug for PartOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PartOf").finish_non_exhaustive()
    }
}

/// How to split examples.
#[derive(Clone, Debug)]
pub struct Sharing {
    /// Examples of a mini-batch; the last of a pass may be smaller.
    pub mini_batch: usize,
    /// Part of this reader.
    pub part: PartOf,
    /// Streams of a pass, a divisor of `mini_batch`.
    pub streams: usize,
}

/// A reader's share of one pass.
#[derive(Clone, Debug)]
pub struct Share {
    sharing: Sharing,
    /// Lines of each file.
    lines: Arc<[u64]>,
    /// Lines of the files before the pass.
    first: u64,
    /// Total lines of the pass.
    whole: u64,
    /// Lines of each stream that have been read.
    behind: u64,
}

/// Lines of a block, counted from its first, in ascending ranges that don't touch.
pub type Lines = Vec<Range<u32>>;

/// A number of examples that is large enough for every part to be nonempty.
const MANY: usize = 1 << 40;

impl Share {
    /// Shares lines `range` of files with `lines` lines each, resuming at line `from`, the position
    /// in the last stream.
    pub(crate) fn new(sharing: Sharing, lines: Arc<[u64]>, range: Range<u64>, from: u64) -> Self {
        assert!(sharing.mini_batch > 0, "a mini-batch has an example");
        let streams = sharing.streams;
        assert!(streams > 0 && sharing.mini_batch.is_multiple_of(streams), "{streams} streams");
        let (first, whole) = (range.start, range.end.saturating_sub(range.start));
        let mut share = Self { sharing, lines, first, whole, behind: 0 };
        let last = share.begin(streams - 1);
        share.behind = from.clamp(last, share.begin(streams).max(last)) - last;
        share
    }

    /// Number of streams.
    pub fn streams(&self) -> usize {
        self.sharing.streams
    }

    /// First line of stream `stream`, counted over all files; with the number of streams, the end
    /// of the pass.
    fn begin(&self, stream: usize) -> u64 {
        let part = u128::from(self.whole) * stream as u128 / self.sharing.streams as u128;
        // At most the length of the pass.
        self.first + part as u64
    }

    /// Unread lines of stream `stream`.
    pub(crate) fn lines_of(&self, stream: usize) -> u64 {
        (self.begin(stream + 1) - self.begin(stream)).saturating_sub(self.behind)
    }

    /// Starting position of stream `stream`.
    pub(crate) fn start_of(&self, stream: usize) -> Position {
        let line =
            self.begin(stream) + self.behind.min(self.begin(stream + 1) - self.begin(stream));
        let (mut file, mut left) = (0, line);
        while let Some(lines) = self.lines.get(file).filter(|lines| left >= **lines) {
            (file, left) = (file + 1, left - lines);
        }
        Position { file: file as u32, line: left }
    }

    /// Position to resume at after `examples` examples.
    pub fn place_after(&self, examples: u64) -> Position {
        let last = self.sharing.streams - 1;
        // The last stream has its part of every mini-batch.
        let of_last = self.whole_mini_batches(examples) * self.of_each();
        let line = match examples == self.examples() {
            true => self.begin(last + 1),
            false => self.begin(last) + self.behind + of_last,
        };
        // Prefer the end of a file to the start of the next.
        let (mut file, mut left) = (0, line);
        while let Some(lines) = self.lines.get(file).filter(|lines| left > **lines) {
            (file, left) = (file + 1, left - lines);
        }
        Position { file: file as u32, line: left }
    }

    fn whole_mini_batches(&self, examples: u64) -> u64 {
        examples / self.sharing.mini_batch as u64
    }

    /// Lines per stream of a whole mini-batch.
    fn of_each(&self) -> u64 {
        (self.sharing.mini_batch / self.sharing.streams) as u64
    }

    /// Unread examples of the pass, including those of other readers.
    pub fn examples(&self) -> u64 {
        (0..self.sharing.streams).map(|stream| self.lines_of(stream)).sum()
    }

    /// Size of the mini-batch that follows `examples` examples.
    pub fn mini_batch_after(&self, examples: u64) -> usize {
        let left = self.examples().saturating_sub(examples);
        left.min(self.sharing.mini_batch as u64) as usize
    }

    /// Examples of a mini-batch of `examples` examples that come from stream `stream`.
    pub fn part_of(&self, stream: usize, examples: usize) -> Range<usize> {
        let streams = self.sharing.streams;
        examples * stream / streams..examples * (stream + 1) / streams
    }

    /// Whether this reader uses stream `stream` at all.
    pub fn wants(&self, stream: usize) -> bool {
        !self.wanted_of(stream, MANY).is_empty()
    }

    /// Wanted examples of stream `stream` in a mini-batch of `examples` examples, counted from the
    /// stream's first example.
    fn wanted_of(&self, stream: usize, examples: usize) -> Range<usize> {
        let (part, wanted) = (self.part_of(stream, examples), (self.sharing.part.0)(examples));
        let within = |place: usize| place.clamp(part.start, part.end) - part.start;
        within(wanted.start)..within(wanted.end)
    }

    /// Wanted lines of a block with lines `block` of stream `stream`.
    fn wanted(&self, stream: usize, block: Range<u64>) -> Lines {
        let end = block.end.min(self.lines_of(stream));
        let of_each = self.of_each();
        let mut wanted = Lines::new();
        let mut number = block.start / of_each;
        while number * of_each < end {
            let start = number * of_each;
            let examples = self.mini_batch_after(number * self.sharing.mini_batch as u64);
            let part = self.wanted_of(stream, examples);
            let from = (start + part.start as u64).max(block.start);
            let to = (start + part.end as u64).min(end);
            if from < to {
                // Lines of a block fit 32 bits.
                let lines = (from - block.start) as u32..(to - block.start) as u32;
                match wanted.last_mut() {
                    Some(last) if last.end == lines.start => last.end = lines.end,
                    _ => wanted.push(lines),
                }
            }
            number += 1;
        }
        wanted
    }
}

/// Follows a stream of a pass line by line, and selects the wanted lines.
#[derive(Clone, Debug)]
pub(crate) struct Follower {
    share: Option<Share>,
    stream: usize,
    /// Lines passed so far.
    behind: u64,
}

impl Follower {
    /// Follows stream `stream` of a pass. Without a `share`, all lines are wanted.
    pub(crate) fn new(share: Option<Share>, stream: usize) -> Self {
        Self { share, stream, behind: 0 }
    }

    /// Wanted lines among the next `lines` lines; `None` if the pass isn't shared.
    pub(crate) fn take(&mut self, lines: u32) -> Option<Lines> {
        let from = self.behind;
        self.behind += u64::from(lines);
        self.share.as_ref().map(|share| share.wanted(self.stream, from..self.behind))
    }
}

#[cfg(test)]
mod tests;
