//! What is known of coming mini-batches: for each key, the next mini-batch that uses it.
//!
//! Why: the row whose next use is farthest should leave first (Belady). Keys are known a horizon
//! ahead, long before rows are held.
//!
//! How: mini-batches are numbered in order. Each waiting one keeps, per distinct key, the number
//! of the next mini-batch that has the key too. `last` finds the latest waiting mini-batch of a
//! key, whose link a newly learned one completes.
//!
//! Cost: 4 bytes per distinct key of a waiting mini-batch, and one map entry per distinct key of
//! all waiting ones.

use std::collections::VecDeque;

use hashbrown::HashTable;
use stepwell_base::scatter::Scatter;
use stepwell_base::{Key, SlotIndex};
use stepwell_mem::Cache;

const NEVER: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Last {
    key: Key,
    number: u32,
    index: u32,
}

/// Keys of the mini-batches that were learned and not planned yet.
#[derive(Debug)]
pub(crate) struct Future {
    /// A secret, so that no keys are chosen which all meet in the map.
    scatter: Scatter,
    last: HashTable<Last>,
    waiting: VecDeque<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    number: u32,
    /// Next mini-batch with the same key; empty when this one was not followed.
    next: Vec<u32>,
}

impl Default for Future {
    fn default() -> Self {
        Self { scatter: Scatter::drawn(), last: HashTable::new(), waiting: VecDeque::new() }
    }
}

impl Future {
    /// Bytes for `keys` distinct keys known ahead.
    pub(crate) fn bytes_max(keys: u64) -> u64 {
        // The map doubles when half of its room is filled with removed entries, and while it
        // grows the old one is still there.
        let buckets = (keys * 16).div_ceil(7).next_power_of_two().max(8);
        buckets * (size_of::<Last>() as u64 + 1) * 3 / 2 + keys * size_of::<u32>() as u64
    }

    /// Mini-batch `number` comes after all learned before and uses the distinct `keys`, of which
    /// `slots` says where each lies in the slab.
    ///
    /// Without `slots` its keys are not looked at: nothing will have to leave before it.
    pub(crate) fn learn<'k>(
        &mut self,
        cache: &mut Cache,
        number: u32,
        keys: impl Iterator<Item = &'k Key>,
        slots: Option<&[Option<SlotIndex>]>,
    ) {
        let mut next = Vec::new();
        if let Some(slots) = slots {
            next.resize(slots.len(), NEVER);
            for (index, (key, slot)) in keys.zip(slots).enumerate() {
                let last = Last { key: *key, number, index: index as u32 };
                if let (true, Some(slot)) = (self.link(last), slot) {
                    cache.expect(*slot, Some(number));
                }
            }
        }
        self.waiting.push_back(Waiting { number, next });
    }

    /// Whether no waiting mini-batch has had the key of `last` yet.
    fn link(&mut self, last: Last) -> bool {
        let Self { scatter, .. } = *self;
        let found = self.last.find_mut(scatter.of(last.key), |other| other.key == last.key);
        let Some(former) = found else {
            self.last.insert_unique(scatter.of(last.key), last, |last| scatter.of(last.key));
            return true;
        };
        let first = self.waiting.front().map_or(last.number, |waiting| waiting.number);
        let earlier = (former.number - first) as usize;
        self.waiting[earlier].next[former.index as usize] = last.number;
        *former = last;
        false
    }

    /// The oldest waiting mini-batch, which has `number` and `keys`, is planned now: per key the
    /// next mini-batch that uses it, `NEVER` where none is known; empty when none was followed.
    pub(crate) fn take<'k>(
        &mut self,
        number: u32,
        keys: impl Iterator<Item = &'k Key>,
    ) -> Vec<u32> {
        let oldest = self.waiting.pop_front();
        assert!(
            oldest.as_ref().is_some_and(|waiting| waiting.number == number),
            "mini-batch {number} is planned out of order"
        );
        let next = oldest.map(|waiting| waiting.next).unwrap_or_default();
        for (key, next) in keys.zip(&next) {
            if *next == NEVER {
                let entry = self.last.find_entry(self.scatter.of(*key), |last| last.key == *key);
                if let Ok(entry) = entry {
                    entry.remove();
                }
            }
        }
        next
    }

    /// The number in `next` as the cache wants it.
    pub(crate) fn known(next: u32) -> Option<u32> {
        Some(next).filter(|number| *number != NEVER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(of: &[u64]) -> Vec<Key> {
        of.iter().copied().map(Key).collect()
    }

    fn learn(future: &mut Future, cache: &mut Cache, number: u32, keys: &[Key]) {
        let mut slots = Vec::new();
        cache.find_many(keys, &mut slots);
        future.learn(cache, number, keys.iter(), Some(&slots));
    }

    #[test]
    fn each_key_knows_its_next_mini_batch() {
        let mut cache = Cache::new(4, 4);
        let mut future = Future::default();
        let batches = [keys(&[1, 2]), keys(&[2, 3]), keys(&[1, 2])];
        for (number, batch) in batches.iter().enumerate() {
            learn(&mut future, &mut cache, number as u32, batch);
        }
        assert_eq!(future.take(0, batches[0].iter()), [2, 1]);
        assert_eq!(future.take(1, batches[1].iter()), [2, NEVER]);
        learn(&mut future, &mut cache, 3, &batches[1]);
        assert_eq!(future.take(2, batches[2].iter()), [NEVER, 3]);
        assert_eq!(future.take(3, batches[1].iter()), [NEVER, NEVER]);
        assert!(future.last.is_empty());
    }

    #[test]
    fn a_resident_row_learns_its_next_use() {
        let mut cache = Cache::new(4, 4);
        let mut future = Future::default();
        let slot = cache.place(Key(9)).expect("a slot is free").slot;
        cache.unpin(slot);
        learn(&mut future, &mut cache, 7, &keys(&[8, 9]));
        learn(&mut future, &mut cache, 8, &keys(&[9]));
        assert_eq!(cache.next_use(slot), Some(7));
    }

    #[test]
    fn following_may_begin_late() {
        let mut cache = Cache::new(4, 4);
        let mut future = Future::default();
        future.learn(&mut cache, 0, keys(&[1]).iter(), None);
        learn(&mut future, &mut cache, 1, &keys(&[1]));
        learn(&mut future, &mut cache, 2, &keys(&[1]));
        assert!(future.take(0, keys(&[1]).iter()).is_empty());
        assert_eq!(future.take(1, keys(&[1]).iter()), [2]);
    }
}
