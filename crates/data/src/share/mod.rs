//! The share that one of several readers has of a pass, and the streams that a pass is read in.
//!
//! Why       Ranks that train one model have a part each of every mini-batch. Parsing is most of
//!           what reading costs, so each parses its own part alone. With several streams a
//!           mini-batch has a part of each, so that ranks have lines of their own far apart and
//!           need not read the files of others.
//! How       Lines of a pass are numbered, and so are its mini-batches: which lines are whose is
//!           known before one of them is looked at. The sequential part of reading says of each
//!           block which of its lines are wanted; the parallel part passes over the others. Blocks
//!           of a packed file without a wanted line are not even read.
//!           Of S streams, stream s has the lines from L s / S up to L (s + 1) / S of a pass of L,
//!           rounded down, and the examples from n s / S up to n (s + 1) / S of a mini-batch of n.
//!           As S divides all mini-batches but the last, its lines are just enough for its parts.
//! Invariant The number of lines of the pass is known, and each of them is an example: a malformed
//!           one would move all that follow, and ends the run where its reader finds it.

mod walk;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

pub use self::walk::Walk;
use crate::Position;

/// Which part of a mini-batch of so many examples is wanted.
#[derive(Clone)]
pub struct PartOf(Arc<dyn Fn(usize) -> Range<usize> + Send + Sync>);

impl PartOf {
    /// What `part` says; the parts of all readers are all of it.
    pub fn new(part: impl Fn(usize) -> Range<usize> + Send + Sync + 'static) -> Self {
        Self(Arc::new(part))
    }
}

impl fmt::Debug for PartOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PartOf").finish_non_exhaustive()
    }
}

/// How examples are shared out.
#[derive(Clone, Debug)]
pub struct Sharing {
    /// Examples of a mini-batch; the last of a pass may have fewer.
    pub mini_batch: usize,
    /// Which of them are wanted here.
    pub part: PartOf,
    /// Streams that a pass is read in, a divisor of `mini_batch`.
    pub streams: usize,
}

/// The share of one pass.
#[derive(Clone, Debug)]
pub struct Share {
    sharing: Sharing,
    /// Lines of each file.
    lines: Arc<[u64]>,
    /// Lines of the files before the pass.
    first: u64,
    /// Lines of the pass, from its begin to its end.
    whole: u64,
    /// Lines of each stream that lie behind already.
    behind: u64,
}

/// Lines of a block, counted from its first, in ascending ranges that do not touch.
pub type Lines = Vec<Range<u32>>;

/// More examples than any block of a mini-batch could be too small for.
const MANY: usize = 1 << 40;

impl Share {
    /// Of what lies from line `range.start` up to line `range.end` of files of so many `lines`,
    /// when reading goes on from line `from`, which is where its last stream goes on.
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

    /// Streams, and examples of a mini-batch.
    pub fn streams(&self) -> usize {
        self.sharing.streams
    }

    /// The first line of stream `stream`, among those of all files; of one more than there are, the
    /// end of the pass.
    fn begin(&self, stream: usize) -> u64 {
        let part = u128::from(self.whole) * stream as u128 / self.sharing.streams as u128;
        // It is no larger than the pass.
        self.first + part as u64
    }

    /// Lines of stream `stream` that are not behind.
    pub(crate) fn lines_of(&self, stream: usize) -> u64 {
        (self.begin(stream + 1) - self.begin(stream)).saturating_sub(self.behind)
    }

    /// Where stream `stream` is read from.
    pub(crate) fn start_of(&self, stream: usize) -> Position {
        let line =
            self.begin(stream) + self.behind.min(self.begin(stream + 1) - self.begin(stream));
        let (mut file, mut left) = (0, line);
        while let Some(lines) = self.lines.get(file).filter(|lines| left >= **lines) {
            (file, left) = (file + 1, left - lines);
        }
        Position { file: file as u32, line: left }
    }

    /// The place from which to go on after so many of the examples.
    pub fn place_after(&self, examples: u64) -> Position {
        let last = self.sharing.streams - 1;
        // The last stream has its part of every mini-batch.
        let of_last = self.whole_mini_batches(examples) * self.of_each();
        let line = match examples == self.examples() {
            true => self.begin(last + 1),
            false => self.begin(last) + self.behind + of_last,
        };
        // Behind the last line of a file, and not before the first of the next.
        let (mut file, mut left) = (0, line);
        while let Some(lines) = self.lines.get(file).filter(|lines| left > **lines) {
            (file, left) = (file + 1, left - lines);
        }
        Position { file: file as u32, line: left }
    }

    fn whole_mini_batches(&self, examples: u64) -> u64 {
        examples / self.sharing.mini_batch as u64
    }

    /// Lines of a stream that a whole mini-batch has.
    fn of_each(&self) -> u64 {
        (self.sharing.mini_batch / self.sharing.streams) as u64
    }

    /// Examples of the pass that are not behind, those of other readers among them.
    pub fn examples(&self) -> u64 {
        (0..self.sharing.streams).map(|stream| self.lines_of(stream)).sum()
    }

    /// Examples of the mini-batch before which so many examples lie.
    pub fn mini_batch_after(&self, examples: u64) -> usize {
        let left = self.examples().saturating_sub(examples);
        left.min(self.sharing.mini_batch as u64) as usize
    }

    /// Which examples of a mini-batch of `examples` are of stream `stream`.
    pub fn part_of(&self, stream: usize, examples: usize) -> Range<usize> {
        let streams = self.sharing.streams;
        examples * stream / streams..examples * (stream + 1) / streams
    }

    /// Whether anything of stream `stream` is wanted.
    pub fn wants(&self, stream: usize) -> bool {
        !self.wanted_of(stream, MANY).is_empty()
    }

    /// Which examples of a mini-batch of `examples` are of stream `stream` and wanted, counted from
    /// the first of that stream.
    fn wanted_of(&self, stream: usize, examples: usize) -> Range<usize> {
        let (part, wanted) = (self.part_of(stream, examples), (self.sharing.part.0)(examples));
        let within = |place: usize| place.clamp(part.start, part.end) - part.start;
        within(wanted.start)..within(wanted.end)
    }

    /// Which lines of a block are wanted that has those lines of stream `stream`.
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
                // Lines of a block count in 32 bits.
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

/// Follows a stream of a pass line by line, and says which ones are wanted.
#[derive(Clone, Debug)]
pub(crate) struct Follower {
    share: Option<Share>,
    stream: usize,
    /// Lines of the stream that lie behind.
    behind: u64,
}

impl Follower {
    /// Of stream `stream` of a pass of which `share` is wanted, or all.
    pub(crate) fn new(share: Option<Share>, stream: usize) -> Self {
        Self { share, stream, behind: 0 }
    }

    /// Which of the next `lines` lines are wanted; none where all of them are, of whoever reads
    /// alone.
    pub(crate) fn take(&mut self, lines: u32) -> Option<Lines> {
        let from = self.behind;
        self.behind += u64::from(lines);
        self.share.as_ref().map(|share| share.wanted(self.stream, from..self.behind))
    }
}

#[cfg(test)]
mod tests;
