//! Rows on devices give way to others on the host.

use std::collections::VecDeque;

use super::{MiniBatch, PlanStage, batches};
use crate::device::AboveMoves;

impl<C, M> PlanStage<C, M> {
    /// Lets all rows leave their devices, so that those on the host may leave, too: nothing is in
    /// flight.
    pub(super) fn shed(&mut self, batch: &VecDeque<MiniBatch<C>>, moves: &mut AboveMoves) {
        let Some(above) = &mut self.above else { return };
        let waiting = batches(&self.waiting);
        let minis = batch.iter().chain(waiting.iter().copied().flatten());
        for (number, (planner, group)) in self.planners.iter_mut().zip(&self.groups).enumerate() {
            above.shed((number, group), planner, moves, minis.clone());
        }
    }
}
