//! Rows in the slab whose next use is known, by the batch that uses them.
//!
//! They leave only when nothing else can, the farthest next use first (Belady's rule inside the
//! known window). Batches are numbered in order; the horizon bounds how many are known at once, so
//! a ring of lists is enough.

use stepwell_base::SlotIndex;

use crate::{Links, ListId};

/// No use known.
pub(crate) const NEVER: u32 = u32::MAX;

#[derive(Debug)]
pub(crate) struct KnownUses {
    first_list: u32,
    ring: u32,
    /// The farthest batch that was ever named; victims are looked for from here backwards.
    farthest: u32,
}

impl KnownUses {
    /// Room for `ring` batches known at once; its lists come after `first_list`.
    pub(crate) fn new(first_list: usize, ring: usize) -> Self {
        Self { first_list: first_list as u32, ring: ring as u32, farthest: 0 }
    }

    fn list(&self, batch: u32) -> ListId {
        ListId(self.first_list + batch % self.ring)
    }

    /// Some row is used next by `batch`, or never.
    pub(crate) fn know(&mut self, batch: u32) {
        if batch != NEVER {
            self.farthest = self.farthest.max(batch);
        }
    }

    /// Links the unpinned `slot` under its next use, which is known.
    pub(crate) fn attach(&mut self, links: &mut Links, slot: SlotIndex, batch: u32) {
        links.push(self.list(batch), slot);
    }

    /// Takes the slot whose next use is farthest, its use staying known to the planner's queue.
    pub(crate) fn victim(&mut self, links: &mut Links) -> Option<SlotIndex> {
        let oldest_known = self.farthest.saturating_sub(self.ring - 1);
        let slot = (oldest_known..=self.farthest)
            .rev()
            .find_map(|batch| links.oldest(self.list(batch)))?;
        links.unlink(slot);
        Some(slot)
    }
}
