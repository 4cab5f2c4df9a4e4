//! Free and taken blocks of an arena.
//!
//! - **How.** One bit for each block, set if it is free. The first gap that is large enough is
//!   taken; `first` tracks where free blocks start, so that single blocks are found immediately.
//! - **Invariants.**
//!   - DISK-I4: bits beyond the arena's blocks are never set;
//!   - DISK-I5: no word before `first` has a free block;
//!   - DISK-I6: only taken blocks are returned (asserted).
//! - **Cost.** A bit for each block; taking n blocks looks at the words up to the gap.

const WORD_BITS: usize = u64::BITS as usize;

#[derive(Debug)]
pub(super) struct Extents {
    free: Vec<u64>,
    blocks: usize,
    free_blocks: usize,
    first: usize,
}

impl Extents {
    /// `blocks` free blocks.
    pub(super) fn new(blocks: usize) -> Self {
        let words = blocks.div_ceil(WORD_BITS);
        let mut extents = Self { free: vec![0; words], blocks, free_blocks: 0, first: 0 };
        extents.set_free(0, blocks);
        extents.free_blocks = blocks;
        extents
    }

    /// Takes `count` adjacent blocks; returns the first, or `None` if no gap is large enough.
    pub(super) fn take(&mut self, count: usize) -> Option<usize> {
        if count > self.free_blocks {
            return None;
        }
        let mut at = self.first * WORD_BITS;
        loop {
            let start = self.next_free(at, self.blocks)?;
            if at == self.first * WORD_BITS {
                self.first = start / WORD_BITS;
            }
            let end = start + count;
            if end > self.blocks {
                return None;
            }
            match self.next_taken(start, end) {
                Some(taken) => at = taken,
                None => {
                    self.set_taken(start, end);
                    self.free_blocks -= count;
                    return Some(start);
                }
            }
        }
    }

    /// Returns `count` blocks from `start` on.
    pub(super) fn give(&mut self, start: usize, count: usize) {
        let end = start + count;
        assert!(end <= self.blocks && self.next_free(start, end).is_none(), "DISK-I6");
        self.set_free(start, end);
        self.free_blocks += count;
        self.first = self.first.min(start / WORD_BITS);
    }

    /// The first free block of `from..to`.
    fn next_free(&self, from: usize, to: usize) -> Option<usize> {
        self.next(from, to, 0)
    }

    /// The first taken block of `from..to`.
    fn next_taken(&self, from: usize, to: usize) -> Option<usize> {
        self.next(from, to, u64::MAX)
    }

    /// First block of `from..to` whose bit is set in the words XOR `flip`.
    fn next(&self, from: usize, to: usize, flip: u64) -> Option<usize> {
        let mut at = from;
        while at < to {
            let word = self.free[at / WORD_BITS] ^ flip;
            let rest = word >> (at % WORD_BITS);
            if rest != 0 {
                let found = at + rest.trailing_zeros() as usize;
                return (found < to).then_some(found);
            }
            at = (at / WORD_BITS + 1) * WORD_BITS;
        }
        None
    }

    fn set_free(&mut self, start: usize, end: usize) {
        for_words(start, end, |word, mask| self.free[word] |= mask);
    }

    fn set_taken(&mut self, start: usize, end: usize) {
        for_words(start, end, |word, mask| self.free[word] &= !mask);
    }
}

/// Calls `each` for the words with bits `start..end`, with the mask of those bits.
fn for_words(start: usize, end: usize, mut each: impl FnMut(usize, u64)) {
    let mut at = start;
    while at < end {
        let stop = end.min((at / WORD_BITS + 1) * WORD_BITS);
        let bits = u64::MAX >> (WORD_BITS - (stop - at));
        each(at / WORD_BITS, bits << (at % WORD_BITS));
        at = stop;
    }
}

#[cfg(test)]
mod tests {
    use stepwell_base::random::Stream;

    use super::*;

    /// The first gap of `count` free blocks, found by checking every position.
    fn first_fit(taken: &[bool], count: usize) -> Option<usize> {
        taken.windows(count).position(|gap| gap.iter().all(|taken| !taken))
    }

    #[test]
    fn it_is_first_fit() {
        for (seed, blocks) in [1, 2, 63, 64, 65, 128, 200, 1_000].into_iter().enumerate() {
            let mut dice = Stream::from_state(seed as u64);
            let mut extents = Extents::new(blocks);
            let mut taken = vec![false; blocks];
            let mut held = Vec::new();
            for _ in 0..5_000 {
                let largest =
                    if dice.next_u64().is_multiple_of(8) { blocks } else { blocks.min(33) };
                let count = dice.next_u64() as usize % largest + 1;
                let expected = first_fit(&taken, count);
                assert_eq!(extents.take(count), expected, "{count} of {blocks}");
                if let Some(start) = expected {
                    taken[start..start + count].fill(true);
                    held.push((start, count));
                }
                if dice.next_u64().is_multiple_of(2) && !held.is_empty() {
                    let (start, count) = held.swap_remove(dice.next_u64() as usize % held.len());
                    extents.give(start, count);
                    taken[start..start + count].fill(false);
                }
            }
            held.into_iter().for_each(|(start, count)| extents.give(start, count));
            assert_eq!(extents.take(blocks), Some(0), "all is free again");
        }
    }

    #[test]
    fn an_arena_without_blocks_has_none() {
        assert_eq!(Extents::new(0).take(1), None);
    }

    #[test]
    #[should_panic(expected = "DISK-I6")]
    fn what_was_not_taken_is_not_given_back() {
        let mut extents = Extents::new(10);
        extents.take(2);
        extents.give(1, 2);
    }
}
