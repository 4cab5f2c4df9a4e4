//! Moves of rows between the host and devices.

use stepwell_base::SlotIndex;

use super::lookup::TableChanges;

/// A row that moves between its host slot and its device slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AboveMove {
    pub(crate) host: SlotIndex,
    pub(crate) slot: SlotIndex,
}

/// Moves between the host and one device, for one table group of a unit.
#[derive(Debug, Default)]
pub(crate) struct AboveUnit {
    /// Rows that changed on the device and are lowered.
    pub(crate) victims: Vec<AboveMove>,
    /// Rows that are lifted.
    pub(crate) fills: Vec<AboveMove>,
    /// Changes of the hash table, if one finds rows.
    pub(crate) changes: TableChanges,
    /// Number of distinct keys whose rows were there.
    pub(crate) hits: u64,
    /// Number of the mini-batches' keys whose rows stay on the host.
    pub(crate) below: u64,
}

/// Moves between the host and all devices.
#[derive(Debug, Default)]
pub(crate) struct AboveMoves {
    /// By table group and then device; empty without devices.
    pub(crate) units: Vec<AboveUnit>,
    /// The mini-batch after whose step device slots are free and rows there up to date.
    pub(crate) over: Option<u32>,
}

/// Position in the lists of [`AboveMoves`] of the next row to move.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NextMove {
    /// Index of the list, by table group and then device.
    pub(crate) list: usize,
    /// Index of the row in the list.
    pub(crate) row: usize,
}

impl NextMove {
    /// Continues with the next list.
    pub(crate) fn next_list(&mut self) {
        *self = Self { list: self.list + 1, row: 0 };
    }
}
