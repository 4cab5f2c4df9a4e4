//! The planner of one table group decides which slot each key of a mini-batch gets and which rows
//! are evicted for it. Keys come in one list for each of the group's tables, in order, and are
//! distinct.
//!
//! Calls in the life of a mini-batch:
//!
//! ```text
//! learn    its keys are known: rows in the slab get a next use        nothing is held
//! fits     all its rows can be pinned now, or later, or never         nothing changes
//! plan     its rows are pinned; missing ones get a slot, victims go   rows are held
//! retire   it was trained: rows are dirty, uses reported, unpinned    nothing is held
//! ```
//!
//! - **Invariants.**
//!   - I1: a hit moves nothing, so the row is read where the previous step wrote it; a fill is
//!     pulled after all victims of earlier units were staged, so it sees their updates.
//!   - I4: rows are pinned once per mini-batch, from plan to retire.
//!   - I7: uses are reported to the policy at retire, once per mini-batch and key.

mod bytes;
mod from_below;
mod place;
mod with_devices;

use std::sync::Arc;

use stepwell_base::rules::{Rule, Rules};
use stepwell_base::{Key, SlotIndex};
use stepwell_mem::{Cache, Occurrence, PolicyKind};

use crate::harvest::Outlook;
use crate::next_uses::Future;

/// Whether the rows of a mini-batch can be pinned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// Now.
    Now,
    /// Only after some earlier mini-batch retires.
    Later,
    /// Not even alone.
    Never,
}

/// Keys of one table that a mini-batch requests.
#[derive(Debug)]
pub struct Asked<'a> {
    /// Number of the table in the group.
    pub table: u16,
    /// Distinct keys of the table.
    pub keys: &'a [Key],
    /// The slot of each key, after planning.
    pub slots: &'a mut Vec<SlotIndex>,
}

/// Rows between the prefetch of their metadata and its use.
const AHEAD: usize = 16;

/// Number of slots counted in one word.
const WORD_SLOTS: usize = u64::BITS as usize;

/// Plans the mini-batches of one table group, in order.
#[derive(Debug)]
pub struct Planner {
    cache: Cache,
    policy: PolicyKind,
    horizon: usize,
    future: Future,
    /// Keys of the mini-batch being learned that no earlier one has.
    fresh: Vec<Key>,
    /// Code of the next use of each key of the current mini-batch.
    next: Vec<u16>,
    /// Slot of each key, if any, found by the last look-up to learn a mini-batch or to check
    /// whether it fits.
    found: Vec<Option<SlotIndex>>,
    /// Number of keys of the mini-batch that was found to fit now.
    fitting: Option<usize>,
    /// Slots of the current unit, as bits and as a list, so that a key is counted once.
    counted: Box<[u64]>,
    counted_slots: Vec<SlotIndex>,
    /// Whether slots are counted.
    counts: bool,
    /// Distinct keys learned and not planned, to decide whether to follow next uses.
    keys_ahead: usize,
    /// Whether next uses are followed, because rows may have to be evicted.
    follows: bool,
    /// Number of uses reported to the policy.
    touches: u64,
    /// Whether existing rows never leave memory: each keeps a pin.
    whole: bool,
    /// Number of pins of existing rows that never leave memory.
    kept: usize,
    /// Number of pins of rows that are on a device.
    above: usize,
    /// Whether this is the planner of a device, which also lists evicted rows that didn't change,
    /// and may leave rows of a mini-batch without slots.
    is_above: bool,
    /// Receives keys that will be used and have no slot.
    outlook: Option<Arc<Outlook>>,
    rules: Rules,
}

impl Planner {
    /// A planner over an empty slab of `slots` slots that knows `horizon` mini-batches ahead.
    pub fn new(slots: usize, horizon: usize, policy: PolicyKind) -> Self {
        Self {
            cache: Cache::with_policy(slots, horizon, policy),
            policy,
            horizon,
            future: Future::default(),
            fresh: Vec::new(),
            next: Vec::new(),
            found: Vec::new(),
            fitting: None,
            counted: vec![0; slots.div_ceil(WORD_SLOTS)].into(),
            counted_slots: Vec::new(),
            counts: true,
            keys_ahead: 0,
            follows: false,
            touches: 0,
            whole: false,
            kept: 0,
            above: 0,
            is_above: false,
            outlook: None,
            rules: Rules::default(),
        }
    }

    /// Keeps existing rows in memory.
    pub fn whole(self) -> Self {
        Self { whole: true, ..self }
    }

    /// Reports keys that will be used and have no slot to `outlook`.
    pub(crate) fn telling(self, outlook: Option<Arc<Outlook>>) -> Self {
        Self { outlook, ..self }
    }

    /// Whether existing rows never leave memory.
    pub fn is_whole(&self) -> bool {
        self.whole
    }

    /// Number of uses reported to the policy: one per trained mini-batch and distinct key (I7).
    pub fn touches(&self) -> u64 {
        self.touches
    }

    /// Number of slots of the slab.
    pub fn slots(&self) -> usize {
        self.cache.slots()
    }

    /// Number of slots that never had a row.
    pub fn slots_unused(&self) -> usize {
        self.cache.slots() - self.cache.rows()
    }

    /// Pins the row in `slot`, which now exists, if existing rows never leave.
    fn keep(&mut self, slot: SlotIndex) {
        if self.whole && !self.cache.exists(slot) {
            self.cache.pin(slot);
            self.kept += 1;
        }
    }

    /// The metadata, for inspection, checkpoints and digests.
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Marks all rows clean, after a checkpoint wrote every dirty row.
    pub fn all_clean(&mut self) {
        self.cache.all_clean();
    }

    /// Whether all waiting mini-batches must be learned again, in order, before others with `more`
    /// keys: either keys were not followed before and rows may now have to be evicted, or next uses
    /// have outgrown their room.
    pub(crate) fn begins_anew(&mut self, more: usize) -> bool {
        let (keys, followed) = (self.keys_ahead + more, self.follows);
        self.follows |= !self.cache.has_room_for(keys);
        if !self.follows || followed && self.future.has_room_for(keys) {
            return false;
        }
        self.keys_ahead = 0;
        self.future.begin_anew(keys);
        true
    }

    /// Learns that mini-batch `number` will use the distinct `keys`, by table.
    pub fn learn<'k>(&mut self, number: u32, keys: impl Iterator<Item = &'k [Key]> + Clone) {
        self.keys_ahead += keys.clone().map(<[Key]>::len).sum::<usize>();
        self.follows |= !self.cache.has_room_for(self.keys_ahead);
        if !self.follows {
            return self.future.pass_over(number);
        }
        // For a key that an earlier mini-batch has, nothing is new: if its row is here, it waits
        // for that one.
        self.future.learn(number, keys.flatten(), &mut self.fresh);
        let oldest = self.future.oldest().unwrap_or(number);
        self.cache.find_many(&self.fresh, &mut self.found);
        for slot in self.found.iter().flatten() {
            if self.cache.next_use(*slot).is_none_or(|next| next < oldest) {
                self.cache.expect(*slot, Some(number));
            }
        }
        if let Some(outlook) = &self.outlook {
            let wanted = self.fresh.iter().zip(&self.found).filter(|(_, slot)| slot.is_none());
            outlook.learn(number, wanted.map(|(key, _)| *key));
        }
    }

    /// Whether the rows of the distinct `keys`, by table, can be pinned; must precede
    /// [`Planner::plan`].
    pub fn fits<'k>(&mut self, keys: impl Iterator<Item = &'k [Key]> + Clone) -> Fit {
        let count: usize = keys.clone().map(<[Key]>::len).sum();
        let fit = match self.surely_fits(count) {
            true => Fit::Now,
            false => self.looks_whether_fits(count, keys),
        };
        self.fitting = (fit == Fit::Now).then_some(count);
        fit
    }

    /// Whether any `count` rows can be pinned now. This usually holds, and saves looking them up
    /// before they are planned.
    fn surely_fits(&self, count: usize) -> bool {
        count <= self.cache.unpinned() && (!self.whole || self.kept + count <= self.cache.slots())
    }

    fn looks_whether_fits<'k>(
        &mut self,
        count: usize,
        keys: impl Iterator<Item = &'k [Key]>,
    ) -> Fit {
        if count - self.left_below(count) > self.cache.slots() && !self.whole {
            return Fit::Never;
        }
        self.found.clear();
        keys.for_each(|of_table| self.cache.find_more(of_table, &mut self.found));
        if self.whole && self.rows_wanted() > self.cache.slots() {
            return Fit::Never;
        }
        let pinned = |slot: &&SlotIndex| self.cache.is_pinned(**slot);
        let held = self.found.iter().flatten().filter(pinned).count();
        let wanted = count - self.left_below(count) - held;
        if wanted <= self.cache.unpinned() { Fit::Now } else { Fit::Later }
    }

    /// Number of rows needed in memory for the keys last passed to [`Planner::fits`], while all
    /// existing rows stay.
    pub fn rows_wanted(&self) -> usize {
        let exists = |slot: &Option<SlotIndex>| slot.is_some_and(|slot| self.cache.exists(slot));
        self.kept + self.found.iter().filter(|slot| !exists(slot)).count()
    }

    /// Begins a unit of at most `minis` mini-batches, in which keys are counted once. Keys of a
    /// single mini-batch are distinct and need no counting.
    pub fn begin_unit(&mut self, minis: usize) {
        self.counts = minis > 1;
        for slot in self.counted_slots.drain(..) {
            self.counted[slot.at() / WORD_SLOTS] &= !(1 << (slot.at() % WORD_SLOTS));
        }
    }

    /// Retires a mini-batch: it trained its rows as `occurrences` say, or only read them if that is
    /// empty.
    pub fn retire(&mut self, slots: &[SlotIndex], occurrences: &[Occurrence]) {
        self.retire_rows(slots, occurrences, |index| index);
    }

    /// Like [`Planner::retire`]; the row in slot number `index` is row `row_of(index)` of the
    /// mini-batch.
    pub(crate) fn retire_rows(
        &mut self,
        slots: &[SlotIndex],
        occurrences: &[Occurrence],
        row_of: impl Fn(usize) -> usize,
    ) {
        if !self.rules.hold(Rule::Pin) {
            slots.iter().for_each(|slot| self.cache.pin(*slot));
        }
        let unpins = !occurrences.is_empty() || self.rules.hold(Rule::RetireEvaluated);
        for (index, slot) in slots.iter().enumerate() {
            if let Some(ahead) = slots.get(index + AHEAD) {
                self.cache.prefetch(*ahead);
            }
            // A row that was refused admission has no occurrence.
            let seen = occurrences.get(row_of(index)).filter(|seen| seen.examples > 0);
            if let Some(occurrence) = seen {
                self.keep(*slot);
                self.cache.trained_and_unpinned(*slot, *occurrence);
                self.touches += 1;
            } else if unpins {
                self.cache.unpin(*slot);
            }
        }
    }
}

#[cfg(test)]
mod tests;
