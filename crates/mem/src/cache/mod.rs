//! The metadata of one table group's slab.
//!
//! State of a slot and its transitions (the group's planner makes all calls, one after another):
//!
//! ```text
//!            place                unpin, no use known              chosen, place
//!  fresh ───────────► pinned ───────────────────────► in the policy ─────────► (another key)
//!                      ▲   │  unpin, use known                ▲  │
//!                      │   └──────────────────► known use ◄───┼──┘ expect
//!                      └──────── pin ───────────────┴─────────┘
//! ```
//!
//! Until a row is evicted or a next use is known, it doesn't matter which rows are in the policy.
//! So rows are attached only then, in the order in which they were placed, unless the policy needs
//! the order of their uses ([`Policy::may_begin_late`]). A table that fits pays only for its index
//! and records.
//!
//! - **Invariants.**
//!   - I4: a pinned slot is neither in the policy nor a known use, so no victim is pinned. A chosen
//!     slot is neither, and isn't pinned before its row is evicted ([`Cache::will_place`]).
//!   - I9: every slot can be pinned; the index has room for a key in each.
//! - **Cost.** [`crate::metadata_bytes`]: 16 bytes of record per slot, 7.1 of index, and the
//!   policy's.

use stepwell_base::scatter::Scatter;
use stepwell_base::{Key, SlotIndex};

use crate::index::{Index, Seek};
use crate::policy::{Occurrence, Policy, PolicyKind};
use crate::records::{DIRTY, EXISTS, Records};
use crate::uses::{KnownUses, NEVER};

/// Maximum number of victims chosen at once, which the docs of [`Cache::will_place`] repeat.
const CHOSEN_MAX: usize = 32;

/// A row that is evicted from its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Victim {
    /// Key of the row.
    pub key: Key,
    /// Slot of the row.
    pub slot: SlotIndex,
    /// Whether it must be written to the store, which doesn't have this version.
    pub dirty: bool,
}

/// Where a missing key was placed, and which row was evicted for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// The slot, pinned once.
    pub slot: SlotIndex,
    /// The row that was there.
    pub victim: Option<Victim>,
    /// The next batch that uses that row, if known.
    pub next_use: Option<u32>,
}

/// Why a key gets no slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoPlace {
    /// Every slot is pinned.
    #[error("every slot is pinned")]
    Pinned,
    /// The index has no room for a key because too many others share its buckets. The cache can't
    /// be used any more.
    #[error(
        "more than {keys} ids share their two places in the index of rows in memory, which only \
         happens if ids were made to collide: leave them out of the data, or raise tiers.dram"
    )]
    Crowded {
        /// Number of keys that fit into the overflow.
        keys: usize,
    },
}

/// Index, pins, dirty bits, known uses and policy of one slab.
#[derive(Debug)]
pub struct Cache {
    index: Index,
    records: Records,
    uses: KnownUses,
    policy: Box<dyn Policy>,
    /// The first slot that was never used.
    fresh: u32,
    pinned: usize,
    /// Whether unpinned rows are in the policy or in `uses`.
    attaches: bool,
    /// Rows that the next calls of [`Cache::place`] evict, the first one last.
    chosen: Vec<Chosen>,
}

/// A row that will be evicted: it is neither in the policy nor a known use.
#[derive(Clone, Copy, Debug)]
struct Chosen {
    slot: SlotIndex,
    /// The next batch that uses the row, if known.
    next_use: Option<u32>,
}

impl Cache {
    /// An empty cache of `slots` slots that knows uses up to `horizon` batches ahead, with the
    /// default policy.
    pub fn new(slots: usize, horizon: usize) -> Self {
        Self::with_policy(slots, horizon, PolicyKind::default())
    }

    /// Like [`Cache::new`], with a policy of the given kind.
    pub fn with_policy(slots: usize, horizon: usize, kind: PolicyKind) -> Self {
        Self::with(slots, horizon, kind.make(slots))
    }

    /// As [`Cache::new`], with `policy`, which is made for as many slots.
    pub fn with(slots: usize, horizon: usize, policy: Box<dyn Policy>) -> Self {
        // Batches t .. t + horizon are known at once, and one more while the oldest retires.
        let ring = horizon + 2;
        Self {
            index: Index::new(slots, Scatter::drawn()),
            records: Records::new(slots),
            uses: KnownUses::new(ring),
            attaches: !policy.may_begin_late(),
            policy,
            fresh: 0,
            pinned: 0,
            chosen: Vec::with_capacity(CHOSEN_MAX),
        }
    }

    /// Number of slots.
    pub fn slots(&self) -> usize {
        self.records.slots()
    }

    /// Number of rows in slots.
    pub fn rows(&self) -> usize {
        self.fresh as usize
    }

    /// Number of slots that are not pinned, used or not.
    pub fn unpinned(&self) -> usize {
        self.slots() - self.pinned
    }

    /// Whether `more` more rows can be placed without evicting one, and none was evicted before.
    pub fn has_room_for(&self, more: usize) -> bool {
        self.slots() - self.rows() >= more
    }

    /// The slot of `key`.
    #[inline]
    pub fn find(&self, key: Key) -> Option<SlotIndex> {
        self.index.find(key, self.key_in())
    }

    /// Sets `found` to the slots of `keys`; prefetches memory.
    pub fn find_many(&self, keys: &[Key], found: &mut Vec<Option<SlotIndex>>) {
        found.clear();
        self.find_more(keys, found);
    }

    /// Like [`Cache::find_many`], but appends to `found`.
    pub fn find_more(&self, keys: &[Key], found: &mut Vec<Option<SlotIndex>>) {
        found.reserve(keys.len());
        self.index.find_many(
            keys,
            self.key_in(),
            |slot| self.prefetch(slot),
            |slot| found.push(slot),
        );
    }

    /// Slot of the key `keys(at)`. Keys are looked up in order with one `seek`, which prefetches
    /// memory for later ones; the cache may change between look-ups.
    #[inline]
    pub fn seek(
        &self,
        seek: &mut Seek,
        at: usize,
        keys: impl Fn(usize) -> Option<Key>,
    ) -> Option<SlotIndex> {
        self.index.seek(seek, at, keys, self.key_in(), |slot| self.prefetch(slot))
    }

    /// Prefetches what placing `key` changes.
    #[inline]
    pub fn prefetch_place(&self, key: Key) {
        self.index.prefetch(key);
        self.policy.prefetch_admit(&self.records, key);
    }

    /// Like [`Cache::find_many`], for readers of rows: calls `meet` with each slot as soon as it is
    /// known, so that the row can be prefetched while the next keys are looked up.
    #[inline]
    pub fn find_each(&self, keys: &[Key], meet: impl FnMut(Option<SlotIndex>)) {
        self.index.find_many(keys, self.key_in(), |slot| self.records.prefetch(slot), meet);
    }

    /// Prefetches what planning and retiring a row in `slot` change.
    #[inline]
    pub fn prefetch(&self, slot: SlotIndex) {
        self.records.prefetch(slot);
        if self.attaches {
            self.policy.prefetch(slot);
        }
    }

    /// Returns the key in a slot.
    #[inline]
    fn key_in(&self) -> impl Fn(SlotIndex) -> Key {
        |slot| self.records.key(slot)
    }

    /// The slot of `key` if its row exists; a row that was only read doesn't.
    pub fn find_existing(&self, key: Key) -> Option<SlotIndex> {
        self.find(key).filter(|slot| self.records.has(*slot, EXISTS))
    }

    /// Whether the row in `slot` exists: it was trained, or came from below.
    #[inline]
    pub fn exists(&self, slot: SlotIndex) -> bool {
        self.records.has(slot, EXISTS)
    }

    /// Whether `slot` is pinned.
    #[inline]
    pub fn is_pinned(&self, slot: SlotIndex) -> bool {
        self.records.is_pinned(slot)
    }

    /// Keeps the row in `slot` until the matching [`Cache::unpin`].
    #[inline]
    pub fn pin(&mut self, slot: SlotIndex) {
        if self.records.pin(slot) == 0 {
            self.detach(slot);
            self.pinned += 1;
        }
    }

    /// Releases a pin.
    #[inline]
    pub fn unpin(&mut self, slot: SlotIndex) {
        if self.records.unpin(slot) == 0 {
            self.pinned -= 1;
            self.attach(slot);
        }
    }

    /// Announces that the next `count` calls that change a pin are [`Cache::place`]. Chooses up to
    /// 32 victims at once and prefetches what evicting them changes. They may differ from
    /// victims chosen one by one: a policy chooses them all before the first key is admitted.
    pub fn will_place(&mut self, count: usize) {
        let evicted = count.saturating_sub(self.slots() - self.rows()).min(CHOSEN_MAX);
        if evicted == 0 || !self.chosen.is_empty() {
            return;
        }
        while self.chosen.len() < evicted
            && let Some(chosen) = self.choose_victim()
        {
            self.index.prefetch(self.records.key(chosen.slot));
            self.chosen.push(chosen);
        }
        self.chosen.reverse();
    }

    /// Puts `key`, which isn't in the cache, into a slot and pins it.
    ///
    /// # Errors
    /// If every slot is pinned, or the index has no room for this key.
    #[inline]
    pub fn place(&mut self, key: Key) -> Result<Placed, NoPlace> {
        let placed = self.free_slot().ok_or(NoPlace::Pinned)?;
        let slot = placed.slot;
        self.records.put(slot, key);
        self.records.pin(slot);
        self.pinned += 1;
        self.policy.admit(&mut self.records, slot);
        let crowded = |keys| NoPlace::Crowded { keys };
        self.index.insert(key, slot, |slot| self.records.key(slot)).map_err(crowded)?;
        Ok(placed)
    }

    /// Sets the next use of the key in `slot` to batch number `batch`, or to none. A batch too far
    /// behind the farthest one ever passed, beyond the horizon, counts as none.
    #[inline]
    pub fn expect(&mut self, slot: SlotIndex, batch: Option<u32>) {
        self.attach_all();
        if let Some(batch) = batch {
            while let Some(passed) = self.uses.advance(&self.records, batch) {
                self.records.set_next_use(passed, NEVER);
                self.policy.attach(&mut self.records, passed);
            }
        }
        let pinned = self.is_pinned(slot);
        if !pinned {
            self.detach(slot);
        }
        let code = batch.map_or(NEVER, |batch| self.uses.code(batch));
        self.records.set_next_use(slot, code);
        if !pinned {
            self.attach(slot);
        }
    }

    /// The next batch that uses the key in `slot`, if known.
    #[inline]
    pub fn next_use(&self, slot: SlotIndex) -> Option<u32> {
        let code = self.records.next_use(slot);
        (code != NEVER).then(|| self.uses.batch(code))
    }

    /// Records that a mini-batch trained the pinned row in `slot`.
    #[inline]
    pub fn trained(&mut self, slot: SlotIndex, occurrence: Occurrence) {
        assert!(self.is_pinned(slot), "slot {} was trained without a pin", slot.0);
        self.records.set(slot, DIRTY | EXISTS);
        self.touch(slot, occurrence);
    }

    /// [`Cache::trained`], then [`Cache::unpin`].
    #[inline]
    pub fn trained_and_unpinned(&mut self, slot: SlotIndex, occurrence: Occurrence) {
        self.records.set(slot, DIRTY | EXISTS);
        if self.records.unpin(slot) > 0 {
            return self.touch(slot, occurrence);
        }
        self.pinned -= 1;
        if self.attaches && self.records.next_use(slot) == NEVER {
            return self.policy.touch_and_attach(&mut self.records, slot, occurrence);
        }
        self.touch(slot, occurrence);
        self.attach(slot);
    }

    /// Reports a use to the policy only.
    #[inline]
    pub fn touch(&mut self, slot: SlotIndex, occurrence: Occurrence) {
        self.policy.touch(&mut self.records, slot, occurrence);
    }

    /// Marks the pinned row in `slot` as existing, because it came from below.
    #[inline]
    pub fn came_from_below(&mut self, slot: SlotIndex) {
        self.records.set(slot, EXISTS);
    }

    /// All dirty rows, in slot order.
    pub fn dirty(&self) -> impl Iterator<Item = Victim> + '_ {
        self.existing().filter(|row| row.dirty)
    }

    /// All rows in slots, in slot order.
    pub fn all(&self) -> impl Iterator<Item = Victim> + '_ {
        (0..self.fresh).map(SlotIndex).map(|slot| self.row(slot))
    }

    /// All existing rows (trained, or from below), in slot order.
    pub fn existing(&self) -> impl Iterator<Item = Victim> + '_ {
        let slots = (0..self.fresh).map(SlotIndex);
        slots.filter(|slot| self.records.has(*slot, EXISTS)).map(|slot| self.row(slot))
    }

    /// Marks all rows clean, after every dirty row was written.
    pub fn all_clean(&mut self) {
        (0..self.fresh).for_each(|slot| self.records.clear(SlotIndex(slot), DIRTY));
    }

    fn row(&self, slot: SlotIndex) -> Victim {
        Victim { key: self.records.key(slot), slot, dirty: self.records.has(slot, DIRTY) }
    }

    #[inline]
    fn free_slot(&mut self) -> Option<Placed> {
        if (self.fresh as usize) < self.slots() {
            let slot = SlotIndex(self.fresh);
            self.fresh += 1;
            return Some(Placed { slot, victim: None, next_use: None });
        }
        let Chosen { slot, next_use } = self.chosen.pop().or_else(|| self.choose_victim())?;
        assert!(!self.is_pinned(slot), "slot {} is evicted while pinned", slot.0);
        let victim = self.row(slot);
        self.index.remove(victim.key, |slot| self.records.key(slot));
        Some(Placed { slot, victim: Some(victim), next_use })
    }

    /// Detaches the row that is worth least.
    #[inline]
    fn choose_victim(&mut self) -> Option<Chosen> {
        self.attach_all();
        let of_policy = self.policy.victim(&mut self.records);
        let slot = of_policy.or_else(|| self.uses.victim(&self.records))?;
        let next_use = self.next_use(slot);
        // The list of this use may have another note of the row, which must not count.
        self.records.set_next_use(slot, NEVER);
        Some(Chosen { slot, next_use })
    }

    /// Attaches all unpinned rows, unless they are attached already.
    #[inline]
    fn attach_all(&mut self) {
        if !self.attaches {
            self.attach_all_now();
        }
    }

    #[cold]
    fn attach_all_now(&mut self) {
        self.attaches = true;
        for slot in (0..self.fresh).map(SlotIndex) {
            if !self.is_pinned(slot) {
                self.attach(slot);
            }
        }
    }

    #[inline]
    fn attach(&mut self, slot: SlotIndex) {
        if !self.attaches {
            return;
        }
        let code = self.records.next_use(slot);
        if code != NEVER && self.uses.code(self.uses.batch(code)) == code {
            return self.uses.attach(&self.records, slot);
        }
        self.records.set_next_use(slot, NEVER);
        self.policy.attach(&mut self.records, slot);
    }

    #[inline]
    fn detach(&mut self, slot: SlotIndex) {
        if !self.attaches {
            return;
        }
        match self.records.next_use(slot) {
            NEVER => self.policy.detach(&mut self.records, slot),
            code => self.uses.detach(self.uses.batch(code)),
        }
    }
}

#[cfg(test)]
mod tests;
