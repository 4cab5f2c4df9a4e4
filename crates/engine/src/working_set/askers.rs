//! The ranks that requested rows, and loans of rows.

/// How a row of a mini-batch is lent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Loan {
    /// The owner reads and updates the row.
    #[default]
    None,
    /// The owner sends the row to the requester.
    Begins,
    /// The requester has the row.
    Runs,
    /// The requester has the row, and returns it after the update.
    Ends,
}

/// The rows that each rank requested, one rank after another. All requested keys are occurrences
/// of one request, which gives the row of each; each is a bag.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Askers {
    /// Where each rank's requested keys end. // (ranks)
    pub(crate) ends: Vec<u32>,
    /// How often each key occurs at its requester; empty if not needed. // (requested)
    pub(crate) counts: Vec<u32>,
    /// How each row is lent; empty if none is. // (rows)
    pub(crate) loans: Vec<Loan>,
    /// Whether each row was sent before its step; empty if no row was. // (rows)
    pub(crate) early: Vec<bool>,
}

impl Askers {
    /// Range of the keys that rank `rank` requested among all requested.
    pub(crate) fn range(&self, rank: usize) -> std::ops::Range<usize> {
        let start = if rank == 0 { 0 } else { self.ends[rank - 1] };
        start as usize..self.ends[rank] as usize
    }

    /// How row `row` is lent.
    #[inline]
    pub(crate) fn loan(&self, row: usize) -> Loan {
        self.loans.get(row).copied().unwrap_or_default()
    }

    /// Whether row `row` was sent before its step.
    #[inline]
    pub(crate) fn is_early(&self, row: usize) -> bool {
        self.early.get(row).copied().unwrap_or_default()
    }

    /// Clears the lists and keeps their memory.
    pub(crate) fn clear(&mut self) {
        self.ends.clear();
        self.counts.clear();
        self.loans.clear();
        self.early.clear();
    }
}
