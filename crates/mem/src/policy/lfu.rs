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

use stepwell_base::SlotIndex;

use super::{Occurrence, Policy, link, unlink};
use crate::Records;
use crate::links::{Links, ListId};
use crate::numbers::Numbers;

/// Least frequently used.
#[derive(Debug)]
pub struct Lfu {
    links: Links,
    /// Frequencies whose list has a slot.
    occupied: Numbers,
}

impl Lfu {
    const LISTS: usize = u8::MAX as usize + 1;

    /// A policy over `slots` slots.
    pub fn new(slots: usize) -> Self {
        Self { links: Links::new(slots, Self::LISTS), occupied: Numbers::new(Self::LISTS) }
    }

    /// Bytes in addition to the records.
    pub fn bytes_for(slots: u64) -> u64 {
        Links::bytes_for(slots, Self::LISTS) + Numbers::bytes_for(Self::LISTS as u64)
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
        self.occupied.insert(frequency.into());
    }

    fn detach(&mut self, records: &mut Records, slot: SlotIndex) {
        unlink(&mut self.links, slot);
        let frequency = Self::frequency(records, slot);
        if self.links.is_empty(ListId(frequency.into())) {
            self.occupied.remove(frequency.into());
        }
    }

    fn victim(&mut self, records: &mut Records) -> Option<SlotIndex> {
        let least = self.occupied.first_in(0..)?;
        let slot = self.links.oldest(ListId(least as u32))?;
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

    #[test]
    fn bytes_are_those_that_are_taken() {
        for slots in [0, 1, 9, 1000] {
            let policy = Lfu::new(slots);
            let taken = policy.links.bytes() + policy.occupied.bytes();
            assert_eq!(Lfu::bytes_for(slots as u64), taken, "{slots} slots");
        }
    }
}
