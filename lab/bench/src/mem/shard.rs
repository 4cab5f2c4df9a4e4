//! A part of the rows with its own slab and metadata, and the accesses to it.

use std::collections::HashSet;

use stepwell_base::random::{Stream, finalize};
use stepwell_base::slab::Slab;
use stepwell_base::{Key, SlotIndex};
use stepwell_data::Zipf;
use stepwell_mem::Cache;

use super::options::Options;
use crate::{Error, Result};

/// Number of shards, so that each thread can own one.
pub(super) const SHARDS: u64 = 2;

/// Accesses to one shard, cut into batches of distinct rows.
#[derive(Debug, Default)]
pub(super) struct Sequence {
    pub(super) keys: Vec<Key>,
    /// End of each batch of keys.
    pub(super) key_ends: Vec<usize>,
    /// Slots of those keys that have one, in the same order.
    pub(super) slots: Vec<SlotIndex>,
    /// End of each batch of slots.
    pub(super) slot_ends: Vec<usize>,
}

pub(super) struct Shard {
    pub(super) slab: Slab,
    pub(super) cache: Cache,
    pub(super) skewed: Sequence,
    pub(super) uniform: Sequence,
}

/// Key of row `number`: a bijection, so keys are distinct and in random order.
fn key(number: u64) -> Key {
    Key(finalize(number + 1))
}

/// Shard of row `number`.
fn shard_of(number: u64) -> u64 {
    finalize(!number) % SHARDS
}

impl Shard {
    /// A shard with the most frequent rows that fit, in random slots, with every page of memory
    /// touched.
    pub(super) fn new(options: &Options, number: u64) -> Result<Self> {
        let slots = (options.slots / SHARDS) as usize;
        let lanes = options.row_bytes / size_of::<f32>();
        let map = |error: std::io::Error| {
            Error::Arguments(format!("{slots} rows of {} bytes: {error}", options.row_bytes))
        };
        let mut slab = Slab::new(slots, lanes).map_err(map)?;
        slab.lanes_mut().fill(0.5);
        let mut cache = Cache::new(slots, 1);
        let mut present: Vec<u64> =
            (0..options.keys).filter(|row| shard_of(*row) == number).take(slots).collect();
        shuffle(&mut present, number);
        for row in present {
            let placed = cache.place(key(row))?;
            cache.unpin(placed.slot);
        }
        let mut shard =
            Self { slab, cache, skewed: Sequence::default(), uniform: Sequence::default() };
        shard.skewed = shard.skewed(options, number);
        shard.uniform = shard.uniform(options, number);
        Ok(shard)
    }

    /// Draws keys by frequency, in batches without duplicates.
    fn skewed(&self, options: &Options, number: u64) -> Sequence {
        let zipf = Zipf::new(options.keys, options.skew);
        let mut dice = Stream::from_state(number + 100);
        let mut sequence = Sequence::default();
        for _ in 0..options.lookups / SHARDS / options.batch {
            let mut seen = HashSet::new();
            let mut drawn = 0;
            while drawn < options.batch {
                let row = zipf.rank(dice.next_u64(), dice.next_u64());
                if shard_of(row) != number {
                    continue;
                }
                drawn += 1;
                if seen.insert(row) {
                    sequence.keys.push(key(row));
                    sequence.slots.extend(self.cache.find(key(row)));
                }
            }
            sequence.key_ends.push(sequence.keys.len());
            sequence.slot_ends.push(sequence.slots.len());
        }
        sequence
    }

    /// Draws random slots, each at most once per batch.
    fn uniform(&self, options: &Options, number: u64) -> Sequence {
        let mut dice = Stream::from_state(number + 200);
        let mut sequence = Sequence::default();
        let slots = self.slab.slots() as u64;
        let mut drawn_in = vec![0u32; slots as usize];
        for batch in 1..=(options.lookups / SHARDS / options.batch) as u32 {
            for _ in 0..options.batch {
                let slot = (dice.next_u64() % slots) as usize;
                if drawn_in[slot] != batch {
                    drawn_in[slot] = batch;
                    sequence.slots.push(SlotIndex(slot as u32));
                }
            }
            sequence.slot_ends.push(sequence.slots.len());
        }
        sequence
    }
}

fn shuffle(rows: &mut [u64], seed: u64) {
    let mut dice = Stream::from_state(seed + 300);
    for last in (1..rows.len()).rev() {
        let other = ((u128::from(dice.next_u64()) * (last as u128 + 1)) >> 64) as usize;
        rows.swap(last, other);
    }
}
