//! Blocks of a mini-batch, the unit of summation, and their division among ranks.
//!
//! Sums over blocks follow one fixed tree: two blocks meet at the highest bit in which their
//! numbers differ. A rank has adjacent blocks. It sums those subtrees that it has in full; combined
//! with the other ranks' sums, they give the sum that one rank would compute.
//!
//! ```text
//! 8 blocks, 3 ranks   rank 0: blocks 0 1       rank 1: blocks 2 3 4   rank 2: blocks 5 6 7
//! subtrees            (0+1)                    (2+3), 4               5, (6+7)
//! ```

use std::ops::Range;

use stepwell_base::owner::RankOf;

/// Examples divided into blocks as evenly as possible: a mini-batch's, or one rank's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocks {
    /// Number of examples of the whole mini-batch.
    examples: usize,
    all: usize,
    /// The blocks here: the first, and the end.
    first: usize,
    end: usize,
    /// Number of ranks before the first that has blocks.
    servers: usize,
}

/// No examples in one block.
impl Default for Blocks {
    fn default() -> Self {
        Self::new(0, 1)
    }
}

impl Blocks {
    /// `examples` examples in `count` blocks.
    pub fn new(examples: usize, count: usize) -> Self {
        Self { examples, all: count, first: 0, end: count, servers: 0 }
    }

    /// Leaves the first `servers` ranks without blocks, as they compute nothing.
    pub fn beside_servers(self, servers: usize) -> Self {
        Self { servers, ..self }
    }

    /// The blocks of a rank. Of n ranks that have blocks, rank r has the blocks from r · count / n,
    /// rounded down, up to the first block of the next rank.
    ///
    /// # Panics
    /// If these are one rank's blocks already.
    pub fn of_rank(self, RankOf { rank, ranks }: RankOf) -> Self {
        assert!(self.count() == self.all, "blocks of all ranks are shared out");
        match rank.checked_sub(self.servers) {
            Some(place) => self.part(place, ranks - self.servers),
            None => self.some(0..0),
        }
    }

    /// A range of the blocks, counted from the first that is here.
    ///
    /// # Panics
    /// If the range exceeds them.
    pub fn some(self, blocks: Range<usize>) -> Self {
        assert!(blocks.start <= blocks.end && blocks.end <= self.count(), "{blocks:?} of blocks");
        Self { first: self.first + blocks.start, end: self.first + blocks.end, ..self }
    }

    /// Part `part` of `parts` of the blocks: adjacent ones, divided as among ranks.
    pub fn part(self, part: usize, parts: usize) -> Self {
        let count = self.count();
        self.some(count * part / parts..count * (part + 1) / parts)
    }

    /// The blocks of the whole mini-batch.
    pub fn of_all(self) -> Self {
        Self { first: 0, end: self.all, ..self }
    }

    /// Number of blocks here.
    pub fn count(&self) -> usize {
        self.end - self.first
    }

    /// Number of blocks of the mini-batch before these.
    pub fn first(&self) -> usize {
        self.first
    }

    /// Number of examples of the whole mini-batch.
    pub fn examples_of_all(&self) -> usize {
        self.examples
    }

    /// The range of the whole mini-batch's examples that is here.
    pub fn place(&self) -> Range<usize> {
        self.start_in_all(self.first)..self.start_in_all(self.end)
    }

    /// Maximum number of examples that these blocks have in any mini-batch that is no larger; a
    /// shorter one may have more of them here than this one.
    pub fn examples_max(&self) -> usize {
        (self.examples * self.count()).div_ceil(self.all)
    }

    fn start_in_all(&self, block: usize) -> usize {
        self.examples * block / self.all
    }

    /// First example of block `block`, both counted from the first that is here; for block `count`,
    /// the end.
    pub fn start(&self, block: usize) -> usize {
        self.start_in_all(self.first + block) - self.start_in_all(self.first)
    }

    /// Range of the examples of block `block`.
    pub fn range(&self, block: usize) -> Range<usize> {
        self.start(block)..self.start(block + 1)
    }

    /// Number of examples of the largest block.
    pub fn largest(&self) -> usize {
        self.examples.div_ceil(self.all)
    }

    /// The fewest subtrees that cover these blocks, as ranges counted from the first block here.
    pub fn subtrees(self) -> impl Iterator<Item = Range<usize>> + Clone {
        let mut from = self.first;
        std::iter::from_fn(move || {
            let left = self.end - from;
            // The largest subtree that begins here and doesn't exceed the remaining blocks.
            let most = left.checked_ilog2()?;
            let subtree = 1 << most.min(from.trailing_zeros());
            from += subtree;
            Some(from - subtree - self.first..from - self.first)
        })
    }

    /// Maximum number of subtrees of any rank's blocks.
    pub fn subtrees_max(count: usize, ranks: usize) -> usize {
        let of_rank = |rank| Self::new(0, count).of_rank(RankOf { rank, ranks }).subtrees().count();
        (0..ranks).map(of_rank).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_cover_every_example_once() {
        for (examples, count) in [(0, 8), (1, 8), (7, 8), (8, 8), (100, 8), (4096, 8), (5, 3)] {
            let blocks = Blocks::new(examples, count);
            let covered: Vec<usize> = (0..count).flat_map(|block| blocks.range(block)).collect();
            assert_eq!(covered, (0..examples).collect::<Vec<_>>());
            assert!((0..count).all(|block| blocks.range(block).len() <= blocks.largest()));
        }
    }

    #[test]
    fn some_blocks_lie_where_they_did() {
        let own = Blocks::new(77, 8).of_rank(RankOf { rank: 1, ranks: 2 });
        let some = own.some(1..3);
        assert_eq!((some.first(), some.count(), some.examples_of_all()), (5, 2, 77));
        let start = own.place().start;
        assert_eq!(some.place(), start + own.start(1)..start + own.start(3));
        assert!((0..2).all(|block| some.range(block).len() == own.range(1 + block).len()));
        assert!(some.subtrees().eq([0..1, 1..2]));
    }

    #[test]
    fn ranks_have_every_block_once() {
        for (examples, count) in [(0, 8), (5, 8), (100, 8), (4096, 64), (77, 5), (9, 3)] {
            let whole = Blocks::new(examples, count);
            for ranks in 1..=count {
                let mut covered = Vec::new();
                for rank in 0..ranks {
                    let own = whole.of_rank(RankOf { rank, ranks });
                    assert_eq!(own.place().start, covered.len());
                    let blocks = (0..own.count()).map(|block| own.range(block));
                    for (number, range) in blocks.enumerate() {
                        assert_eq!(range.len(), whole.range(own.first() + number).len());
                        covered.extend(range.map(|example| own.place().start + example));
                    }
                    for shorter in 0..=examples {
                        let of = Blocks::new(shorter, count).of_rank(RankOf { rank, ranks });
                        assert!(of.place().len() <= own.examples_max());
                    }
                    let subtrees: Vec<usize> = own.subtrees().flatten().collect();
                    assert!(subtrees.iter().copied().eq(0..own.count()), "{subtrees:?}");
                    assert!(own.subtrees().count() <= Blocks::subtrees_max(count, ranks));
                }
                assert!(covered.iter().copied().eq(0..examples), "{ranks} ranks: {covered:?}");
            }
        }
    }

    #[test]
    fn servers_have_none_and_the_others_have_all() {
        let whole = Blocks::new(77, 8).beside_servers(1);
        let server = whole.of_rank(RankOf { rank: 0, ranks: 4 });
        assert_eq!((server.count(), server.place(), server.examples_max()), (0, 0..0, 0));
        assert_eq!(server.subtrees().count(), 0);
        for rank in 1..4 {
            let own = whole.of_rank(RankOf { rank, ranks: 4 });
            let alone = Blocks::new(77, 8).of_rank(RankOf { rank: rank - 1, ranks: 3 });
            assert_eq!((own.first(), own.place()), (alone.first(), alone.place()));
            assert_eq!(own.of_all(), whole);
        }
    }

    #[test]
    fn subtrees_are_those_of_the_text() {
        let of = |rank| {
            Blocks::new(0, 8).of_rank(RankOf { rank, ranks: 3 }).subtrees().collect::<Vec<_>>()
        };
        assert_eq!((of(0).len(), &of(0)[0]), (1, &(0..2)));
        assert!(of(1) == [0..2, 2..3] && of(2) == [0..1, 1..3]);
        assert_eq!(Blocks::new(0, 6).subtrees().collect::<Vec<_>>(), [0..4, 4..6]);
        assert_eq!(Blocks::subtrees_max(8, 1), 1);
        assert_eq!(Blocks::subtrees_max(8, 3), 2);
    }
}
