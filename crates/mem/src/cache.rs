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
//!             I9: every slot can be pinned; there is no bucket that overflows.
//! Cost        [`BYTES_PER_SLOT`] bytes a slot, and 10.7 of index.

use stepwell_base::prefetch::prefetch;
use stepwell_base::{Key, SlotIndex};

use crate::Links;
use crate::index::Index;
use crate::policy::{LruLfu, Occurrence, Policy};
use crate::uses::{KnownUses, NEVER};

/// Bytes of metadata per slot: key, links, next use, pins, flags, policy.
pub(crate) const BYTES_PER_SLOT: usize = size_of::<Key>()
    + 2 * size_of::<u32>()
    + size_of::<u32>()
    + size_of::<u16>()
    + size_of::<u8>()
    + LruLfu::BYTES_PER_SLOT;

/// Keys looked at ahead of the one that is looked up.
const FIND_AHEAD: usize = 8;

const DIRTY: u8 = 1;
const EXISTS: u8 = 2;

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

/// Index, pins, dirty bits, known uses and policy of one slab.
#[derive(Debug)]
pub struct Cache {
    index: Index,
    keys: Box<[Key]>,
    pins: Box<[u16]>,
    flags: Box<[u8]>,
    links: Links,
    uses: KnownUses,
    policy: Box<dyn Policy>,
    /// Slots from here on were never used.
    fresh: u32,
    pinned: usize,
}

impl Cache {
    /// An empty cache of `slots` slots that knows uses up to `horizon` batches ahead.
    pub fn new(slots: usize, horizon: usize) -> Self {
        let policy = LruLfu::new(slots);
        // Batches t .. t + horizon are known at once, and one more while the oldest retires.
        let ring = horizon + 2;
        Self {
            index: Index::new(slots),
            keys: vec![Key(0); slots].into(),
            pins: vec![0; slots].into(),
            flags: vec![0; slots].into(),
            links: Links::new(slots, policy.lists() + ring),
            uses: KnownUses::new(slots, policy.lists(), ring),
            policy: Box::new(policy),
            fresh: 0,
            pinned: 0,
        }
    }

    /// Number of slots.
    pub fn slots(&self) -> usize {
        self.keys.len()
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
        self.index.find(&self.keys, key)
    }

    /// The slots of many keys at once, in `found`; memory is fetched ahead of its use.
    pub fn find_many(&self, keys: &[Key], found: &mut Vec<Option<SlotIndex>>) {
        found.clear();
        found.reserve(keys.len());
        for (index, key) in keys.iter().enumerate() {
            if let Some(ahead) = keys.get(index + 2 * FIND_AHEAD) {
                self.index.prefetch(*ahead);
            }
            if let Some(slot) = keys.get(index + FIND_AHEAD).and_then(|k| self.index.candidate(*k))
            {
                prefetch(&self.keys[slot.at()]);
                prefetch(&self.pins[slot.at()]);
                self.uses.prefetch(slot);
                self.links.prefetch(slot);
            }
            found.push(self.find(*key));
        }
    }

    /// The slot of `key` where its row exists; a row that was only read does not.
    pub fn find_existing(&self, key: Key) -> Option<SlotIndex> {
        self.find(key).filter(|slot| self.flags[slot.at()] & EXISTS != 0)
    }

    /// Whether `slot` is pinned.
    #[inline]
    pub fn is_pinned(&self, slot: SlotIndex) -> bool {
        self.pins[slot.at()] > 0
    }

    /// Promises that the row in `slot` stays until the matching [`Cache::unpin`].
    #[inline]
    pub fn pin(&mut self, slot: SlotIndex) {
        if self.pins[slot.at()] == 0 {
            self.detach(slot);
            self.pinned += 1;
        }
        let pins = &mut self.pins[slot.at()];
        *pins = pins.checked_add(1).unwrap_or_else(|| panic!("slot {} has 2^16 pins", slot.0));
    }

    /// Gives a pin back.
    #[inline]
    pub fn unpin(&mut self, slot: SlotIndex) {
        let pins = &mut self.pins[slot.at()];
        assert!(*pins > 0, "slot {} is unpinned more often than pinned", slot.0);
        *pins -= 1;
        if *pins == 0 {
            self.pinned -= 1;
            self.attach(slot);
        }
    }

    /// Puts `key`, which is not here, into a slot and pins it; `None` when every slot is pinned.
    pub fn place(&mut self, key: Key) -> Option<Placed> {
        let (slot, victim) = self.free_slot()?;
        self.keys[slot.at()] = key;
        self.flags[slot.at()] = 0;
        self.pins[slot.at()] = 1;
        self.pinned += 1;
        self.policy.admit(slot);
        self.uses.set(slot, NEVER);
        self.index.insert(key, slot);
        Some(Placed { slot, victim })
    }

    /// The key in `slot` is used next by batch number `batch`, as far as is known (or never).
    #[inline]
    pub fn expect(&mut self, slot: SlotIndex, batch: Option<u32>) {
        let batch = batch.unwrap_or(NEVER);
        if self.is_pinned(slot) {
            self.uses.set(slot, batch);
            return;
        }
        self.detach(slot);
        self.uses.set(slot, batch);
        self.attach(slot);
    }

    /// The batch that uses the key in `slot` next.
    #[inline]
    pub fn next_use(&self, slot: SlotIndex) -> Option<u32> {
        Some(self.uses.next_use(slot)).filter(|batch| *batch != NEVER)
    }

    /// A mini-batch trained the pinned row in `slot`.
    #[inline]
    pub fn trained(&mut self, slot: SlotIndex, occurrence: Occurrence) {
        assert!(self.is_pinned(slot), "slot {} was trained without a pin", slot.0);
        self.flags[slot.at()] = DIRTY | EXISTS;
        self.policy.touch(slot, occurrence);
    }

    /// The pinned row in `slot` came from below, so it exists.
    #[inline]
    pub fn came_from_below(&mut self, slot: SlotIndex) {
        self.flags[slot.at()] |= EXISTS;
    }

    /// All dirty rows, in slot order.
    pub fn dirty(&self) -> impl Iterator<Item = Victim> + '_ {
        self.existing().filter(|row| row.dirty)
    }

    /// All rows that exist (were trained or came from below), in slot order.
    pub fn existing(&self) -> impl Iterator<Item = Victim> + '_ {
        (0..self.fresh).map(SlotIndex).filter(|slot| self.flags[slot.at()] & EXISTS != 0).map(
            |slot| Victim {
                key: self.keys[slot.at()],
                slot,
                dirty: self.flags[slot.at()] & DIRTY != 0,
            },
        )
    }

    /// Every dirty row was written down.
    pub fn all_clean(&mut self) {
        self.flags[..self.fresh as usize].iter_mut().for_each(|flags| *flags &= !DIRTY);
    }

    fn free_slot(&mut self) -> Option<(SlotIndex, Option<Victim>)> {
        if (self.fresh as usize) < self.slots() {
            let slot = SlotIndex(self.fresh);
            self.fresh += 1;
            return Some((slot, None));
        }
        let slot = match self.policy.victim(&mut self.links) {
            Some(slot) => slot,
            None => self.uses.victim(&mut self.links)?,
        };
        Some((slot, Some(self.remove(slot))))
    }

    fn remove(&mut self, slot: SlotIndex) -> Victim {
        assert!(!self.is_pinned(slot), "slot {} is evicted while pinned", slot.0);
        let key = self.keys[slot.at()];
        self.index.remove(&self.keys, key);
        Victim { key, slot, dirty: self.flags[slot.at()] & DIRTY != 0 }
    }

    fn attach(&mut self, slot: SlotIndex) {
        if self.uses.next_use(slot) == NEVER {
            self.policy.attach(&mut self.links, slot);
        } else {
            self.uses.attach(&mut self.links, slot);
        }
    }

    fn detach(&mut self, slot: SlotIndex) {
        if self.uses.next_use(slot) == NEVER {
            self.policy.detach(&mut self.links, slot);
        } else {
            self.links.unlink(slot);
        }
    }
}

#[cfg(test)]
mod tests;
