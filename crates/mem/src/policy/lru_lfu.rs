//! The paper's policy: least recently used, whose victims go to least frequently used.
//!
//! Source: HPS paper, section 5 "Cache policy" and appendix D. "Whenever we visit a parameter, we
//! add it into an LRU cache. For the evicted parameters from the LRU cache, we insert them into an
//! LFU cache. The evicted parameters from the LFU cache ... flush them into SSDs."
//!
//! How: both caches are lists over the slots of the one slab, so a row never moves. The LRU list
//! holds at most its share of the slots; what falls off its old end goes to the LFU list of its
//! frequency. Victims are the oldest row of the lowest frequency. A frequency is the number of
//! mini-batches that used the row since it came, and stays at 255.
//!
//! Cost: 2 bytes a slot beside the links; every operation is O(1).

use stepwell_base::{Key, SlotIndex};

use super::occupied::Occupied;
use super::{Occurrence, Policy};
use crate::{Links, ListId};

/// Frequencies are counted up to here.
const FREQUENCY_MAX: u8 = u8::MAX;
const LRU: ListId = ListId(0);
const LISTS: usize = 1 + FREQUENCY_MAX as usize + 1;

/// Where a slot is; numbers, so that fresh memory means detached and unused.
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
    frequency: Box<[u8]>,
    place: Box<[u8]>,
    lru_slots: usize,
    lru_slots_max: usize,
    /// Frequencies whose LFU list has a slot.
    occupied: Occupied,
}

impl LruLfu {
    /// A policy over `slots` slots, half of them for the LRU.
    pub fn new(slots: usize) -> Self {
        Self {
            frequency: vec![0; slots].into(),
            place: vec![place::DETACHED; slots].into(),
            lru_slots: 0,
            lru_slots_max: slots / 2,
            occupied: Occupied::new(LISTS - 1),
        }
    }

    /// Bytes beside the links.
    pub const BYTES_PER_SLOT: usize = 2 * size_of::<u8>();

    /// Number of lists of this policy.
    pub const LISTS: usize = LISTS;

    fn lfu_list(frequency: u8) -> ListId {
        ListId(1 + u32::from(frequency))
    }

    fn push_lfu(&mut self, links: &mut Links, slot: SlotIndex) {
        let frequency = self.frequency[slot.at()];
        links.push(Self::lfu_list(frequency), slot);
        self.place[slot.at()] = place::LFU;
        self.occupied.insert(usize::from(frequency));
    }

    fn clear_if_empty(&mut self, links: &Links, frequency: u8) {
        if links.is_empty(Self::lfu_list(frequency)) {
            self.occupied.remove(usize::from(frequency));
        }
    }

    /// Moves what exceeds the LRU's share to the LFU.
    fn spill(&mut self, links: &mut Links) {
        while self.lru_slots > self.lru_slots_max {
            let Some(oldest) = links.oldest(LRU) else { break };
            links.unlink(oldest);
            self.lru_slots -= 1;
            self.push_lfu(links, oldest);
        }
    }
}

impl Policy for LruLfu {
    fn lists(&self) -> usize {
        LISTS
    }

    fn admit(&mut self, slot: SlotIndex, _key: Key) {
        self.frequency[slot.at()] = 0;
        self.place[slot.at()] = place::DETACHED;
    }

    fn touch(&mut self, slot: SlotIndex, _occurrence: Occurrence) {
        let frequency = &mut self.frequency[slot.at()];
        *frequency = frequency.saturating_add(1);
        self.place[slot.at()] = place::USED;
    }

    fn attach(&mut self, links: &mut Links, slot: SlotIndex) {
        match self.place[slot.at()] {
            place::USED => {
                links.push(LRU, slot);
                self.place[slot.at()] = place::LRU;
                self.lru_slots += 1;
                self.spill(links);
            }
            // Planned or read, never trained on since: no visit, so no place in the LRU.
            place::DETACHED => self.push_lfu(links, slot),
            _ => unreachable!("slot {} is attached twice", slot.0),
        }
    }

    fn detach(&mut self, links: &mut Links, slot: SlotIndex) {
        match self.place[slot.at()] {
            place::LRU => {
                links.unlink(slot);
                self.lru_slots -= 1;
                // It was among the recent and was not visited since: it comes back as recent.
                self.place[slot.at()] = place::USED;
            }
            place::LFU => {
                links.unlink(slot);
                self.clear_if_empty(links, self.frequency[slot.at()]);
                self.place[slot.at()] = place::DETACHED;
            }
            _ => unreachable!("slot {} is detached twice", slot.0),
        }
    }

    fn victim(&mut self, links: &mut Links) -> Option<SlotIndex> {
        let slot = match self.occupied.first_from(0) {
            Some(frequency) => links.oldest(Self::lfu_list(frequency as u8)),
            None => links.oldest(LRU),
        }?;
        self.detach(links, slot);
        Some(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visit(policy: &mut LruLfu, links: &mut Links, slot: u32) {
        let slot = SlotIndex(slot);
        if links.is_linked(slot) {
            policy.detach(links, slot);
        }
        policy.touch(slot, Occurrence { examples: 1, positives: 0 });
        policy.attach(links, slot);
    }

    fn victims(policy: &mut LruLfu, links: &mut Links) -> Vec<u32> {
        std::iter::from_fn(|| policy.victim(links)).map(|slot| slot.0).collect()
    }

    #[test]
    fn the_least_frequent_of_the_old_leaves_first() {
        let (mut policy, mut links) = (LruLfu::new(6), Links::new(6, LISTS));
        for slot in [0, 0, 0, 1, 1, 2, 3, 4, 5] {
            visit(&mut policy, &mut links, slot);
        }
        // 3, 4, 5 are the recent half; of the old, 2 was used once, 1 twice, 0 three times.
        assert_eq!(victims(&mut policy, &mut links), [2, 1, 0, 3, 4, 5]);
    }

    #[test]
    fn a_row_that_was_only_read_leaves_before_any_trained_one() {
        let (mut policy, mut links) = (LruLfu::new(4), Links::new(4, LISTS));
        visit(&mut policy, &mut links, 0);
        policy.admit(SlotIndex(1), Key(9));
        policy.attach(&mut links, SlotIndex(1));
        visit(&mut policy, &mut links, 2);
        assert_eq!(victims(&mut policy, &mut links), [1, 0, 2]);
    }

    #[test]
    fn a_new_key_starts_without_history() {
        let (mut policy, mut links) = (LruLfu::new(2), Links::new(2, LISTS));
        (0..300).for_each(|_| visit(&mut policy, &mut links, 0));
        visit(&mut policy, &mut links, 1);
        assert_eq!(policy.frequency[0], FREQUENCY_MAX);
        policy.detach(&mut links, SlotIndex(0));
        policy.admit(SlotIndex(0), Key(9));
        policy.attach(&mut links, SlotIndex(0));
        assert_eq!(victims(&mut policy, &mut links), [0, 1]);
    }
}
