//! The cut of a mini-batch into blocks, the unit of summation, and which of them a rank has.
//!
//! A sum over blocks goes by one fixed tree, in which two blocks meet where their numbers, written
//! in bits, begin to differ. A rank has neighbouring blocks: it can sum those of a subtree that it
//! has all of, and of its sums and those of others comes the sum that one rank would have.
//!
//! ```text
//! 8 blocks, 3 ranks   rank 0: blocks 0 1       rank 1: blocks 2 3 4   rank 2: blocks 5 6 7
//! subtrees            (0+1)                    (2+3), 4               5, (6+7)
//! ```

use std::ops::Range;

/// Examples in blocks, as even as whole examples allow; all of a mini-batch or those of one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocks {
    /// Of the whole mini-batch.
    examples: usize,
    all: usize,
    /// Those that are here.
    first: usize,
    end: usize,
    /// Ranks before the first that has blocks.
    servers: usize,
}

impl Blocks {
    /// `examples` examples in `count` blocks.
    pub fn new(examples: usize, count: usize) -> Self {
        Self { examples, all: count, first: 0, end: count, servers: 0 }
    }

    /// The same where the first `servers` ranks have none, since they compute nothing.
    pub fn beside_servers(self, servers: usize) -> Self {
        Self { servers, ..self }
    }

    /// Those of rank `rank` of `ranks`: of n ranks that have any, from number rank · count / n,
    /// rounded down, to before those of the next one.
    ///
    /// # Panics
    /// When they are a rank's already.
    pub fn of_rank(self, rank: usize, ranks: usize) -> Self {
        assert!(self.count() == self.all, "blocks of all ranks are shared out");
        match rank.checked_sub(self.servers) {
            Some(place) => self.part(place, ranks - self.servers),
            None => self.some(0..0),
        }
    }

    /// Some of them, counted from the first that are here.
    ///
    /// # Panics
    /// When there are not so many.
    pub fn some(self, blocks: Range<usize>) -> Self {
        assert!(blocks.start <= blocks.end && blocks.end <= self.count(), "{blocks:?} of blocks");
        Self { first: self.first + blocks.start, end: self.first + blocks.end, ..self }
    }

    /// The part number `part` of `parts` of them: neighbouring ones, as ranks have them.
    pub fn part(self, part: usize, parts: usize) -> Self {
        let count = self.count();
        self.some(count * part / parts..count * (part + 1) / parts)
    }

    /// Those of the whole mini-batch.
    pub fn of_all(self) -> Self {
        Self { first: 0, end: self.all, ..self }
    }

    /// Number of blocks that are here.
    pub fn count(&self) -> usize {
        self.end - self.first
    }

    /// How many of the mini-batch come before them.
    pub fn first(&self) -> usize {
        self.first
    }

    /// Examples of the whole mini-batch.
    pub fn examples_of_all(&self) -> usize {
        self.examples
    }

    /// Where the examples that are here lie in the whole mini-batch.
    pub fn place(&self) -> Range<usize> {
        self.start_in_all(self.first)..self.start_in_all(self.end)
    }

    /// The most examples that these blocks have of a mini-batch that is no larger: a shorter one
    /// may have more of them here than this one.
    pub fn examples_max(&self) -> usize {
        (self.examples * self.count()).div_ceil(self.all)
    }

    fn start_in_all(&self, block: usize) -> usize {
        self.examples * block / self.all
    }

    /// First example of block `block`, both counted from the first that are here; of block `count`
    /// it is the end.
    pub fn start(&self, block: usize) -> usize {
        self.start_in_all(self.first + block) - self.start_in_all(self.first)
    }

    /// Examples of block `block`.
    pub fn range(&self, block: usize) -> Range<usize> {
        self.start(block)..self.start(block + 1)
    }

    /// Examples of the largest block.
    pub fn largest(&self) -> usize {
        self.examples.div_ceil(self.all)
    }

    /// The fewest subtrees that these blocks are, each by its blocks, counted from the first that
    /// are here.
    pub fn subtrees(self) -> impl Iterator<Item = Range<usize>> + Clone {
        let mut from = self.first;
        std::iter::from_fn(move || {
            let left = self.end - from;
            // As large as whole subtrees that begin here, and as what is left.
            let most = left.checked_ilog2()?;
            let subtree = 1 << most.min(from.trailing_zeros());
            from += subtree;
            Some(from - subtree - self.first..from - self.first)
        })
    }

    /// The most subtrees of any rank's blocks.
    pub fn subtrees_max(count: usize, ranks: usize) -> usize {
        let of_rank = |rank| Self::new(0, count).of_rank(rank, ranks).subtrees().count();
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
        let own = Blocks::new(77, 8).of_rank(1, 2);
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
                    let own = whole.of_rank(rank, ranks);
                    assert_eq!(own.place().start, covered.len());
                    let blocks = (0..own.count()).map(|block| own.range(block));
                    for (number, range) in blocks.enumerate() {
                        assert_eq!(range.len(), whole.range(own.first() + number).len());
                        covered.extend(range.map(|example| own.place().start + example));
                    }
                    for shorter in 0..=examples {
                        let of = Blocks::new(shorter, count).of_rank(rank, ranks);
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
        let server = whole.of_rank(0, 4);
        assert_eq!((server.count(), server.place(), server.examples_max()), (0, 0..0, 0));
        assert_eq!(server.subtrees().count(), 0);
        for rank in 1..4 {
            let (own, alone) = (whole.of_rank(rank, 4), Blocks::new(77, 8).of_rank(rank - 1, 3));
            assert_eq!((own.first(), own.place()), (alone.first(), alone.place()));
            assert_eq!(own.of_all(), whole);
        }
    }

    #[test]
    fn subtrees_are_those_of_the_text() {
        let of = |rank| Blocks::new(0, 8).of_rank(rank, 3).subtrees().collect::<Vec<_>>();
        assert_eq!((of(0).len(), &of(0)[0]), (1, &(0..2)));
        assert!(of(1) == [0..2, 2..3] && of(2) == [0..1, 1..3]);
        assert_eq!(Blocks::new(0, 6).subtrees().collect::<Vec<_>>(), [0..4, 4..6]);
        assert_eq!(Blocks::subtrees_max(8, 1), 1);
        assert_eq!(Blocks::subtrees_max(8, 3), 2);
    }
}
