//! The offline optimum: evicts the row with the farthest next use (Belady's MIN).
//!
//! - **Source.** Belady, "A study of replacement algorithms for a virtual-storage computer", IBM
//!   Systems Journal 1966; Mattson et al. 1970 for the proof.
//!
//! - **How.** The slab's contents are a set of next uses, all different. A look-up is a hit if its
//!   own number is in the set; the victim is the set's greatest number. The set is a tree of bits,
//!   64 per node.
//!
//! The rows of a mini-batch are pinned together, so only other rows are evicted for it.
//!
//! - **Cost.** 4 bytes and a bit per look-up; every operation takes one step per level, at most
//!   five.

use super::sequence::Sequence;

/// The most hits in a slab of `slots` slots; with `bypass`, a missed key need not be placed.
pub(super) fn hits(sequence: &Sequence, slots: usize, bypass: bool) -> usize {
    let next = sequence.next_uses();
    let mut held = Numbers::new(next.len() + sequence.keys());
    let (mut rows, mut hits) = (0, 0);
    for batch in sequence.batches() {
        let look_ups = batch.first..batch.first + batch.ids.len();
        for look_up in look_ups.clone() {
            if held.remove(look_up) {
                hits += 1;
                rows -= 1;
            }
        }
        if !bypass {
            rows -= held.remove_greatest((rows + look_ups.len()).saturating_sub(slots));
        }
        for look_up in look_ups {
            held.insert(next[look_up] as usize);
            rows += 1;
        }
        if bypass {
            rows -= held.remove_greatest(rows.saturating_sub(slots));
        }
    }
    hits
}

/// A set of numbers below a bound.
struct Numbers {
    /// First a bit per number, then a bit per word of the previous level, up to a single word.
    levels: Vec<Vec<u64>>,
}

impl Numbers {
    fn new(bound: usize) -> Self {
        let mut levels = vec![vec![0; bound.div_ceil(64).max(1)]];
        while let Some(words) = levels.last().map(Vec::len).filter(|words| *words > 1) {
            levels.push(vec![0; words.div_ceil(64)]);
        }
        Self { levels }
    }

    fn insert(&mut self, number: usize) {
        let mut at = number;
        for level in &mut self.levels {
            level[at / 64] |= 1 << (at % 64);
            at /= 64;
        }
    }

    fn remove(&mut self, number: usize) -> bool {
        let had = self.levels[0][number / 64] >> (number % 64) & 1 == 1;
        let mut at = number;
        for level in &mut self.levels {
            level[at / 64] &= !(1 << (at % 64));
            if level[at / 64] != 0 {
                break;
            }
            at /= 64;
        }
        had
    }

    fn greatest(&self) -> Option<usize> {
        self.levels.iter().rev().try_fold(0, |at, level| {
            let highest = level[at].checked_ilog2()?;
            Some(at * 64 + highest as usize)
        })
    }

    /// Removes the greatest `count` numbers, or all; returns how many were removed.
    fn remove_greatest(&mut self, count: usize) -> usize {
        let gone = (0..count).map_while(|_| self.greatest().map(|number| self.remove(number)));
        gone.count()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use stepwell_base::random::Stream;

    use super::*;

    #[test]
    fn agrees_with_a_plain_set() {
        for bound in [1, 64, 65, 5000, 300_000] {
            let (mut ours, mut model) = (Numbers::new(bound), BTreeSet::new());
            let mut random = Stream::from_state(bound as u64);
            for _ in 0..5000 {
                let number = (random.next_u64() % bound as u64) as usize;
                match random.next_u64() % 3 {
                    0 => assert_eq!(ours.remove(number), model.remove(&number)),
                    1 => {
                        ours.insert(number);
                        model.insert(number);
                    }
                    _ => {
                        let gone = ours.remove_greatest(2);
                        assert_eq!(gone, (0..2).filter_map(|_| model.pop_last()).count());
                    }
                }
                assert_eq!(ours.greatest(), model.last().copied());
            }
        }
    }
}
