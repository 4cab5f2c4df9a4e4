//! Steps: look up, forward, backward, sum, update; alone, in step with other ranks, or out of step.
//!
//! ```text
//!  by block, any thread   rows ─► x ─► forward ─► loss ─► backward ─► d_x, gradients of the block
//!  by row, any thread     d_x over a row's bags ─► row optimizer, in the slot
//!  by lane, any thread    gradients over blocks ─► dense optimizer
//! ```
//!
//! The three lines run one after the other; within a line, threads divide whole blocks, rows or
//! lanes, so the bits do not depend on the number of threads (invariant I2). The engine does the
//! work on rows ([`EmbeddingBags`](stepwell_engine::EmbeddingBags)).

mod alone;
mod block_results;
mod bytes;
mod early;
mod in_step;
mod incoming;
mod learner;
mod out_of_step;
mod own_blocks;
mod pool;
mod trained;

use std::sync::Arc;

use rayon::ThreadPool;
use stepwell_base::stage::Progress;
use stepwell_engine::{Group, Unit};
use stepwell_fabric::Fabric;
use stepwell_nn::LossSums;

pub(crate) use self::alone::Alone;
pub(crate) use self::in_step::InStep;
pub(crate) use self::incoming::Incoming;
pub(crate) use self::learner::{Job, Learned, Learner};
pub(crate) use self::out_of_step::{Agreement, OutOfStep};
pub(crate) use self::pool::compute_pool;
pub(crate) use self::trained::{Falls, TrainedModel};
use crate::Result;
use crate::batch::{Examples, MiniBatch};
use crate::metrics::Scored;
use crate::models::Model;
use crate::report::OutOfStepReport;

/// How mini-batches are scored and trained: alone, in step with other ranks, or out of step.
pub(crate) trait Stepping: Send {
    /// The model.
    fn model(&self) -> &TrainedModel;

    /// The model, to be changed between steps.
    fn model_mut(&mut self) -> &mut TrainedModel;

    /// Whether something is under way that must be completed with other ranks before anything else.
    fn is_underway(&self) -> bool {
        false
    }

    /// Advances the unit at hand without waiting.
    ///
    /// # Errors
    /// If the model diverges, a device fails, or another rank is gone or sends an invalid message.
    fn poll(&mut self, around: Around<'_>) -> Result<Progress>;

    /// Ends all steps, and closes the queues to stage `learn`, so that it ends, too.
    fn finish(self: Box<Self>) -> FinishedSteps;
}

/// Input, rows and receiver of results of a step.
pub(crate) struct Around<'a> {
    pub(crate) incoming: &'a mut Incoming,
    pub(crate) groups: &'a [Arc<Group>],
    pub(crate) results: &'a mut dyn Results,
}

/// Receives the results of steps.
pub(crate) trait Results {
    /// Receives the scores of `mini`, which was trained if that was its purpose. `truth` has true
    /// click probabilities, as in [`Examples::truth`].
    ///
    /// # Errors
    /// If the model diverged.
    fn scored(
        &mut self,
        mini: &MiniBatch,
        sums: LossSums,
        scored: Scored<'_>,
        truth: &[f32],
    ) -> Result<()>;

    /// Receives a unit whose mini-batches are done.
    fn over(&mut self, unit: Unit<Examples>);

    /// Ends the run after this mini-batch, because some rank was asked to.
    fn end(&mut self);
}

/// The model and the counts of all steps, after the last one.
pub(crate) struct FinishedSteps {
    pub(crate) model: TrainedModel,
    /// All threads that computed.
    pub(crate) pools: Vec<Arc<ThreadPool>>,
    /// Number of rows that other ranks lent to this one.
    pub(crate) rows_borrowed: u64,
    /// Number of rows sent to other ranks before their step.
    pub(crate) rows_early: u64,
    /// Staleness and gradients, if ranks were out of step.
    pub(crate) apart: Option<OutOfStepReport>,
}

impl FinishedSteps {
    /// Seconds of processor time of all threads.
    pub(crate) fn compute_seconds(&self) -> f64 {
        let profile = self.model.profile();
        self.pools.iter().flat_map(|pool| pool.broadcast(|_| profile.now())).sum()
    }
}

/// A model in one of the three ways to take steps, before the pipeline is built.
pub(crate) enum Mode {
    Alone(Box<Alone>),
    InStep(Box<InStep>),
    /// The owner of rows, and the learner beside it.
    OutOfStep(Box<InStep>, Box<Learner>),
}

impl Mode {
    /// The model.
    pub(crate) fn model(&self) -> &Model {
        match self {
            Self::Alone(alone) => alone.model(),
            Self::InStep(steps) | Self::OutOfStep(steps, _) => steps.model(),
        }
        .model()
    }

    /// The connection to the other ranks, if there are several.
    pub(crate) fn fabric(&self) -> Option<&Fabric> {
        match self {
            Self::Alone(_) => None,
            Self::InStep(steps) | Self::OutOfStep(steps, _) => Some(steps.fabric()),
        }
    }
}
