//! The metadata of one table group's slab.
//!
//! State of a slot, and who moves it (all calls come from the planner's thread):
//!
//! ```text
//!            place                unpin, no use known                 victim
//!  fresh ───────────► pinned ───────────────────────► in the policy ─────────► (another key)
//!                      ▲   │  unpin, use known                ▲  │
//!                      │   └──────────────────► known use ◄───┼──┘ expect
//!                      └──────── pin ───────────────┴─────────┘
//! ```
//!
//! Invariants  I4: a pinned slot is in no list, so no victim is ever pinned.
//!             I9: every slot can be pinned; the index has room for a key in each.
//! Cost        [`BYTES_PER_SLOT`] bytes a slot, those of the policy, and 7.1 of index.

use bytemuck::Zeroable;
use stepwell_base::huge::HugeSlice;
use stepwell_base::prefetch::prefetch;
use stepwell_base::{Key, SlotIndex};

use crate::Links;
use crate::index::Index;
use crate::policy::{Occurrence, Policy, PolicyKind};
use crate::uses::{KnownUses, NEVER};

/// Bytes of metadata per slot: record and links. The policy's come on top.
pub(crate) const BYTES_PER_SLOT: usize = size_of::<Record>() + 2 * size_of::<u32>();

const DIRTY: u8 = 1;
const EXISTS: u8 = 2;

/// What is known of a slot, in one place: planning a row reads all of it. Zeros are a slot that
/// was never used.
#[derive(Clone, Copy, Debug, Zeroable)]
#[repr(C, align(16))]
struct Record {
    key: u64,
    /// Number of the batch that uses it next, plus one; zero where none is known.
    next_use: u32,
    pins: u16,
    flags: u8,
    _spare: u8,
}

impl Record {
    /// The batch that uses it next, or [`NEVER`].
    fn next_use(&self) -> u32 {
        self.next_use.wrapping_sub(1)
    }
}

/// A row that leaves its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Victim {
    /// Its key.
    pub key: Key,
    /// Where it lies.
    pub slot: SlotIndex,
    /// Whether it must be written down: nothing below has this version.
    pub dirty: bool,
}

/// Where a missing key was placed, and what left for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// The slot, pinned once.
    pub slot: SlotIndex,
    /// The row that lay there.
    pub victim: Option<Victim>,
}

/// Why a key gets no slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoPlace {
    /// Every slot is pinned.
    #[error("every slot is pinned")]
    Pinned,
    /// The index has no room for a key that shares its buckets with so many others. The cache is
    /// of no use afterwards.
    #[error(
        "more than {keys} ids share their two places in the index of rows in memory, which only \
         ids that were made to collide do: leave them out of the data, or raise tiers.dram"
    )]
    Crowded {
        /// Keys that the overflow holds.
        keys: usize,
    },
}

/// Index, pins, dirty bits, known uses and policy of one slab.
#[derive(Debug)]
pub struct Cache {
    index: Index,
    records: HugeSlice<Record>,
    links: Links,
    uses: KnownUses,
    policy: Box<dyn Policy>,
    /// Slots from here on were never used.
    fresh: u32,
    pinned: usize,
}

impl Cache {
    /// An empty cache of `slots` slots that knows uses up to `horizon` batches ahead, with the
    /// default policy.
    pub fn new(slots: usize, horizon: usize) -> Self {
        Self::with_policy(slots, horizon, PolicyKind::default())
    }

    /// As [`Cache::new`], with a policy of the given kind.
    pub fn with_policy(slots: usize, horizon: usize, kind: PolicyKind) -> Self {
        let policy = kind.make(slots);
        // Batches t .. t + horizon are known at once, and one more while the oldest retires.
        let ring = horizon + 2;
        Self {
            index: Index::new(slots),
            records: HugeSlice::zeroed(slots),
            links: Links::new(slots, policy.lists() + ring),
            uses: KnownUses::new(policy.lists(), ring),
            policy,
            fresh: 0,
            pinned: 0,
        }
    }

    /// Number of slots.
    pub fn slots(&self) -> usize {
        self.records.len()
    }

    /// Number of rows that lie in a slot.
    pub fn rows(&self) -> usize {
        self.fresh as usize
    }

    /// Number of slots that are not pinned, used or not.
    pub fn unpinned(&self) -> usize {
        self.slots() - self.pinned
    }

    /// Whether no slot was ever taken from another key and none will be before `more` rows came.
    pub fn has_room_for(&self, more: usize) -> bool {
        self.slots() - self.rows() >= more
    }

    /// The slot of `key`.
    #[inline]
    pub fn find(&self, key: Key) -> Option<SlotIndex> {
        self.index.find(key, self.key_in())
    }

    /// The slots of many keys at once, in `found`; memory is fetched ahead of its use.
    pub fn find_many(&self, keys: &[Key], found: &mut Vec<Option<SlotIndex>>) {
        let ask = |slot: SlotIndex| {
            prefetch(&self.records[slot.at()]);
            self.links.prefetch(slot);
        };
        self.index.find_many(keys, self.key_in(), ask, found);
    }

    /// Says the key that lies in a slot.
    #[inline]
    fn key_in(&self) -> impl Fn(SlotIndex) -> Key {
        |slot| Key(self.records[slot.at()].key)
    }

    /// The slot of `key` where its row exists; a row that was only read does not.
    pub fn find_existing(&self, key: Key) -> Option<SlotIndex> {
        self.find(key).filter(|slot| self.records[slot.at()].flags & EXISTS != 0)
    }

    /// Whether `slot` is pinned.
    #[inline]
    pub fn is_pinned(&self, slot: SlotIndex) -> bool {
        self.records[slot.at()].pins > 0
    }

    /// Promises that the row in `slot` stays until the matching [`Cache::unpin`].
    #[inline]
    pub fn pin(&mut self, slot: SlotIndex) {
        if self.records[slot.at()].pins == 0 {
            self.detach(slot);
            self.pinned += 1;
        }
        let pins = &mut self.records[slot.at()].pins;
        *pins = pins.checked_add(1).unwrap_or_else(|| panic!("slot {} has 2^16 pins", slot.0));
    }

    /// Gives a pin back.
    #[inline]
    pub fn unpin(&mut self, slot: SlotIndex) {
        let pins = &mut self.records[slot.at()].pins;
        assert!(*pins > 0, "slot {} is unpinned more often than pinned", slot.0);
        *pins -= 1;
        if *pins == 0 {
            self.pinned -= 1;
            self.attach(slot);
        }
    }

    /// Puts `key`, which is not here, into a slot and pins it.
    ///
    /// # Errors
    /// When every slot is pinned, or the index has no room for this very key.
    pub fn place(&mut self, key: Key) -> Result<Placed, NoPlace> {
        let (slot, victim) = self.free_slot().ok_or(NoPlace::Pinned)?;
        self.records[slot.at()] = Record { key: key.0, pins: 1, ..Record::zeroed() };
        self.pinned += 1;
        self.policy.admit(slot, key);
        let records = &self.records;
        let crowded = |keys| NoPlace::Crowded { keys };
        self.index.insert(key, slot, |slot| Key(records[slot.at()].key)).map_err(crowded)?;
        Ok(Placed { slot, victim })
    }

    /// The key in `slot` is used next by batch number `batch`, as far as is known (or never).
    #[inline]
    pub fn expect(&mut self, slot: SlotIndex, batch: Option<u32>) {
        let batch = batch.unwrap_or(NEVER);
        let pinned = self.is_pinned(slot);
        if !pinned {
            self.detach(slot);
        }
        self.uses.know(batch);
        self.records[slot.at()].next_use = batch.wrapping_add(1);
        if !pinned {
            self.attach(slot);
        }
    }

    /// The batch that uses the key in `slot` next.
    #[inline]
    pub fn next_use(&self, slot: SlotIndex) -> Option<u32> {
        Some(self.records[slot.at()].next_use()).filter(|batch| *batch != NEVER)
    }

    /// A mini-batch trained the pinned row in `slot`.
    #[inline]
    pub fn trained(&mut self, slot: SlotIndex, occurrence: Occurrence) {
        assert!(self.is_pinned(slot), "slot {} was trained without a pin", slot.0);
        self.records[slot.at()].flags = DIRTY | EXISTS;
        self.policy.touch(slot, occurrence);
    }

    /// The pinned row in `slot` came from below, so it exists.
    #[inline]
    pub fn came_from_below(&mut self, slot: SlotIndex) {
        self.records[slot.at()].flags |= EXISTS;
    }

    /// All dirty rows, in slot order.
    pub fn dirty(&self) -> impl Iterator<Item = Victim> + '_ {
        self.existing().filter(|row| row.dirty)
    }

    /// All rows that exist (were trained or came from below), in slot order.
    pub fn existing(&self) -> impl Iterator<Item = Victim> + '_ {
        let records = self.records[..self.fresh as usize].iter().zip((0..).map(SlotIndex));
        records.filter(|(record, _)| record.flags & EXISTS != 0).map(|(record, slot)| Victim {
            key: Key(record.key),
            slot,
            dirty: record.flags & DIRTY != 0,
        })
    }

    /// Every dirty row was written down.
    pub fn all_clean(&mut self) {
        let records = &mut self.records[..self.fresh as usize];
        records.iter_mut().for_each(|record| record.flags &= !DIRTY);
    }

    fn free_slot(&mut self) -> Option<(SlotIndex, Option<Victim>)> {
        if (self.fresh as usize) < self.slots() {
            let slot = SlotIndex(self.fresh);
            self.fresh += 1;
            return Some((slot, None));
        }
        if let Some(slot) = self.policy.victim(&mut self.links) {
            let victim = self.remove(slot);
            self.policy.left(slot, victim.key);
            return Some((slot, Some(victim)));
        }
        let slot = self.uses.victim(&mut self.links)?;
        Some((slot, Some(self.remove(slot))))
    }

    fn remove(&mut self, slot: SlotIndex) -> Victim {
        assert!(!self.is_pinned(slot), "slot {} is evicted while pinned", slot.0);
        let records = &self.records;
        let Record { key, flags, .. } = records[slot.at()];
        self.index.remove(Key(key), |slot| Key(records[slot.at()].key));
        Victim { key: Key(key), slot, dirty: flags & DIRTY != 0 }
    }

    fn attach(&mut self, slot: SlotIndex) {
        match self.records[slot.at()].next_use() {
            NEVER => self.policy.attach(&mut self.links, slot),
            batch => self.uses.attach(&mut self.links, slot, batch),
        }
    }

    fn detach(&mut self, slot: SlotIndex) {
        match self.records[slot.at()].next_use() {
            NEVER => self.policy.detach(&mut self.links, slot),
            _ => self.links.unlink(slot),
        }
    }
}

#[cfg(test)]
mod tests;
