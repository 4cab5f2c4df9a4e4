//! Work that the planner gives the puller before some mini-batches can train.

use stepwell_base::{Key, SlotIndex};
use stepwell_mem::Victim;

/// Maximum number of units being filled at once.
pub(crate) const UNITS_PULLED: usize = 4;

/// A missing row and the slot assigned to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fill {
    /// Key of the row.
    pub key: Key,
    /// Slot of the row, pinned.
    pub slot: SlotIndex,
    /// Number of the row's table in the group.
    pub table: u16,
    /// Whether the row came from staging or the store, and so exists; set by the puller.
    pub from_below: bool,
}

/// One table group's share of a planned unit: victims leave first, then fills are loaded.
#[derive(Debug, Default)]
pub struct GroupUnit {
    /// Dirty rows to write to the store.
    pub victims: Vec<Victim>,
    /// Rows to load.
    pub fills: Vec<Fill>,
    /// Number of distinct keys that were in the slab already.
    pub hits: u64,
    /// Number of rows that left their slots, dirty or not.
    pub evictions: u64,
}

impl GroupUnit {
    /// Clears the lists and keeps their memory.
    pub fn clear(&mut self) {
        self.victims.clear();
        self.fills.clear();
        (self.hits, self.evictions) = (0, 0);
    }

    /// Bytes of the lists for `rows` fills that each evict a row.
    pub fn bytes_max(rows: u64) -> u64 {
        rows * (size_of::<Victim>() + size_of::<Fill>()) as u64
    }
}
