//! Least frequently used: the oldest of the rows with the fewest uses is evicted first.
//!
//! - **Source.** Shah, Mitra, Matani, "An O(1) algorithm for implementing the LFU cache eviction
//!   scheme", 2010. Uses are forgotten with the row (in-cache LFU).
//!
//! - **How.** A list per frequency, in the order of attaching. A frequency is the number of
//!   mini-batches that trained the row since it was admitted, at most 255; among those, the least
//!   recent is evicted first.
//!
//! - **Cost.** 8 bytes of links per slot; every operation is O(1).

use std::collections::BTreeSet;

use stepwell_base::SlotIndex;
use stepwell_mem::policy::{link, unlink};
use stepwell_mem::{Links, ListId, Occurrence, Policy, Records};

/// Least frequently used.
#[derive(Debug)]
pub(super) struct Lfu {
    links: Links,
    /// Frequencies whose list has a slot.
    occupied: BTreeSet<u8>,
}

impl Lfu {
    const LISTS: usize = u8::MAX as usize + 1;

    /// A policy over `slots` slots.
    pub(super) fn new(slots: usize) -> Self {
        Self { links: Links::new(slots, Self::LISTS), occupied: BTreeSet::new() }
    }

    fn frequency(records: &Records, slot: SlotIndex) -> u8 {
        records.spare(slot)[0]
    }
}

impl Policy for Lfu {
    fn admit(&mut self, records: &mut Records, slot: SlotIndex) {
        records.set_spare(slot, [0; 3]);
    }

    fn touch(&mut self, records: &mut Records, slot: SlotIndex, _occurrence: Occurrence) {
        let frequency = Self::frequency(records, slot).saturating_add(1);
        records.set_spare(slot, [frequency, 0, 0]);
    }

    fn attach(&mut self, records: &mut Records, slot: SlotIndex) {
        let frequency = Self::frequency(records, slot);
        link(&mut self.links, ListId(frequency.into()), slot);
        self.occupied.insert(frequency);
    }

    fn detach(&mut self, records: &mut Records, slot: SlotIndex) {
        unlink(&mut self.links, slot);
        let frequency = Self::frequency(records, slot);
        if self.links.is_empty(ListId(frequency.into())) {
            self.occupied.remove(&frequency);
        }
    }

    fn victim(&mut self, records: &mut Records) -> Option<SlotIndex> {
        let least = *self.occupied.first()?;
        let slot = self.links.oldest(ListId(least.into()))?;
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
    use stepwell_mem::policy::conformance::Driver;

    #[test]
    fn the_oldest_of_the_least_frequent_leaves_first() {
        let mut driver = Driver::new(Box::new(Lfu::new(4)), 4);
        driver.visit_all(&[0, 0, 0, 1, 2, 2, 3, 1]);
        assert_eq!(driver.victims(), [3, 2, 1, 0]);
    }

    #[test]
    fn frequencies_end_at_255() {
        let mut driver = Driver::new(Box::new(Lfu::new(2)), 2);
        (0..300).for_each(|_| driver.visit_all(&[0]));
        (0..260).for_each(|_| driver.visit_all(&[1]));
        assert_eq!(driver.victims(), [0, 1]);
    }
}
