//! A count-min sketch of 4-bit counters with ageing: how often keys were used recently.
//!
//! - **Source.** Einziger, Friedman, Manes, "TinyLFU: a highly efficient cache admission policy",
//!   ACM Transactions on Storage 2017, section 3.
//!
//! - **How.** A key has four counters, in four words; its frequency is the minimum. After ten uses
//!   per slot, all counters are halved, so that old uses are forgotten.
//!
//! ```text
//! word of 64 bits    [ row 3: 4 counters | row 2: 4 | row 1: 4 | row 0: 4 ]    4 bits each
//! ```
//!
//! - **Bounds.** A frequency is at most 15; keys that share all four counters are not
//!   distinguished.
//! - **Cost.** 8 bytes per slot, four cache lines per use; halving reads and writes all words once
//!   per ten uses per slot.

use stepwell_base::random::finalize;

const ROWS: u32 = 4;
/// Uses per slot between two halvings.
const SAMPLE: u64 = 10;
/// With fewer words, all keys would collide in tiny slabs.
const WORDS_MIN: usize = 16;
/// Mask of the upper three bits of all counters, shifted down.
const HALVES: u64 = 0x7777_7777_7777_7777;
const COUNT_MAX: u64 = 15;

/// Frequencies by tag.
#[derive(Debug)]
pub(super) struct Sketch {
    words: Box<[u64]>,
    uses: u64,
    sample: u64,
}

impl Sketch {
    /// A sketch for a slab of `slots` slots.
    pub(super) fn new(slots: usize) -> Self {
        let words = slots.max(WORDS_MIN);
        Self { words: vec![0; words].into(), uses: 0, sample: SAMPLE * words as u64 }
    }

    /// Word and shift of the counter in each row.
    fn counters(&self, tag: u32) -> [(usize, u32); ROWS as usize] {
        let mixed = finalize(tag.into());
        let (first, step) = (mixed as u32, (mixed >> 32) as u32 | 1);
        let choice = finalize(mixed);
        std::array::from_fn(|row| {
            let place = first.wrapping_add(step.wrapping_mul(row as u32));
            let word = (u64::from(place) * self.words.len() as u64) >> 32;
            let column = (choice >> (2 * row)) as u32 & 3;
            (word as usize, (row as u32 * 4 + column) * 4)
        })
    }

    /// How often the key of `tag` was used recently, or more.
    pub(super) fn frequency(&self, tag: u32) -> u64 {
        let count = |(word, shift): (usize, u32)| (self.words[word] >> shift) & COUNT_MAX;
        self.counters(tag).map(count).into_iter().min().unwrap_or(0)
    }

    /// Records a use of the key of `tag`.
    pub(super) fn increment(&mut self, tag: u32) {
        for (word, shift) in self.counters(tag) {
            if (self.words[word] >> shift) & COUNT_MAX < COUNT_MAX {
                self.words[word] += 1 << shift;
            }
        }
        self.uses += 1;
        if self.uses >= self.sample {
            self.words.iter_mut().for_each(|word| *word = (*word >> 1) & HALVES);
            self.uses /= 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequencies_are_never_too_low_and_seldom_too_high() {
        let mut sketch = Sketch::new(1000);
        for tag in 0..1000u32 {
            (0..tag % 8).for_each(|_| sketch.increment(tag.wrapping_mul(0x9E37_79B9)));
        }
        let seen = |tag: u32| sketch.frequency(tag.wrapping_mul(0x9E37_79B9));
        assert!((0..1000).all(|tag| seen(tag) >= u64::from(tag % 8)));
        let exact = (0..1000).filter(|tag| seen(*tag) == u64::from(*tag % 8)).count();
        assert!(exact > 800, "{exact}");
    }

    #[test]
    fn a_key_has_four_counters_that_owe_nothing_to_each_other() {
        const TAGS: u32 = 64_000;
        let sketch = Sketch::new(1000);
        let (mut words, mut pairs) = (vec![0; 1000], [[0; 16]; 3]);
        let mut distinct = 0;
        for tag in 0..TAGS {
            let counters = sketch.counters(tag);
            let mut columns = [0; ROWS as usize];
            for (row, (word, shift)) in counters.into_iter().enumerate() {
                assert!(shift % 4 == 0 && shift / 16 == row as u32, "its part of the word");
                columns[row] = (shift / 4 % 4) as usize;
                words[word] += 1;
            }
            let pair = |row: usize| columns[row] * 4 + columns[row + 1];
            (0..3).for_each(|row| pairs[row][pair(row)] += 1);
            let mut of_tag = counters.map(|(word, _)| word);
            of_tag.sort_unstable();
            distinct += u32::from(of_tag.windows(2).all(|two| two[0] != two[1]));
        }
        assert!(distinct > TAGS / 100 * 98, "{distinct} of {TAGS} have four words");
        assert!(words.iter().all(|count| (170..350).contains(count)), "256 each: {words:?}");
        assert!(pairs.as_flattened().iter().all(|n| (3700..4300).contains(n)), "{pairs:?}");
    }

    #[test]
    fn counts_end_at_fifteen_and_age() {
        let mut sketch = Sketch::new(16);
        (0..100).for_each(|_| sketch.increment(1));
        assert_eq!(sketch.frequency(1), 15);
        (0..60).for_each(|_| sketch.increment(2));
        assert_eq!(sketch.frequency(1), 7);
        // After uses of only the other key, it is forgotten; unused keys have no counts.
        (0..400).for_each(|_| sketch.increment(2));
        assert_eq!([1, 3, 4, 5].map(|tag| sketch.frequency(tag)), [0; 4]);
        assert!((7..=15).contains(&sketch.frequency(2)));
    }
}
