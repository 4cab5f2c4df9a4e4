//! Least recently used: the row with the oldest last use is evicted first.
//!
//! - **Source.** Folklore; Mattson et al., "Evaluation techniques for storage hierarchies", 1970.
//!
//! - **How.** One list in the order of attaching, and one for rows that were never trained, which
//!   are evicted first. A row that was detached and is attached again is the most recent.
//!
//! - **Cost.** 8 bytes of links per slot; every operation is O(1).

use stepwell_base::SlotIndex;
use stepwell_mem::policy::{link, unlink};
use stepwell_mem::{Links, ListId, Occurrence, Policy, Records};

const USED: ListId = ListId(0);
const UNUSED: ListId = ListId(1);

/// State of a row that was trained since it was admitted.
const TRAINED: u8 = 1;

/// Least recently used.
#[derive(Debug)]
pub(super) struct Lru {
    links: Links,
}

impl Lru {
    const LISTS: usize = 2;

    /// A policy over `slots` slots.
    pub(super) fn new(slots: usize) -> Self {
        Self { links: Links::new(slots, Self::LISTS) }
    }
}

impl Policy for Lru {
    fn admit(&mut self, records: &mut Records, slot: SlotIndex) {
        records.set_state(slot, 0);
    }

    fn touch(&mut self, records: &mut Records, slot: SlotIndex, _occurrence: Occurrence) {
        records.set_state(slot, TRAINED);
    }

    fn attach(&mut self, records: &mut Records, slot: SlotIndex) {
        let list = if records.state(slot) == TRAINED { USED } else { UNUSED };
        link(&mut self.links, list, slot);
    }

    fn detach(&mut self, _records: &mut Records, slot: SlotIndex) {
        unlink(&mut self.links, slot);
    }

    fn victim(&mut self, _records: &mut Records) -> Option<SlotIndex> {
        let slot = self.links.oldest(UNUSED).or_else(|| self.links.oldest(USED))?;
        unlink(&mut self.links, slot);
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
    fn the_longest_unused_leaves_first() {
        let mut driver = Driver::new(Box::new(Lru::new(4)), 4);
        driver.visit_all(&[0, 1, 2, 3, 1, 0]);
        assert_eq!(driver.victims(), [2, 3, 1, 0]);
    }
}
