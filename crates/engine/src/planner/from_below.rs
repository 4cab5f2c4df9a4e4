//! Rows that come from the store.

use stepwell_base::{Key, SlotIndex};

use super::Planner;
use crate::Result;
use crate::unit::Fill;

impl Planner {
    /// Assigns a never-used slot to `key`, whose row is in the store but not here, for the caller
    /// to fill; `None` if there is no such slot. Only before the first mini-batch.
    ///
    /// # Errors
    /// If the key finds no room in the index.
    pub fn adopt(&mut self, key: Key) -> Result<Option<SlotIndex>> {
        if !self.cache.has_room_for(1) {
            return Ok(None);
        }
        let slot = self.cache.place(key)?.slot;
        self.keep(slot);
        self.cache.came_from_below(slot);
        self.cache.unpin(slot);
        Ok(Some(slot))
    }

    /// Records that the unit's rows were pulled: rows that came from below exist.
    pub fn pulled(&mut self, fills: &[Fill]) {
        for fill in fills.iter().filter(|fill| fill.from_below) {
            self.keep(fill.slot);
            self.cache.came_from_below(fill.slot);
        }
    }
}
