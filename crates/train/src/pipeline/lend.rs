//! Lends rows that a rank owns, once it knows all ranks' requests for a whole batch.

use stepwell_engine::{Lender, Purpose, TableSpec};

use crate::batch::MiniBatch;
use crate::exchange::Exchange;
use crate::models::Model;
use crate::run_plan::RunPlan;

/// Decides which rows are lent, batch by batch.
pub(super) struct Lending {
    tables: Vec<TableSpec>,
    /// `None` if nothing is lent.
    lender: Option<Lender>,
    /// The last step that tables allow: the run ends there, even within a batch.
    last_step: u64,
}

impl Lending {
    /// The lending of rank `rank`.
    pub(super) fn of(plan: &RunPlan<'_>, model: &Model, rank: usize) -> Self {
        let tables = model.tables().to_vec();
        let last_step = tables.iter().map(TableSpec::steps_max).min().unwrap_or(u64::MAX);
        let room = Exchange::lent_to_each(plan, model);
        Self { tables, lender: room.map(|room| Lender::new(rank, room)), last_step }
    }

    /// The tables of the model.
    pub(super) fn tables(&self) -> &[TableSpec] {
        &self.tables
    }

    /// Lends rows for `batch`, which is the same on all ranks, until its end.
    pub(super) fn lend(&mut self, batch: &mut [MiniBatch]) {
        let Some(last) = batch.last() else { return };
        let trains = last.purpose == Purpose::Train;
        let Some(lender) = &mut self.lender else { return };
        if !trains || last.cargo.after.step >= self.last_step {
            return;
        }
        let mut parts: Vec<_> = batch.iter_mut().map(|mini| &mut mini.parts[..]).collect();
        lender.lend(&self.tables, &mut parts);
        let others = batch.len() - 1;
        batch[..others].iter_mut().for_each(|mini| mini.cargo.shared.lends_on = true);
    }
}
