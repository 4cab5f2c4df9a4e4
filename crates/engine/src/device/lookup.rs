//! The two ways to find the slot of a row on its device.
//!
//! - **Slots.** The host's planner knows them, and a step sends the number of each slot: 4 bytes.
//! - **Table.** A step sends keys, of 8 bytes, and a hash table on the device finds the slots
//!   (`table.rs`). The planner still says which row gets which slot, so the bits are the same.

use stepwell_base::{Key, SlotIndex};

/// How a step finds a row in the memory of a device. No bit of the model depends on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lookup {
    /// By the number of its slot, which the host sends.
    #[default]
    Slots,
    /// By its key, in a hash table of the device.
    Table,
}

impl Lookup {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Slots, Self::Table];

    /// Its name in settings.
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

/// What changes in the table of one group on one device, for a unit. Whatever leaves does so before
/// anything comes.
#[derive(Debug, Default)]
pub(crate) struct TableChanges {
    /// Whether all rows leave; then they are not listed.
    pub(crate) all_leave: bool,
    /// Rows that leave, changed or not.
    pub(crate) left: Vec<Placed>,
    /// Rows that come.
    pub(crate) came: Vec<Placed>,
}

impl TableChanges {
    /// All rows leave.
    pub(crate) fn all_leave() -> Self {
        Self { all_leave: true, ..Self::default() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        !self.all_leave && self.left.is_empty() && self.came.is_empty()
    }

    /// Bytes of the lists for `rows` rows that each take the place of another.
    pub(crate) fn bytes_max(rows: u64) -> u64 {
        2 * rows * size_of::<Placed>() as u64
    }
}
