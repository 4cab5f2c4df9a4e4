//! Counts occurrences of keys in bounded memory.

use std::ops::Range;

use stepwell_base::owner::{KEY_SHARDS, key_shard};
use stepwell_base::random::{Stream, finalize};
use stepwell_base::{Key, TableId, hash};

/// Name of the stream that salts of a sketch are drawn from.
const NAME: &str = "admission sketch";

/// Counts occurrences of keys in bounded memory; may overestimate, never underestimates.
///
/// Source: Cormode, Muthukrishnan, "An improved data stream summary: the count-min sketch" (2005),
/// with the conservative update of Estan and Varghese (2002).
///
/// Each key shard of the table has a part that counts only its keys, in the order of their first
/// occurrence. So the counts of a shard don't depend on which rank has it.
#[derive(Debug)]
pub(in crate::rows) struct Sketch {
    pub(in crate::rows) counts: Vec<u8>, // (key shards, ROWS, width)
    width: u64,
    /// Changes of the current mini-batch, in order: places and their previous counts.
    changed: Vec<(usize, u8)>,
    /// Salts that make the hashes of the rows independent. // (ROWS)
    salts: [u64; Self::ROWS],
}

impl Sketch {
    const ROWS: usize = 4;

    /// Number of rows of all key shards.
    const PARTS: u64 = (KEY_SHARDS * Self::ROWS) as u64;

    /// Bytes that a sketch takes if assigned `bytes`: equal whole numbers for each row of each key
    /// shard.
    pub(in crate::rows) fn bytes(bytes: u64) -> u64 {
        (bytes / Self::PARTS).max(1) * Self::PARTS
    }

    pub(in crate::rows) fn new(bytes: u64, seed: u64, table: TableId) -> Self {
        let width = Self::bytes(bytes) / Self::PARTS;
        let mut stream = Stream::named(seed, format!("{NAME}/{}", table.0).as_bytes());
        let salts = std::array::from_fn(|_| stream.next_u64());
        let counts = vec![0; Self::bytes(bytes) as usize];
        Self { counts, width, changed: Vec::new(), salts }
    }

    /// Counts `key` `times` more; returns its count, up to 255.
    pub(in crate::rows) fn add(&mut self, key: Key, times: usize) -> u8 {
        let places = self.places(key);
        let least = places.iter().map(|place| self.counts[*place]).min().unwrap_or(0);
        let count = least.saturating_add(times.min(255) as u8);
        for place in places {
            let before = self.counts[place];
            if count > before {
                self.changed.push((place, before));
                self.counts[place] = count;
            }
        }
        count
    }

    /// Begins a mini-batch, which makes previous counts permanent.
    pub(in crate::rows) fn begin(&mut self) {
        self.changed.clear();
    }

    /// Undoes what was counted since the mini-batch began.
    pub(in crate::rows) fn undo(&mut self) {
        for (place, before) in self.changed.drain(..).rev() {
            self.counts[place] = before;
        }
    }

    /// Counts of adjacent key shards; those of all shards, joined, are `counts`.
    pub(in crate::rows) fn of(&self, shards: Range<usize>) -> &[u8] {
        let shard = Self::ROWS * self.width as usize;
        &self.counts[shards.start * shard..shards.end * shard]
    }

    /// Positions of `key`'s counts, one per row.
    fn places(&self, key: Key) -> [usize; Self::ROWS] {
        let mixed = hash::mix(key);
        let first = usize::from(key_shard(key)) * Self::ROWS;
        std::array::from_fn(|row| {
            let hash = finalize(mixed ^ self.salts[row]);
            let column = (u128::from(hash) * u128::from(self.width)) >> 64;
            (first + row) * self.width as usize + column as usize
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sketch_never_counts_too_few() {
        let mut sketch = Sketch::new(64, 1, TableId(0));
        let mut dice = Stream::from_state(5);
        let mut truth = std::collections::BTreeMap::<u64, usize>::new();
        for _ in 0..2000 {
            let (key, times) = (dice.next_u64() % 50, (dice.next_u64() % 3) as usize);
            *truth.entry(key).or_default() += times;
            assert!(usize::from(sketch.add(Key(key), times)) >= truth[&key].min(255));
        }
    }

    /// Two keys that collide in one row of the sketch collide in another as rarely as any two,
    /// which makes the minimum of four counts a good estimate.
    #[test]
    fn keys_that_meet_in_one_row_do_not_meet_in_others() {
        const KEYS: u64 = 20_000;
        type Numbered = fn(u64) -> u64;
        let keys: [(&str, Numbered); 3] = [
            ("consecutive", |number| number),
            ("multiples of 2^40", |number| number << 40),
            ("mixed", finalize),
        ];
        for (what, key) in keys {
            // Keys of one key shard, as different shards never collide.
            let of_shard = (0..).map(|number| Key(key(number))).filter(|key| key_shard(*key) == 7);
            let of_shard: Vec<Key> = of_shard.take(KEYS as usize).collect();
            for (seed, table) in [(1, 0), (2, 0), (1, 1)] {
                let sketch = Sketch::new(4 * 4096 * KEY_SHARDS as u64, seed, TableId(table));
                let pairs = (KEYS * (KEYS - 1) / 2) as f64;
                let places: Vec<_> = of_shard.iter().map(|key| sketch.places(*key)).collect();
                for (a, b) in [(0, 0), (0, 1), (1, 2), (0, 3), (3, 3)] {
                    let mut met: Vec<_> = places.iter().map(|of| (of[a], of[b])).collect();
                    met.sort_unstable();
                    let met: usize =
                        met.chunk_by(|x, y| x == y).map(|m| m.len()).map(pairs_of).sum();
                    let width = sketch.width as f64;
                    let expected = pairs / if a == b { width } else { width * width };
                    // Colliding pairs are Poisson distributed. Of 45 such sums with means of 12 and
                    // more, one beyond eight deviations occurs once in 10⁹ runs.
                    let deviations = (met as f64 - expected) / expected.sqrt();
                    assert!(deviations.abs() < 8.0, "{what}: {met} of {expected}, rows {a} {b}");
                }
            }
        }
    }

    fn pairs_of(keys: usize) -> usize {
        keys * (keys - 1) / 2
    }

    #[test]
    fn what_is_taken_back_was_never_counted() {
        let (mut sketch, mut plain) =
            (Sketch::new(64, 1, TableId(0)), Sketch::new(64, 1, TableId(0)));
        let mut dice = Stream::from_state(7);
        for round in 0..200 {
            let seen: Vec<(Key, usize)> =
                (0..9).map(|_| (Key(dice.next_u64() % 40), dice.next_u64() as usize % 4)).collect();
            sketch.begin();
            for (key, times) in &seen {
                sketch.add(*key, *times);
            }
            if round % 3 == 0 {
                sketch.undo();
            } else {
                for (key, times) in &seen {
                    plain.add(*key, *times);
                }
            }
            assert_eq!(sketch.counts, plain.counts, "round {round}");
        }
    }

    #[test]
    fn a_roomy_sketch_counts_exactly() {
        let mut sketch = Sketch::new(1 << 20, 1, TableId(0));
        for round in 1..=3 {
            for key in 0..100 {
                assert_eq!(sketch.add(Key(key), 1), round);
            }
        }
        assert_eq!(sketch.add(Key(7), 1000), 255);
    }
}
