//! A set of numbers below a bound that finds the next number quickly.
//!
//! - **How.** A tree of bits: at the bottom, one per number; above, one for each word of 64 that
//!   has any set.
//! - **Cost.** An eighth of a byte per number; every operation takes a step per level, at most six.

use std::ops::RangeFrom;

use stepwell_base::prefetch::prefetch_at;

/// Numbers per word.
const WORD: usize = u64::BITS as usize;

/// A set of numbers.
#[derive(Debug)]
pub(crate) struct Numbers {
    /// The bottom level first; the last has one word.
    levels: Vec<Box<[u64]>>,
}

impl Numbers {
    /// An empty set of numbers below `bound`.
    pub(crate) fn new(bound: usize) -> Self {
        let levels = words(bound).map(|words| vec![0; words].into()).collect();
        Self { levels }
    }

    /// Bytes allocated.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> u64 {
        self.levels.iter().map(|level| size_of_val(&**level) as u64).sum()
    }

    /// Bytes of a set of numbers below `bound`.
    pub(crate) fn bytes_for(bound: u64) -> u64 {
        words(bound as usize).map(|words| (words * size_of::<u64>()) as u64).sum()
    }

    #[inline]
    pub(crate) fn insert(&mut self, number: usize) {
        let mut at = number;
        for level in &mut self.levels {
            let word = &mut level[at / WORD];
            let had_any = *word != 0;
            *word |= 1 << (at % WORD);
            if had_any {
                return;
            }
            at /= WORD;
        }
    }

    #[inline]
    pub(crate) fn remove(&mut self, number: usize) {
        let mut at = number;
        for level in &mut self.levels {
            let word = &mut level[at / WORD];
            *word &= !(1 << (at % WORD));
            if *word != 0 {
                return;
            }
            at /= WORD;
        }
    }

    /// Prefetches the word of `number`.
    #[inline]
    pub(crate) fn prefetch(&self, number: usize) {
        prefetch_at(&self.levels[0], number / WORD);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.levels.last().is_none_or(|top| top[0] == 0)
    }

    /// The first number in a range.
    pub(crate) fn first_in(&self, range: RangeFrom<usize>) -> Option<usize> {
        let mut from = range.start;
        for (height, level) in self.levels.iter().enumerate() {
            let word = from / WORD;
            let bits = level.get(word)? & (u64::MAX << (from % WORD));
            if bits != 0 {
                let below = self.levels[..height].iter().rev();
                let first = |at: usize, bits: u64| at * WORD + bits.trailing_zeros() as usize;
                return Some(below.fold(first(word, bits), |at, level| first(at, level[at])));
            }
            from = word + 1;
        }
        None
    }

    /// The first number from `from` on, or else the first of all.
    pub(crate) fn next_in_turn(&self, from: usize) -> Option<usize> {
        self.first_in(from..).or_else(|| self.first_in(0..))
    }
}

/// Number of words of each level.
fn words(bound: usize) -> impl Iterator<Item = usize> {
    let bottom = bound.div_ceil(WORD).max(1);
    std::iter::successors(Some(bottom), |words| (*words > 1).then(|| words.div_ceil(WORD)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use stepwell_base::random::Stream;

    use super::*;

    #[test]
    fn agrees_with_a_plain_set() {
        for bound in [1, 2, 64, 65, 4096, 5000, 300_000] {
            let (mut ours, mut model) = (Numbers::new(bound), BTreeSet::new());
            let mut random = Stream::from_state(bound as u64);
            for step in 0..6000 {
                let number = (random.next_u64() % bound as u64) as usize;
                let grows = (step / 1000) % 2 == 0;
                if random.next_u64().is_multiple_of(4) != grows {
                    ours.insert(number);
                    model.insert(number);
                } else {
                    ours.remove(number);
                    model.remove(&number);
                    if let (false, Some(first)) = (grows, model.first().copied()) {
                        ours.remove(first);
                        model.remove(&first);
                    }
                }
                let from = (random.next_u64() % (bound as u64 + 2)) as usize;
                let next = model.range(from..).next().copied();
                assert_eq!(ours.first_in(from..), next);
                assert_eq!(ours.next_in_turn(from), next.or(model.first().copied()));
                assert_eq!(ours.is_empty(), model.is_empty());
            }
        }
    }

    #[test]
    fn an_eighth_of_a_byte_a_number() {
        for bound in [0, 1, 64, 65, 4096, 4097, 300_000] {
            assert_eq!(Numbers::bytes_for(bound), Numbers::new(bound as usize).bytes(), "{bound}");
        }
        assert_eq!(Numbers::bytes_for(0), 8);
        assert_eq!(Numbers::bytes_for(64 * 64), 8 * 65);
        assert_eq!(Numbers::bytes_for(64 * 64 + 1), 8 * (65 + 2 + 1));
    }
}
