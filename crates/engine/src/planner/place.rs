//! Assigns slots to the rows of a mini-batch.
//!
//! - **How.** One pass looks up keys and pins rows that are here, while metadata of later keys is
//!   prefetched. It also assigns slots to missing keys, as their buckets are in cache, as long as
//!   none of them evicts a row. Otherwise missing keys wait for a second pass, since the evicted
//!   row might be that of a later key.

use stepwell_base::rules::Rule;
use stepwell_base::{Key, SlotIndex};
use stepwell_mem::{NoPlace, Occurrence, Seek};

use super::{AHEAD, Asked, Planner, WORD_SLOTS};
use crate::Result;
use crate::next_uses::Future;
use crate::unit::{Fill, GroupUnit};
use crate::working_set::NO_SLOT;

impl Planner {
    /// Pins the rows of mini-batch `number`, which must fit, and adds the required moves to `unit`.
    ///
    /// # Errors
    /// If a key finds no room in the index, which ends the run.
    pub fn plan(
        &mut self,
        number: u32,
        asked: &mut [Asked<'_>],
        unit: &mut GroupUnit,
    ) -> Result<()> {
        let count = asked.iter().map(|table| table.keys.len()).sum::<usize>();
        assert_eq!(
            self.fitting.take(),
            Some(count),
            "`fits` must be called for this mini-batch first"
        );
        self.future.take(number, &mut self.next);
        self.keys_ahead -= count;
        if let Some(outlook) = &self.outlook {
            outlook.planned(number);
        }
        // If rows are evicted, all hits come first: no row of this mini-batch may be a victim.
        let is_roomy = self.cache.has_room_for(count);
        let (mut index, mut missing) = (0, 0);
        for Asked { table, keys, slots } in asked.iter_mut() {
            slots.clear();
            slots.reserve_exact(keys.len());
            let mut seek = Seek::default();
            for at in 0..keys.len() {
                let slot = match self.cache.seek(&mut seek, at, |at| keys.get(at).copied()) {
                    Some(slot) => self.hit(number, index, slot, unit),
                    None if is_roomy => self.fill(number, index, keys[at], *table, unit)?,
                    None => {
                        missing += 1;
                        NO_SLOT
                    }
                };
                slots.push(slot);
                index += 1;
            }
        }
        self.fill_missing(number, missing - self.left_below(count).min(missing), asked, unit)?;
        if !self.rules.hold(Rule::Pin) {
            let slots = asked.iter().flat_map(|table| table.slots.iter());
            slots.filter(|slot| **slot != NO_SLOT).for_each(|slot| self.cache.unpin(*slot));
        }
        Ok(())
    }

    /// Assigns slots to the first `fills` keys of mini-batch `number` that have none.
    fn fill_missing(
        &mut self,
        number: u32,
        mut fills: usize,
        asked: &mut [Asked<'_>],
        unit: &mut GroupUnit,
    ) -> Result<()> {
        let mut index = 0;
        for Asked { table, keys, slots } in asked {
            for at in 0..keys.len() {
                if fills == 0 {
                    return Ok(());
                }
                if slots.get(at + AHEAD) == Some(&NO_SLOT) {
                    self.cache.prefetch_place(keys[at + AHEAD]);
                }
                if slots[at] == NO_SLOT {
                    self.cache.will_place(fills);
                    slots[at] = self.fill(number, index, keys[at], *table, unit)?;
                    fills -= 1;
                }
                index += 1;
            }
        }
        Ok(())
    }

    /// Pins the row in `slot`, which key `index` of mini-batch `number` has.
    #[inline]
    fn hit(
        &mut self,
        number: u32,
        index: usize,
        slot: SlotIndex,
        unit: &mut GroupUnit,
    ) -> SlotIndex {
        self.cache.pin(slot);
        unit.hits += u64::from(self.count(slot));
        if !self.rules.hold(Rule::TouchAtRetire) {
            self.cache.touch(slot, Occurrence::default());
            self.touches += 1;
        }
        self.expect(number, index, slot);
        slot
    }

    /// Records the next use of the row in `slot` after key `index` of mini-batch `number`. A
    /// mini-batch that was not followed has no known uses, and no earlier ones were recorded.
    #[inline]
    fn expect(&mut self, number: u32, index: usize, slot: SlotIndex) {
        if let Some(code) = self.next.get(index) {
            self.cache.expect(slot, Future::known(number, *code));
        }
    }

    /// Whether the unit meets `slot` for the first time.
    fn count(&mut self, slot: SlotIndex) -> bool {
        if !self.counts {
            return true;
        }
        let (word, bit) =
            (&mut self.counted[slot.at() / WORD_SLOTS], 1 << (slot.at() % WORD_SLOTS));
        let first = *word & bit == 0;
        if first {
            *word |= bit;
            self.counted_slots.push(slot);
        }
        first
    }

    /// Assigns a slot to `key` of `table`, which is key `index` of mini-batch `number`.
    fn fill(
        &mut self,
        number: u32,
        index: usize,
        key: Key,
        table: u16,
        unit: &mut GroupUnit,
    ) -> Result<SlotIndex> {
        let placed = self.cache.place(key);
        assert!(
            placed != Err(NoPlace::Pinned),
            "key {:016x} finds no slot, although its mini-batch fits",
            key.0
        );
        let placed = placed?;
        if let Some(victim) = placed.victim {
            unit.evictions += 1;
            if let (Some(outlook), Some(next)) = (&self.outlook, placed.next_use) {
                outlook.learn_evicted(next, victim.key);
            }
            if victim.dirty || self.is_above {
                unit.victims.push(victim);
            }
        }
        self.count(placed.slot);
        unit.fills.push(Fill { key, slot: placed.slot, table, from_below: false });
        self.expect(number, index, placed.slot);
        Ok(placed.slot)
    }
}
