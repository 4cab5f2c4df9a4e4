//! Steps of a single rank that shares nothing.

use std::sync::Arc;

use stepwell_base::stage::Progress;

use super::trained::TrainedModel;
use super::{Around, FinishedSteps, Stepping};
use crate::Result;
use crate::batch::Examples;
use crate::metrics::Scored;

/// A model that a single rank trains.
pub(crate) struct Alone(pub(crate) TrainedModel);

impl Stepping for Alone {
    fn model(&self) -> &TrainedModel {
        &self.0
    }

    fn model_mut(&mut self) -> &mut TrainedModel {
        &mut self.0
    }

    fn poll(&mut self, around: Around<'_>) -> Result<Progress> {
        let Around { incoming, groups, results } = around;
        let Some((mini, _)) = incoming.mini(false) else {
            unreachable!("a step needs a mini-batch at hand")
        };
        let sums = self.0.run(mini, groups)?;
        let Examples { labels, weights, truth, .. } = &mini.cargo;
        let (logits, layers) = (self.0.scores(), self.0.shown());
        results.scored(mini, sums, Scored { logits, labels, weights, layers }, truth)?;
        if let Some(unit) = incoming.end_mini() {
            results.over(unit);
        }
        Ok(Progress::Progressed)
    }

    fn finish(self: Box<Self>) -> FinishedSteps {
        let pools = vec![Arc::clone(&self.0.pool)];
        FinishedSteps { model: self.0, pools, rows_borrowed: 0, rows_early: 0, apart: None }
    }
}
