//! The share that one of several readers has of a pass.
//!
//! Why       Ranks that train one model have a part each of every mini-batch. Parsing is most of
//!           what reading costs, so each parses its own part alone.
//! How       Lines of a pass are numbered, and so are its mini-batches: which lines are whose is
//!           known before one of them is looked at. The sequential part of reading says of each
//!           block which of its lines are wanted; the parallel part passes over the others. Blocks
//!           of a packed file without a wanted line are not even read.
//! Invariant The number of lines of the pass is known, and each of them is an example: a malformed
//!           one would move all that follow, and ends the run where its reader finds it.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

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
}

/// The share of one pass.
#[derive(Clone, Debug)]
pub struct Share {
    sharing: Sharing,
    /// Examples of the pass, those of other readers among them.
    examples: u64,
}

impl Share {
    /// Of a pass of `examples` examples.
    pub(crate) fn new(sharing: Sharing, examples: u64) -> Self {
        assert!(sharing.mini_batch > 0, "a mini-batch has an example");
        Self { sharing, examples }
    }

    /// Examples of the pass, those of other readers among them.
    pub fn examples(&self) -> u64 {
        self.examples
    }
}

/// Lines of a block, counted from its first, in ascending ranges that do not touch.
pub type Lines = Vec<Range<u32>>;

/// Follows a pass line by line, and says which ones are wanted.
#[derive(Clone, Debug)]
pub(crate) struct Follower {
    share: Option<Share>,
    /// Lines of the pass that lie behind.
    behind: u64,
}

impl Follower {
    /// Of a pass of which `share` is wanted, or all.
    pub(crate) fn new(share: Option<Share>) -> Self {
        Self { share, behind: 0 }
    }

    /// Which of the next `lines` lines are wanted; none where all of them are, of whoever reads
    /// alone.
    pub(crate) fn take(&mut self, lines: u32) -> Option<Lines> {
        let from = self.behind;
        self.behind += u64::from(lines);
        self.share.as_ref().map(|share| share.wanted(from..self.behind))
    }
}

impl Share {
    /// Which lines of a block are wanted that has those lines of the pass.
    fn wanted(&self, block: Range<u64>) -> Lines {
        let Sharing { mini_batch, part } = &self.sharing;
        let (end, of_each) = (block.end.min(self.examples), *mini_batch as u64);
        let mut wanted = Lines::new();
        let mut start = block.start / of_each * of_each;
        while start < end {
            let examples = of_each.min(self.examples - start);
            let part = (part.0)(examples as usize);
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
            start += of_each;
        }
        wanted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The second of three parts.
    fn share(mini_batch: usize, examples: u64) -> Share {
        let part = PartOf::new(|examples| examples / 3..examples * 2 / 3);
        Share::new(Sharing { mini_batch, part }, examples)
    }

    #[test]
    fn wanted_lines_are_those_of_a_plain_look_at_each() {
        for (mini_batch, examples) in [(1, 7), (2, 9), (6, 24), (7, 24), (10, 25), (100, 24)] {
            let share = share(mini_batch, examples);
            let is_wanted = |line: u64| {
                let start = line / mini_batch as u64 * mini_batch as u64;
                let of = (mini_batch as u64).min(examples - start);
                line < examples && (start + of / 3..start + of * 2 / 3).contains(&line)
            };
            for block in [1, 2, 5, 24, 30] {
                let mut follower = Follower::new(Some(share.clone()));
                let mut found = Vec::new();
                for first in (0..examples).step_by(block) {
                    let wanted = follower.take(block as u32).unwrap_or_default();
                    assert!(wanted.is_sorted_by(|a, b| a.end < b.start), "{wanted:?}");
                    let lines = wanted.into_iter().flatten();
                    found.extend(lines.map(|line| first + u64::from(line)));
                }
                let plain: Vec<u64> = (0..examples).filter(|line| is_wanted(*line)).collect();
                assert_eq!(found, plain, "{mini_batch} of {examples} in blocks of {block}");
            }
        }
    }

    #[test]
    fn who_reads_alone_wants_all() {
        assert_eq!(Follower::new(None).take(5), None);
    }
}
