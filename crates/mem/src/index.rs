//! The index from key to slot: open addressing, linear probing, no tombstones.
//!
//! Why not a general hash map: its bytes must be known before the run and never change. A map
//! with tombstones doubles when it is full of them, which a slab under eviction always is.
//!
//! How: an entry is (tag, slot); the key itself lies in the slab's key array and is read only
//! where the tag fits. The mixed key's high bits choose the home bucket, its low 32 bits are the
//! tag. Removal moves later entries of the run back, so that runs never hold dead entries.
//!
//! Invariants  between an entry and its home no bucket is vacant.
//! Cost        8 bytes a bucket, 4 buckets for 3 slots; one or two cache lines a look-up.

use stepwell_base::prefetch::prefetch;
use stepwell_base::{Key, SlotIndex, hash};

/// Zero, so that fresh memory is vacant.
const VACANT: u64 = 0;

/// Number of buckets for `slots` slots.
pub(crate) fn buckets_for(slots: u64) -> u64 {
    slots * 4 / 3 + 2
}

/// Bytes of an index over `slots` slots.
pub(crate) fn bytes_for(slots: u64) -> u64 {
    buckets_for(slots) * size_of::<u64>() as u64
}

fn slot_in(entry: u64) -> SlotIndex {
    SlotIndex(entry as u32 - 1)
}

#[derive(Debug)]
pub(crate) struct Index {
    /// `tag << 32 | slot + 1`, or [`VACANT`].
    buckets: Box<[u64]>,
}

impl Index {
    pub(crate) fn new(slots: usize) -> Self {
        Self { buckets: vec![VACANT; buckets_for(slots as u64) as usize].into() }
    }

    fn home(&self, mixed: u64) -> usize {
        ((u128::from(mixed) * self.buckets.len() as u128) >> 64) as usize
    }

    fn after(&self, bucket: usize) -> usize {
        if bucket + 1 == self.buckets.len() { 0 } else { bucket + 1 }
    }

    fn bucket_of(&self, keys: &[Key], key: Key) -> Option<usize> {
        let mixed = hash::mix(key);
        let mut bucket = self.home(mixed);
        loop {
            let entry = self.buckets[bucket];
            if entry == VACANT {
                return None;
            }
            if (entry >> 32) as u32 == mixed as u32 && keys[slot_in(entry).at()] == key {
                return Some(bucket);
            }
            bucket = self.after(bucket);
        }
    }

    /// The slot of `key`; `keys` holds each slot's key.
    #[inline]
    pub(crate) fn find(&self, keys: &[Key], key: Key) -> Option<SlotIndex> {
        self.bucket_of(keys, key).map(|bucket| slot_in(self.buckets[bucket]))
    }

    /// Asks the processor to fetch the bucket where the search for `key` begins.
    #[inline]
    pub(crate) fn prefetch(&self, key: Key) {
        prefetch(&self.buckets[self.home(hash::mix(key))]);
    }

    /// Asks the processor to fetch the key that the search for `key` probably compares first; its
    /// bucket should have been fetched.
    #[inline]
    pub(crate) fn candidate(&self, key: Key) -> Option<SlotIndex> {
        let mixed = hash::mix(key);
        let entry = self.buckets[self.home(mixed)];
        (entry != VACANT && (entry >> 32) as u32 == mixed as u32).then(|| slot_in(entry))
    }

    /// Adds `key`, which is not here, in `slot`.
    pub(crate) fn insert(&mut self, key: Key, slot: SlotIndex) {
        let mixed = hash::mix(key);
        let mut bucket = self.home(mixed);
        while self.buckets[bucket] != VACANT {
            bucket = self.after(bucket);
        }
        self.buckets[bucket] = u64::from(mixed as u32) << 32 | u64::from(slot.0 + 1);
    }

    /// Removes `key`, which is here, and closes the gap.
    pub(crate) fn remove(&mut self, keys: &[Key], key: Key) {
        let found = self.bucket_of(keys, key);
        assert!(found.is_some(), "key {:016x} leaves the index without being in it", key.0);
        let Some(mut gap) = found else { return };
        let mut bucket = self.after(gap);
        while self.buckets[bucket] != VACANT {
            let key = keys[slot_in(self.buckets[bucket]).at()];
            if self.may_move(self.home(hash::mix(key)), gap, bucket) {
                self.buckets[gap] = self.buckets[bucket];
                gap = bucket;
            }
            bucket = self.after(bucket);
        }
        self.buckets[gap] = VACANT;
    }

    /// Whether an entry in `bucket` with this `home` may move to `gap`, which lies before it.
    fn may_move(&self, home: usize, gap: usize, bucket: usize) -> bool {
        let distance = |from: usize, to: usize| {
            if to >= from { to - from } else { to + self.buckets.len() - from }
        };
        distance(home, bucket) >= distance(gap, bucket)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use stepwell_base::random::Stream;

    use super::*;

    #[test]
    fn agrees_with_a_map_at_full_load() {
        for slots in [1usize, 2, 3, 50, 997] {
            let mut random = Stream::from_state(slots as u64);
            let (mut index, mut keys) = (Index::new(slots), vec![Key(0); slots]);
            let mut model: HashMap<u64, u32> = HashMap::new();
            let mut free: Vec<u32> = (0..slots as u32).collect();
            for _ in 0..20_000 {
                let key = random.next_u64() % (2 * slots as u64);
                assert_eq!(index.find(&keys, Key(key)).map(|s| s.0), model.get(&key).copied());
                if let Some(slot) = model.remove(&key) {
                    index.remove(&keys, Key(key));
                    free.push(slot);
                } else if let Some(slot) = free.pop() {
                    keys[slot as usize] = Key(key);
                    index.insert(Key(key), SlotIndex(slot));
                    model.insert(key, slot);
                }
            }
        }
    }
}
