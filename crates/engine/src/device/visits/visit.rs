//! The rows of one table that visit from one device.

use std::ops::Range;

use stepwell_device::RowsAt;

use crate::device_tier::tier::OneDevice;
use crate::working_set::OnDevice;

/// The rows of one table on one device, for a mini-batch.
pub(in crate::device) struct Visit<'a> {
    pub(in crate::device) table: usize,
    pub(in crate::device) group: usize,
    pub(in crate::device) on: &'a OnDevice,
    /// Position of the rows' slots in the lists, and of their lanes in the buffer.
    pub(in crate::device) slots: usize,
    pub(in crate::device) first_lane: usize,
    /// Number of lanes copied per row.
    pub(in crate::device) lanes: usize,
}

impl Visit<'_> {
    pub(super) fn lanes(&self) -> Range<usize> {
        self.first_lane..self.first_lane + self.lanes * self.on.slots.len()
    }

    pub(in crate::device) fn rows_at(&self, one: &OneDevice) -> RowsAt {
        one.touched(self.group, self.on.slots.iter().map(|slot| slot.0))
    }

    /// Where the visits' slots and lanes end.
    pub(in crate::device) fn end(visits: &[Self]) -> (usize, usize) {
        let last = visits.last();
        last.map_or((0, 0), |last| (last.slots + last.on.slots.len(), last.lanes().end))
    }

    /// Appends the rows of table `table` to `visits`.
    pub(super) fn add<'a>(
        visits: &mut Vec<Visit<'a>>,
        table: usize,
        group: usize,
        on: &'a OnDevice,
        lanes: usize,
    ) {
        let (slots, first_lane) = Visit::end(visits);
        visits.push(Visit { table, group, on, slots, first_lane, lanes });
    }
}
