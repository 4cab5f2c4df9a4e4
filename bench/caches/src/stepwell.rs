//! Ours, and the limit: a cache's metadata and a slab, and a bare loop over the same slab.
//!
//! - **How.** As `stepwell-lab bench mem` has it: keys are found batch by batch, the slots of those
//!   present are held and read while the rows further on are asked for. The bare loop reads the
//!   same rows in the same order, its slots known. Counting uses, as a training step does, is
//!   measured by itself: pins, and the policy told of every row.

use stepwell_base::prefetch::prefetch_row;
use stepwell_base::slab::Slab;
use stepwell_base::{Key, SlotIndex};
use stepwell_mem::{Cache, Occurrence};

use crate::Result;
use crate::options::Options;
use crate::sequence::Sequence;
use crate::workload::{self, LANES, Read, SHARDS, present, sum};

/// Rows asked for ahead.
const AHEAD: usize = 24;

/// A part of the rows.
#[derive(Debug)]
pub(crate) struct Shard {
    slab: Slab,
    cache: Cache,
}

impl Shard {
    /// All shards, filled with the rows that are present.
    pub(crate) fn all(options: &Options) -> Result<Vec<Self>> {
        let slots = (options.rows / SHARDS) as usize;
        (0..SHARDS).map(|number| Self::filled(slots, &present(options, number))).collect()
    }

    fn filled(slots: usize, keys: &[Key]) -> Result<Self> {
        let slab = Slab::new(slots, LANES);
        let mut slab = slab.map_err(|error| {
            format!("no memory for {slots} rows of 256 bytes: {error}; give fewer --rows")
        })?;
        let mut cache = Cache::new(slots, 1);
        for key in keys {
            let placed = cache.place(*key).map_err(|error| error.to_string())?;
            cache.unpin(placed.slot);
            let lanes = &mut slab.lanes_mut()[placed.slot.at() * LANES..][..LANES];
            let bits = workload::row(*key).map(f32::from_bits);
            lanes.copy_from_slice(&bits);
        }
        Ok(Self { slab, cache })
    }

    /// Rows that are present.
    pub(crate) fn rows(&self) -> usize {
        self.cache.rows()
    }

    pub(crate) fn find(&self, key: Key) -> Option<SlotIndex> {
        self.cache.find(key)
    }

    /// Compares every row that the sequence finds to what it must be.
    pub(crate) fn check(&self, sequence: &Sequence) -> Result<()> {
        let mut seen = 0;
        for key in &sequence.keys {
            let Some(slot) = self.find(*key) else { continue };
            let slots = [slot];
            workload::check(*key, bits(self.slab.hold(&slots).row(0)))
                .map_err(|why| format!("stepwell: {why}"))?;
            seen += 1;
        }
        match seen == sequence.slots.len() {
            true => Ok(()),
            false => Err(format!("stepwell found {seen} rows of {}", sequence.slots.len())),
        }
    }

    /// The limit: one row after another, their places known.
    pub(crate) fn read_bare(&mut self, slots: &[SlotIndex]) -> Read {
        let rows = self.slab.lanes_mut();
        let at = |slot: &SlotIndex| slot.at() * LANES..(slot.at() + 1) * LANES;
        let mut read = Read::default();
        for (number, slot) in slots.iter().enumerate() {
            if let Some(ahead) = slots.get(number + AHEAD) {
                prefetch_row(&rows[at(ahead)]);
            }
            read.take(sum(bits(&rows[at(slot)])));
        }
        read
    }

    /// Finds keys, holds the rows that are there, and reads them.
    pub(crate) fn look_up(&self, sequence: &Sequence) -> Read {
        let (mut found, mut slots) = (Vec::new(), Vec::new());
        let mut read = Read::default();
        for keys in sequence.batches() {
            self.cache.find_many(keys, &mut found);
            slots.clear();
            slots.extend(found.iter().flatten());
            self.read_held(&slots, &mut read);
        }
        read
    }

    /// The same with pins while rows are read, and every use counted by the policy.
    pub(crate) fn look_up_counted(&mut self, sequence: &Sequence) -> Read {
        let (mut found, mut slots) = (Vec::new(), Vec::new());
        let mut read = Read::default();
        let once = Occurrence { examples: 1, ..Occurrence::default() };
        for keys in sequence.batches() {
            self.cache.find_many(keys, &mut found);
            slots.clear();
            slots.extend(found.iter().flatten());
            slots.iter().for_each(|slot| self.cache.pin(*slot));
            self.read_held(&slots, &mut read);
            for slot in &slots {
                self.cache.trained(*slot, once);
                self.cache.unpin(*slot);
            }
        }
        read
    }

    fn read_held(&self, slots: &[SlotIndex], read: &mut Read) {
        let held = self.slab.hold(slots);
        for number in 0..held.len() {
            if number + AHEAD < held.len() {
                held.prefetch(number + AHEAD);
            }
            read.take(sum(bits(held.row(number))));
        }
    }
}

#[inline]
fn bits(lanes: &[f32]) -> impl Iterator<Item = u32> {
    lanes.iter().map(|lane| lane.to_bits())
}
