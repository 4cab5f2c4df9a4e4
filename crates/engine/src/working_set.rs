//! Where the rows of a request lie: the owner's half of a look-up.

use stepwell_base::SlotIndex;
use stepwell_mem::Occurrence;

use crate::Request;
use crate::device::Places;
use crate::ranks::Askers;
use crate::request::BagsByRow;

/// The rows of one mini-batch in one table, by their number in the request.
#[derive(Debug, Default)]
pub struct WorkingSet {
    /// Slot of each row, pinned from plan to retire. // (rows)
    pub(crate) slots: Vec<SlotIndex>,
    /// How each row occurred where it was trained, empty where it was only read. // (rows)
    pub(crate) occurrences: Vec<Occurrence>,
    /// The bags of each row where it will be trained.
    pub(crate) bags: BagsByRow,
}

impl WorkingSet {
    /// Forgets everything and keeps the memory.
    pub fn clear(&mut self) {
        self.slots.clear();
        self.occurrences.clear();
        self.bags.clear();
    }

    /// Bytes of the working set of `rows` rows that occur once each; whether rows are multiplied
    /// before they are added.
    pub fn bytes_max(rows: u64, weighed: bool) -> u64 {
        let lists = rows * (size_of::<SlotIndex>() + size_of::<Occurrence>()) as u64;
        lists + BagsByRow::bytes_max(rows, rows, weighed)
    }
}

/// One table's share of a mini-batch: what is asked, and where it lies.
#[derive(Debug, Default)]
pub struct Part {
    /// What is asked.
    pub request: Request,
    /// Where it lies, from plan to retire.
    pub rows: WorkingSet,
    /// Which rank asked for what, where several do.
    pub askers: Askers,
    /// Where its rows are on devices, where there are any.
    pub(crate) above: Places,
}

impl Part {
    /// Sorts its bags by row, as the update needs them.
    pub fn sort_bags(&mut self) {
        self.rows.bags.sort(&self.request);
    }

    /// The rows that rank `rank` asked for, in its order.
    pub(crate) fn asked_by(&self, rank: usize) -> &[u32] {
        &self.request.occurrence_rows[self.askers.range(rank)]
    }

    /// Forgets everything and keeps the memory.
    pub fn clear(&mut self) {
        self.request.clear();
        self.rows.clear();
        self.askers.clear();
        self.above.clear();
    }
}
