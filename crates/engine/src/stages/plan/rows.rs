//! Operations of planners on the rows of mini-batches, for devices and the host concurrently.

use std::collections::VecDeque;

use stepwell_base::Key;

use super::{PlanStage, Waiting, batches};
use crate::Result;
use crate::device_tier::moves::AboveMoves;
use crate::mini_batch::{Cargo, MiniBatch};
use crate::planner::Planner;
use crate::stages::items::Unit;
use crate::unit::GroupUnit;

impl<C: Cargo, M: Send> PlanStage<C, M> {
    /// Learns the keys of `batch`.
    pub(super) fn learn_batch(&mut self, mut batch: VecDeque<MiniBatch<C>>) {
        let Self { planners, groups, above, waiting, .. } = self;
        let before = batches(waiting);
        let mut host = |batch: &VecDeque<MiniBatch<C>>| {
            for (planner, group) in planners.iter_mut().zip(&*groups) {
                let keys = batch.iter().flat_map(|mini| mini.keys_of(group));
                if planner.begins_anew(keys.map(<[Key]>::len).sum()) {
                    let minis = before.iter().copied().flatten();
                    minis.for_each(|mini| planner.learn(mini.number, mini.keys_of(group)));
                }
                batch.iter().for_each(|mini| planner.learn(mini.number, mini.keys_of(group)));
            }
        };
        match above {
            Some(above) => above.learn(groups, &mut batch, &before, host),
            None => host(&batch),
        }
        self.waiting.push_back(Waiting::Batch(batch));
    }

    /// Pins the rows of `mini`, which fits, and adds the required moves.
    pub(super) fn plan_mini(
        &mut self,
        mini: &mut MiniBatch<C>,
        moves: &mut [GroupUnit],
        moves_above: &mut AboveMoves,
    ) -> Result<()> {
        let Self { planners, groups, above, .. } = self;
        self.spares.lend(mini);
        let host = |planners: &mut [Planner], mini: &mut MiniBatch<C>| {
            for ((planner, group), moves) in planners.iter_mut().zip(&*groups).zip(moves) {
                planner.plan(mini.number, &mut mini.asked_of(group), moves)?;
            }
            Ok(())
        };
        match above {
            Some(above) => above.plan(groups, planners, mini, moves_above, host),
            None => host(planners, mini),
        }
    }

    /// Unpins the rows of a finished unit.
    pub(super) fn retire_unit(&mut self, unit: Unit<C>) {
        if unit.trained {
            self.due.trained();
        }
        let Self { planners, groups, above, .. } = self;
        let mut host = || {
            for (number, (planner, group)) in planners.iter_mut().zip(&*groups).enumerate() {
                if let Some(moves) = unit.moves.get(number) {
                    planner.pulled(&moves.fills);
                }
                for mini in &unit.minis {
                    for table in group.members() {
                        let rows = &mini.parts[*table].rows;
                        planner.retire(&rows.slots, &rows.occurrences);
                    }
                }
            }
        };
        match above {
            Some(above) => above.retire(groups, &unit.minis, host),
            None => host(),
        }
        unit.minis.into_iter().for_each(|mini| self.spares.keep(mini));
    }
}
