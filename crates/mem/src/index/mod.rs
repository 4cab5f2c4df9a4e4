//! The index from key to slot: buckets of ten entries, two buckets per key.
//!
//! Why not a general hash map: its bytes must be known before the run and never change. A map with
//! tombstones doubles when they fill it, as always happens to a slab under eviction.
//!
//! - **How.** A bucket is one cache line of ten entries, each a slot and 16 bits of the scattered
//!   key, the *tag*; the key itself is next to the slot and is read only if the tag matches. A
//!   secret of the index scatters keys, so nobody can choose keys that collide; the secret doesn't
//!   affect whether and where a key is found. A key goes to its second bucket only if its first is
//!   full, which then counts it: a look-up continues in the second bucket only if there is such a
//!   key. If both are full, entries move to their own other buckets (Pagh and Rodler, "Cuckoo
//!   hashing", 2001); if that doesn't end, as only with keys made to collide, a key goes to
//!   `overflow`. Removing a key leaves a vacancy, not a tombstone.
//! - **Invariants.**
//!   - MEM-I1: a key is in one of its two buckets or in the overflow, once.
//!   - MEM-I2: `elsewhere` of a bucket is the number of keys whose first bucket it is and that are
//!     not in it.
//! - **Growth.** Only as many buckets are used as the keys need: while there are few rows, few
//!   lines are touched. When the used buckets are full, their number doubles, in the same memory,
//!   until all are used, and every key is placed again.
//! - **Cost.** 7.1 bytes per slot at 90 % full. A look-up reads one line, or two in one of ten
//!   cases, and the line of the key whose tag matches; one in 6,000 reads a key that differs.
//!   Growing inserts each key once or twice more.
//! - **Bounds.** The memory of all buckets is allocated at the start; the overflow has room for one
//!   slot in 512, plus 64.

mod seek;

use bytemuck::Zeroable;
use stepwell_base::huge::HugeSlice;
use stepwell_base::prefetch::prefetch;
use stepwell_base::scatter::Scatter;
use stepwell_base::{Key, SlotIndex};

pub use self::seek::Seek;

/// Number of entries of a bucket.
const ENTRIES: usize = 10;
/// Number of slots per bucket of ten entries.
const SLOTS_PER_BUCKET: u64 = 9;
/// Maximum number of entries moved for one key.
const MOVES_MAX: usize = 500;
/// Keys between the prefetch of a line (a bucket, or a key next to a slot) and its use.
const AHEAD: usize = 32;
/// Number of buckets used from the start, if there are that many.
const BUCKETS_AT_FIRST: usize = 1 << 10;

/// Number of buckets for `slots` slots.
fn buckets_for(slots: u64) -> u64 {
    slots.div_ceil(SLOTS_PER_BUCKET).max(2)
}

/// Maximum number of keys in the overflow.
fn overflow_for(slots: u64) -> u64 {
    64 + slots / 512
}

/// Bytes of an index over `slots` slots.
pub(crate) fn bytes_for(slots: u64) -> u64 {
    buckets_for(slots) * size_of::<Bucket>() as u64
        + overflow_for(slots) * size_of::<(Key, SlotIndex)>() as u64
}

/// A vacant bucket is all zeros, like fresh memory.
#[derive(Clone, Copy, Debug, Zeroable)]
#[repr(C, align(64))]
struct Bucket {
    /// Slot plus one; zero if the entry is vacant.
    slots: [u32; ENTRIES],
    tags: [u16; ENTRIES],
    /// Number of keys that would be here if it were larger (MEM-I2).
    elsewhere: u32,
}

const _: () = assert!(size_of::<Bucket>() == 64);

impl Bucket {
    /// Entries with this tag, as bits; may include vacant ones.
    #[inline]
    fn with_tag(&self, tag: u16) -> u32 {
        let bit = |(at, of): (usize, &u16)| u32::from(*of == tag) << at;
        self.tags.iter().enumerate().map(bit).fold(0, |bits, bit| bits | bit)
    }

    #[inline]
    fn vacancy(&self) -> Option<usize> {
        self.slots.iter().position(|slot| *slot == 0)
    }

    #[inline]
    fn set(&mut self, at: usize, entry: Entry) {
        (self.slots[at], self.tags[at]) = (entry.slot.0 + 1, entry.tag);
    }

    #[inline]
    fn entry(&self, at: usize) -> Entry {
        Entry { tag: self.tags[at], slot: self.slot(at) }
    }

    /// Fills a vacancy if there is one; returns whether there was.
    #[inline]
    fn put(&mut self, entry: Entry) -> bool {
        let vacancy = self.vacancy();
        if let Some(at) = vacancy {
            self.set(at, entry);
        }
        vacancy.is_some()
    }

    #[inline]
    fn slot(&self, at: usize) -> SlotIndex {
        SlotIndex(self.slots[at].wrapping_sub(1))
    }
}

/// Entry of a key in a bucket.
#[derive(Clone, Copy, Debug)]
struct Entry {
    tag: u16,
    slot: SlotIndex,
}

/// The buckets where a key may be.
#[derive(Clone, Copy, Debug, Default)]
struct Home {
    buckets: [usize; 2],
    tag: u16,
}

#[derive(Debug)]
pub(crate) struct Index {
    scatter: Scatter,
    buckets: HugeSlice<Bucket>,
    /// Number of buckets in use, from the front.
    used: usize,
    keys: usize,
    overflow: Vec<(Key, SlotIndex)>,
    overflow_max: usize,
}

impl Index {
    pub(crate) fn new(slots: usize, scatter: Scatter) -> Self {
        let overflow_max = overflow_for(slots as u64) as usize;
        let buckets = HugeSlice::zeroed(buckets_for(slots as u64) as usize);
        Self {
            scatter,
            used: buckets.len().min(BUCKETS_AT_FIRST),
            keys: 0,
            buckets,
            overflow: Vec::with_capacity(overflow_max),
            overflow_max,
        }
    }

    #[inline]
    fn home(&self, key: Key) -> Home {
        let mixed = self.scatter.of(key);
        let below = |part: u64, count: usize| ((part * count as u64) >> u32::BITS) as usize;
        let count = self.used;
        let first = below(mixed >> u32::BITS, count);
        // Another bucket; the low half determines the distance.
        let further = first + 1 + below(mixed & u64::from(u32::MAX), count - 1);
        let second = if further >= count { further - count } else { further };
        Home { buckets: [first, second], tag: (mixed ^ (mixed >> 40)) as u16 }
    }

    /// Number of the entry of `key` in a bucket.
    #[inline]
    fn entry_in(
        &self,
        bucket: usize,
        key: Key,
        tag: u16,
        key_in: impl Fn(SlotIndex) -> Key,
    ) -> Option<usize> {
        let entries = &self.buckets[bucket];
        let mut bits = entries.with_tag(tag);
        while bits != 0 {
            let at = bits.trailing_zeros() as usize;
            if entries.slots[at] != 0 && key_in(entries.slot(at)) == key {
                return Some(at);
            }
            bits &= bits - 1;
        }
        None
    }

    #[inline]
    fn find_at(
        &self,
        key: Key,
        home: &Home,
        key_in: impl Fn(SlotIndex) -> Key,
    ) -> Option<SlotIndex> {
        let [first, second] = home.buckets;
        if let Some(at) = self.entry_in(first, key, home.tag, &key_in) {
            return Some(self.buckets[first].slot(at));
        }
        if self.buckets[first].elsewhere == 0 {
            return None;
        }
        match self.entry_in(second, key, home.tag, key_in) {
            Some(at) => Some(self.buckets[second].slot(at)),
            None => self.overflow.iter().find(|(of, _)| *of == key).map(|(_, slot)| *slot),
        }
    }

    /// The slot of `key`; `key_in` returns each taken slot's key.
    #[inline]
    pub(crate) fn find(&self, key: Key, key_in: impl Fn(SlotIndex) -> Key) -> Option<SlotIndex> {
        self.find_at(key, &self.home(key), key_in)
    }

    /// Calls `meet` with the slot of each of `keys`, in order; `ask` prefetches what `key_in` reads
    /// for a slot.
    #[inline]
    pub(crate) fn find_many(
        &self,
        keys: &[Key],
        key_in: impl Fn(SlotIndex) -> Key,
        ask: impl Fn(SlotIndex),
        mut meet: impl FnMut(Option<SlotIndex>),
    ) {
        let mut seek = Seek::default();
        for at in 0..keys.len() {
            meet(self.seek(&mut seek, at, |at| keys.get(at).copied(), &key_in, &ask));
        }
    }

    /// Prefetches the first bucket of `key`.
    #[inline]
    pub(crate) fn prefetch(&self, key: Key) {
        prefetch(&self.buckets[self.home(key).buckets[0]]);
    }

    /// Adds `key`, which isn't in the index, with `slot`, for which `key_in` already returns it.
    /// Until all buckets are used, slots are taken in order, from 0. If too many keys share their
    /// buckets, fails with their number, and some key is then missing.
    #[inline]
    pub(crate) fn insert(
        &mut self,
        key: Key,
        slot: SlotIndex,
        key_in: impl Fn(SlotIndex) -> Key,
    ) -> Result<(), usize> {
        if self.used < self.buckets.len() && self.keys == self.used * SLOTS_PER_BUCKET as usize {
            assert_eq!(slot.at(), self.keys, "slots are taken in order while the index grows");
            self.grow(&key_in)?;
        }
        self.keys += 1;
        self.put(key, slot, key_in)
    }

    /// Doubles the number of used buckets, up to all, for the keys of the taken slots.
    #[cold]
    fn grow(&mut self, key_in: &impl Fn(SlotIndex) -> Key) -> Result<(), usize> {
        self.buckets[..self.used].fill(Bucket::zeroed());
        self.overflow.clear();
        self.used = self.buckets.len().min(2 * self.used);
        let keys = self.keys as u32;
        let slots = || (0..keys).map(SlotIndex);
        let mut ahead = slots().skip(AHEAD);
        for slot in slots() {
            if let Some(ahead) = ahead.next() {
                prefetch(&self.buckets[self.home(key_in(ahead)).buckets[0]]);
            }
            self.put(key_in(slot), slot, key_in)?;
        }
        Ok(())
    }

    #[inline]
    fn put(
        &mut self,
        key: Key,
        slot: SlotIndex,
        key_in: impl Fn(SlotIndex) -> Key,
    ) -> Result<(), usize> {
        let Home { buckets: [first, second], tag } = self.home(key);
        let mut leaving = Entry { tag, slot };
        if self.buckets[first].put(leaving) {
            return Ok(());
        }
        self.buckets[first].elsewhere += 1;
        let mut bucket = second;
        let mut step = 0;
        while !self.buckets[bucket].put(leaving) {
            if step == MOVES_MAX {
                return self.overflow(bucket, leaving, key_in);
            }
            // A different entry each time, so that two full buckets don't exchange a single one
            // forever.
            let at = step % ENTRIES;
            let moved = self.buckets[bucket].entry(at);
            self.buckets[bucket].set(at, leaving);
            leaving = moved;
            let of = self.home(key_in(leaving.slot)).buckets;
            if of[0] == bucket {
                self.buckets[bucket].elsewhere += 1;
                bucket = of[1];
            } else {
                self.buckets[of[0]].elsewhere -= 1;
                bucket = of[0];
            }
            step += 1;
        }
        Ok(())
    }

    /// Puts a key that found no room on its way to `bucket` into the overflow.
    #[cold]
    fn overflow(
        &mut self,
        bucket: usize,
        entry: Entry,
        key_in: impl Fn(SlotIndex) -> Key,
    ) -> Result<(), usize> {
        let key = key_in(entry.slot);
        if self.home(key).buckets[0] == bucket {
            self.buckets[bucket].elsewhere += 1;
        }
        if self.overflow.len() == self.overflow_max {
            return Err(self.overflow_max);
        }
        self.overflow.push((key, entry.slot));
        Ok(())
    }

    /// Removes `key`, which must be in the index.
    pub(crate) fn remove(&mut self, key: Key, key_in: impl Fn(SlotIndex) -> Key) {
        self.keys -= 1;
        let Home { buckets: [first, second], tag } = self.home(key);
        if let Some(at) = self.entry_in(first, key, tag, &key_in) {
            self.vacate(first, at);
            return;
        }
        if let Some(at) = self.entry_in(second, key, tag, key_in) {
            self.vacate(second, at);
        } else {
            let at = self.overflow.iter().position(|(of, _)| *of == key);
            assert!(at.is_some(), "key {:016x} leaves the index without being in it", key.0);
            at.map(|at| self.overflow.swap_remove(at));
        }
        self.buckets[first].elsewhere -= 1;
    }

    fn vacate(&mut self, bucket: usize, at: usize) {
        let entries = &mut self.buckets[bucket];
        (entries.slots[at], entries.tags[at]) = (0, 0);
        if !self.overflow.is_empty() {
            self.call_back();
        }
    }

    /// Moves keys from the overflow to buckets that have room again.
    #[cold]
    fn call_back(&mut self) {
        let mut overflow = std::mem::take(&mut self.overflow);
        overflow.retain(|(key, slot)| {
            let Home { buckets: [first, second], tag } = self.home(*key);
            let entry = Entry { tag, slot: *slot };
            if self.buckets[first].put(entry) {
                self.buckets[first].elsewhere -= 1;
                return false;
            }
            !self.buckets[second].put(entry)
        });
        self.overflow = overflow;
    }
}

#[cfg(test)]
mod tests;
