//! Makes rows leave devices so that their host slots can be reused.

use std::collections::VecDeque;

use super::{PlanStage, batches};
use crate::device_tier::moves::AboveMoves;
use crate::mini_batch::MiniBatch;

impl<C, M> PlanStage<C, M> {
    /// Makes all rows leave their devices, so that rows on the host can be evicted, too. Nothing is
    /// in flight.
    pub(super) fn shed(&mut self, batch: &VecDeque<MiniBatch<C>>, moves: &mut AboveMoves) {
        let Some(above) = &mut self.above else { return };
        let waiting = batches(&self.waiting);
        let minis = batch.iter().chain(waiting.iter().copied().flatten());
        for (number, (planner, group)) in self.planners.iter_mut().zip(&self.groups).enumerate() {
            above.shed(number, group, planner, moves, minis.clone());
        }
    }
}
