//! Places of the rows of a request: the owner's half of a look-up.

mod askers;
mod places;

use stepwell_base::SlotIndex;
use stepwell_mem::Occurrence;

pub use self::askers::Askers;
pub(crate) use self::askers::Loan;
pub(crate) use self::places::{NO_SLOT, OnDevice, Places};
use crate::request::{BagsByRow, Request};

/// The rows of one mini-batch in one table, by their number in the request.
#[derive(Debug, Default)]
pub struct WorkingSet {
    /// Slot of each row, pinned from plan to retire. // (rows)
    pub(crate) slots: Vec<SlotIndex>,
    /// How each row occurred; empty if the rows were only read. // (rows)
    pub(crate) occurrences: Vec<Occurrence>,
    /// The bags of each row, for training.
    pub(crate) bags: BagsByRow,
}

impl WorkingSet {
    /// Clears the lists and keeps their memory.
    pub fn clear(&mut self) {
        self.slots.clear();
        self.occurrences.clear();
        self.bags.clear();
    }

    /// Bytes of the working set of `rows` rows that occur once each; `weighed` if rows are
    /// multiplied by factors before they are added.
    pub fn bytes_max(rows: u64, weighed: bool) -> u64 {
        let lists = rows * (size_of::<SlotIndex>() + size_of::<Occurrence>()) as u64;
        lists + BagsByRow::bytes_max(rows, rows, weighed)
    }
}

/// One table's share of a mini-batch: the request, and the places of its rows.
#[derive(Debug, Default)]
pub struct Part {
    /// The request.
    pub request: Request,
    /// Working set of the requested rows, from plan to retire.
    pub rows: WorkingSet,
    /// The rows that each rank requested, if there are several ranks.
    pub askers: Askers,
    /// Places of the requested rows on devices, if any.
    pub(crate) above: Places,
}

impl Part {
    /// Sorts the bags by row, as the update needs them.
    pub fn sort_bags(&mut self) {
        self.rows.bags.sort(&self.request);
    }

    /// The rows that rank `rank` requested, in its order.
    pub(crate) fn asked_by(&self, rank: usize) -> &[u32] {
        &self.request.occurrence_rows[self.askers.range(rank)]
    }

    /// Clears everything and keeps the memory.
    pub fn clear(&mut self) {
        self.request.clear();
        self.rows.clear();
        self.askers.clear();
        self.above.clear();
    }
}
