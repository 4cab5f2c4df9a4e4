//! The rows that are asked for, one sequence for each shard.
//!
//! - **How.** Keys are drawn by frequency and cut into batches without repetitions, as mini-batches
//!   have them. Every engine gets these keys in this order; those that know no batches take one key
//!   after another. The limit gets the slots of the keys that are present.

use std::collections::HashSet;

use rustc_hash::FxBuildHasher;
use stepwell_base::random::Stream;
use stepwell_base::{Key, SlotIndex};
use stepwell_data::Zipf;

use crate::options::Options;
use crate::stepwell::Shard;
use crate::workload::{SHARDS, key, shard_of};

/// What one shard is asked for.
#[derive(Debug, Default)]
pub(crate) struct Sequence {
    pub(crate) keys: Vec<Key>,
    /// Where each batch of keys ends.
    pub(crate) ends: Vec<usize>,
    /// The slots of those keys that are present, in the same order.
    pub(crate) slots: Vec<SlotIndex>,
}

impl Sequence {
    /// One sequence for each of `shards`.
    pub(crate) fn all(options: &Options, shards: &[Shard]) -> Vec<Self> {
        let zipf = Zipf::new(options.keys, options.skew);
        let draw = |(number, shard)| Self::draw(options, &zipf, number, shard);
        (0..SHARDS).zip(shards).map(draw).collect()
    }

    fn draw(options: &Options, zipf: &Zipf, number: u64, shard: &Shard) -> Self {
        let mut dice = Stream::from_state(number + 100);
        let mut sequence = Self::default();
        let mut seen = HashSet::with_hasher(FxBuildHasher);
        for _ in 0..options.lookups / SHARDS / options.batch {
            seen.clear();
            let mut drawn = 0;
            while drawn < options.batch {
                let row = zipf.rank(dice.next_u64(), dice.next_u64());
                if shard_of(row) != number {
                    continue;
                }
                drawn += 1;
                if seen.insert(row) {
                    sequence.keys.push(key(row));
                }
            }
            sequence.ends.push(sequence.keys.len());
        }
        sequence.slots = sequence.keys.iter().filter_map(|key| shard.find(*key)).collect();
        sequence
    }

    /// The keys, batch by batch.
    pub(crate) fn batches(&self) -> impl Iterator<Item = &[Key]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.keys[start..*end])
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::Parser;

    use super::*;

    #[test]
    fn batches_have_no_repetitions_and_slots_are_those_of_present_keys() {
        let options = Options::parse_from([
            "caches",
            "--rows",
            "2000",
            "--keys",
            "20000",
            "--lookups",
            "10000",
            "--batch",
            "500",
        ]);
        let shards = Shard::all(&options).unwrap();
        let sequences = Sequence::all(&options, &shards);
        assert_eq!(sequences.len(), 2);
        for (shard, sequence) in shards.iter().zip(&sequences) {
            assert_eq!(sequence.batches().count(), 10);
            assert_eq!(sequence.batches().flatten().count(), sequence.keys.len());
            for batch in sequence.batches() {
                let distinct: BTreeSet<_> = batch.iter().collect();
                assert_eq!(distinct.len(), batch.len());
            }
            let found = sequence.keys.iter().filter(|key| shard.find(**key).is_some()).count();
            assert_eq!(found, sequence.slots.len());
            assert!((1..sequence.keys.len()).contains(&found), "some are present, some are not");
        }
    }
}
