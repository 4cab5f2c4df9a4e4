//! Least frequently used: the row with the fewest uses leaves first, the oldest of those.
//!
//! Source: Shah, Mitra, Matani, "An O(1) algorithm for implementing the LFU cache eviction
//! scheme", 2010. Uses are forgotten with the row (in-cache LFU).
//!
//! How: a list per frequency, in the order of attaching. A frequency is the number of mini-batches
//! that trained the row since it came; it stays at 255, above which the least recent leaves first.
//!
//! Cost: 1 byte a slot beside the links; every operation is O(1).

use stepwell_base::{Key, SlotIndex};

use super::occupied::Occupied;
use super::{Occurrence, Policy, link, unlink};
use crate::{Links, ListId};

/// Least frequently used.
#[derive(Debug)]
pub struct Lfu {
    frequency: Box<[u8]>,
    /// Frequencies whose list has a slot.
    occupied: Occupied,
}

impl Lfu {
    /// Bytes beside the links.
    pub const BYTES_PER_SLOT: usize = size_of::<u8>();

    /// Number of lists of this policy.
    pub const LISTS: usize = u8::MAX as usize + 1;

    /// A policy over `slots` slots.
    pub fn new(slots: usize) -> Self {
        Self { frequency: vec![0; slots].into(), occupied: Occupied::new(Self::LISTS) }
    }
}

impl Policy for Lfu {
    fn lists(&self) -> usize {
        Self::LISTS
    }

    fn admit(&mut self, slot: SlotIndex, _key: Key) {
        self.frequency[slot.at()] = 0;
    }

    fn touch(&mut self, slot: SlotIndex, _occurrence: Occurrence) {
        let frequency = &mut self.frequency[slot.at()];
        *frequency = frequency.saturating_add(1);
    }

    fn attach(&mut self, links: &mut Links, slot: SlotIndex) {
        let frequency = self.frequency[slot.at()];
        link(links, ListId(frequency.into()), slot);
        self.occupied.insert(frequency.into());
    }

    fn detach(&mut self, links: &mut Links, slot: SlotIndex) {
        unlink(links, slot);
        let frequency = self.frequency[slot.at()];
        if links.is_empty(ListId(frequency.into())) {
            self.occupied.remove(frequency.into());
        }
    }

    fn victim(&mut self, links: &mut Links) -> Option<SlotIndex> {
        let slot = links.oldest(ListId(self.occupied.first_from(0)? as u32))?;
        self.detach(links, slot);
        Some(slot)
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
}
