//! What the planner asks the puller to do before some mini-batches can train.

use stepwell_base::{Key, SlotIndex};
use stepwell_mem::Victim;

/// A missing row and the slot that it gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fill {
    /// Its key.
    pub key: Key,
    /// Its slot, pinned.
    pub slot: SlotIndex,
    /// Its table, by number in the group.
    pub table: u16,
    /// Whether it came from below, and so exists; set by the puller.
    pub from_below: bool,
}

/// One table group's share of a planned unit: victims go down first, then fills come up.
#[derive(Debug, Default)]
pub struct GroupUnit {
    /// Dirty rows to be written down.
    pub victims: Vec<Victim>,
    /// Rows to be brought up.
    pub fills: Vec<Fill>,
    /// Distinct keys that were in the slab already.
    pub hits: u64,
    /// Rows that left their slot, dirty or not.
    pub evictions: u64,
}

impl GroupUnit {
    /// Forgets everything and keeps the memory.
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
