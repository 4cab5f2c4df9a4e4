//! Where the rows of a request lie: the owner's half of a look-up.

use stepwell_base::SlotIndex;
use stepwell_mem::Occurrence;

use crate::Request;

/// The rows of one mini-batch in one table, by their number in the request.
#[derive(Debug, Default)]
pub struct WorkingSet {
    /// Slot of each row, pinned from plan to retire. // (rows)
    pub(crate) slots: Vec<SlotIndex>,
    /// How each row occurred where it was trained, empty where it was only read. // (rows)
    pub(crate) occurrences: Vec<Occurrence>,
}

impl WorkingSet {
    /// Forgets everything and keeps the memory.
    pub fn clear(&mut self) {
        self.slots.clear();
        self.occurrences.clear();
    }

    /// Bytes of the working set of `rows` rows.
    pub fn bytes_max(rows: u64) -> u64 {
        rows * (size_of::<SlotIndex>() + size_of::<Occurrence>()) as u64
    }
}

/// One table's share of a mini-batch: what is asked, and where it lies.
#[derive(Debug, Default)]
pub struct Part {
    /// What is asked.
    pub request: Request,
    /// Where it lies, from plan to retire.
    pub rows: WorkingSet,
}

impl Part {
    /// Forgets everything and keeps the memory.
    pub fn clear(&mut self) {
        self.request.clear();
        self.rows.clear();
    }
}
