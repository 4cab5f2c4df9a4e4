//! The two ways to find the slot of a row on its device.
//!
//! - **Slots.** The host's planner knows the slots, and a step sends each slot's number, 4 bytes.
//! - **Table.** A step sends keys, 8 bytes each, and a hash table on the device finds the slots
//!   (`key_table.rs`). The planner still assigns slots to rows, so the bits are the same.

use stepwell_base::{Key, SlotIndex};

/// How a step finds a row in a device's memory. It doesn't affect any bit of the model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lookup {
    /// By slot number, which the host sends.
    #[default]
    Slots,
    /// By key, in a hash table on the device.
    Table,
}

impl Lookup {
    /// All ways.
    pub const ALL: [Self; 2] = [Self::Slots, Self::Table];

    /// Name in settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Slots => "slots",
            Self::Table => "table",
        }
    }
}

/// A key, and the slot of its row on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Placed {
    pub(crate) key: Key,
    pub(crate) slot: SlotIndex,
}

/// Changes of one group's table on one device, for a unit. Keys are removed before others are
/// added.
#[derive(Debug, Default)]
pub(crate) struct TableChanges {
    /// Whether all rows leave; then they are not listed.
    pub(crate) all_leave: bool,
    /// Rows that leave, changed or not.
    pub(crate) left: Vec<Placed>,
    /// Rows that are lifted.
    pub(crate) came: Vec<Placed>,
}

impl TableChanges {
    /// Changes in which all rows leave.
    pub(crate) fn all_leave() -> Self {
        Self { all_leave: true, ..Self::default() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        !self.all_leave && self.left.is_empty() && self.came.is_empty()
    }

    /// Bytes of the lists for `rows` rows that each replace another one.
    pub(crate) fn bytes_max(rows: u64) -> u64 {
        2 * rows * size_of::<Placed>() as u64
    }
}
