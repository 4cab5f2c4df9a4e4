//! The paper's policy: an LRU list, and LFU lists for the rows that leave it.
//!
//! - **Source.** HPS paper, section 5 "Cache policy" and appendix D. "Whenever we visit a
//!   parameter, we add it into an LRU cache. For the evicted parameters from the LRU cache, we
//!   insert them into an LFU cache. The evicted parameters from the LFU cache ... flush them into
//!   SSDs."
//!
//! - **How.** Both caches are lists over the slots of the one slab, so a row never moves. The LRU
//!   list has at most its share of the slots; the oldest beyond that go to the LFU list of their
//!   frequency. Victims are the oldest rows of the lowest frequency. A frequency is the number of
//!   mini-batches that used the row since it was admitted, at most 255.
//!
//! - **Cost.** 8 bytes of links per slot; every operation is O(1).

use stepwell_base::SlotIndex;

use super::{Occurrence, Policy};
use crate::links::{Links, ListId};
use crate::numbers::Numbers;
use crate::records::Records;

const LRU: ListId = ListId(0);
/// LFU lists, one per frequency.
const FREQUENCIES: usize = u8::MAX as usize + 1;
const LISTS: usize = 1 + FREQUENCIES;

/// Place of a slot; zero, as in fresh memory, means detached and unused.
mod place {
    pub(super) const DETACHED: u8 = 0;
    /// Detached, and used since it was last attached.
    pub(super) const USED: u8 = 1;
    pub(super) const LRU: u8 = 2;
    pub(super) const LFU: u8 = 3;
}

/// LRU whose victims go to LFU.
#[derive(Debug)]
pub struct LruLfu {
    links: Links,
    lru_slots: usize,
    lru_slots_max: usize,
    /// Frequencies whose LFU list has a slot.
    occupied: Numbers,
}

impl LruLfu {
    /// A policy over `slots` slots, half of them for the LRU.
    pub fn new(slots: usize) -> Self {
        Self {
            links: Links::new(slots, LISTS),
            lru_slots: 0,
            lru_slots_max: slots / 2,
            occupied: Numbers::new(FREQUENCIES),
        }
    }

    /// Bytes in addition to the records.
    pub fn bytes_for(slots: u64) -> u64 {
        Links::bytes_for(slots, LISTS) + Numbers::bytes_for(FREQUENCIES as u64)
    }

    fn frequency(records: &Records, slot: SlotIndex) -> u8 {
        records.spare(slot)[0]
    }

    fn lfu_list(frequency: u8) -> ListId {
        ListId(1 + u32::from(frequency))
    }

    fn push_lfu(&mut self, records: &mut Records, slot: SlotIndex) {
        let frequency = Self::frequency(records, slot);
        self.links.push(Self::lfu_list(frequency), slot);
        records.set_state(slot, place::LFU);
        self.occupied.insert(usize::from(frequency));
    }

    fn clear_if_empty(&mut self, frequency: u8) {
        if self.links.is_empty(Self::lfu_list(frequency)) {
            self.occupied.remove(usize::from(frequency));
        }
    }

    /// Moves the oldest slots beyond the LRU's share to the LFU.
    fn spill(&mut self, records: &mut Records) {
        while self.lru_slots > self.lru_slots_max {
            let Some(oldest) = self.links.oldest(LRU) else { break };
            self.links.unlink(oldest);
            self.lru_slots -= 1;
            self.push_lfu(records, oldest);
        }
    }
}

impl Policy for LruLfu {
    fn admit(&mut self, records: &mut Records, slot: SlotIndex) {
        records.set_spare(slot, [0; 3]);
        records.set_state(slot, place::DETACHED);
    }

    fn touch(&mut self, records: &mut Records, slot: SlotIndex, _occurrence: Occurrence) {
        let frequency = Self::frequency(records, slot).saturating_add(1);
        records.set_spare(slot, [frequency, 0, 0]);
        records.set_state(slot, place::USED);
    }

    fn attach(&mut self, records: &mut Records, slot: SlotIndex) {
        match records.state(slot) {
            place::USED => {
                self.links.push(LRU, slot);
                records.set_state(slot, place::LRU);
                self.lru_slots += 1;
                self.spill(records);
            }
            // Planned or read, but not trained since: not used, so it doesn't belong in the LRU.
            place::DETACHED => self.push_lfu(records, slot),
            _ => unreachable!("slot {} is attached twice", slot.0),
        }
    }

    fn detach(&mut self, records: &mut Records, slot: SlotIndex) {
        match records.state(slot) {
            place::LRU => {
                self.links.unlink(slot);
                self.lru_slots -= 1;
                // The row is recent, and stays so when it is attached again, even without a use.
                records.set_state(slot, place::USED);
            }
            place::LFU => {
                self.links.unlink(slot);
                self.clear_if_empty(Self::frequency(records, slot));
                records.set_state(slot, place::DETACHED);
            }
            _ => unreachable!("slot {} is detached twice", slot.0),
        }
    }

    fn victim(&mut self, records: &mut Records) -> Option<SlotIndex> {
        let slot = match self.occupied.first_in(0..) {
            Some(frequency) => self.links.oldest(Self::lfu_list(frequency as u8)),
            None => self.links.oldest(LRU),
        }?;
        self.detach(records, slot);
        Some(slot)
    }

    fn links(&self) -> Option<&Links> {
        Some(&self.links)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::conformance::Driver;

    fn driver(slots: usize) -> Driver {
        Driver::new(Box::new(LruLfu::new(slots)), slots)
    }

    #[test]
    fn the_least_frequent_of_the_old_leaves_first() {
        let mut driver = driver(6);
        driver.visit_all(&[0, 0, 0, 1, 1, 2, 3, 4, 5]);
        // 3, 4, 5 are the recent half; of the old ones, 2 was used once, 1 twice, 0 three times.
        assert_eq!(driver.victims(), [2, 1, 0, 3, 4, 5]);
    }

    #[test]
    fn a_row_that_was_only_read_leaves_before_any_trained_one() {
        let mut driver = driver(4);
        driver.visit_all(&[0]);
        driver.admit(1, 9);
        driver.attach(1);
        driver.visit_all(&[2]);
        assert_eq!(driver.victims(), [1, 0, 2]);
    }

    #[test]
    fn a_new_key_starts_without_history() {
        let mut driver = driver(2);
        (0..300).for_each(|_| driver.visit_all(&[0]));
        driver.visit_all(&[1]);
        driver.detach(0);
        driver.admit(0, 9);
        driver.attach(0);
        assert_eq!(driver.victims(), [0, 1]);
    }

    #[test]
    fn bytes_are_those_that_are_taken() {
        for slots in [0, 1, 9, 1000] {
            let policy = LruLfu::new(slots);
            let taken = policy.links.bytes() + policy.occupied.bytes();
            assert_eq!(LruLfu::bytes_for(slots as u64), taken, "{slots} slots");
        }
    }
}
