//! Least recently used: the row whose last use lies farthest back leaves first.
//!
//! Source: folklore; Mattson et al., "Evaluation techniques for storage hierarchies", 1970.
//!
//! How: one list in the order of attaching, and one for rows that were never trained on, whose
//! rows leave first. A row that was detached and comes back is as recent as it can be.
//!
//! Cost: 1 byte a slot beside the links; every operation is O(1).

use stepwell_base::{Key, SlotIndex};

use super::{Occurrence, Policy, link, unlink};
use crate::{Links, ListId};

const USED: ListId = ListId(0);
const UNUSED: ListId = ListId(1);

/// Least recently used.
#[derive(Debug)]
pub struct Lru {
    /// Whether the row was trained on since it came.
    used: Box<[bool]>,
}

impl Lru {
    /// Bytes beside the links.
    pub const BYTES_PER_SLOT: usize = size_of::<bool>();

    /// Number of lists of this policy.
    pub const LISTS: usize = 2;

    /// A policy over `slots` slots.
    pub fn new(slots: usize) -> Self {
        Self { used: vec![false; slots].into() }
    }
}

impl Policy for Lru {
    fn lists(&self) -> usize {
        Self::LISTS
    }

    fn admit(&mut self, slot: SlotIndex, _key: Key) {
        self.used[slot.at()] = false;
    }

    fn touch(&mut self, slot: SlotIndex, _occurrence: Occurrence) {
        self.used[slot.at()] = true;
    }

    fn attach(&mut self, links: &mut Links, slot: SlotIndex) {
        link(links, if self.used[slot.at()] { USED } else { UNUSED }, slot);
    }

    fn detach(&mut self, links: &mut Links, slot: SlotIndex) {
        unlink(links, slot);
    }

    fn victim(&mut self, links: &mut Links) -> Option<SlotIndex> {
        let slot = links.oldest(UNUSED).or_else(|| links.oldest(USED))?;
        unlink(links, slot);
        Some(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::conformance::Driver;

    #[test]
    fn the_longest_unused_leaves_first() {
        let mut driver = Driver::new(Box::new(Lru::new(4)), 4);
        driver.visit_all(&[0, 1, 2, 3, 1, 0]);
        assert_eq!(driver.victims(), [2, 3, 1, 0]);
    }
}
