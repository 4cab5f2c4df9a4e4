//! A learner computes a rank's part of mini-batches while the rank answers others, out of step.

use std::sync::Arc;

use rayon::ThreadPool;
use stepwell_fabric::Message;

use super::block_results::in_pieces;
use super::own_blocks::{Arrived, DenseSums, OwnBlocks};
use super::trained::TrainedModel;
use crate::Result;
use crate::batch::MiniBatch;
use crate::ranks::{Late, Ranks};
use crate::run_plan::RunPlan;

/// A mini-batch to compute.
pub(crate) struct Job {
    /// The mini-batch, without other ranks' requests.
    pub(super) mini: MiniBatch,
    /// Messages with the rows of `mini`, by owner.
    pub(super) answers: Vec<Message>,
    /// The dense parameters.
    pub(super) parameters: Vec<f32>,
    /// Memory for the gradient of the parameters.
    pub(super) gradient: Vec<f32>,
}

/// The result of a job.
pub(crate) struct Learned {
    pub(super) mini: MiniBatch,
    /// The message to each rank.
    pub(super) results: Vec<Message>,
    pub(super) parameters: Vec<f32>,
    /// Dense gradient of the mean over all examples of the mini-batch.
    pub(super) gradient: Vec<f32>,
}

/// A model with its own dense parameters and buffers.
pub(crate) struct Learner {
    model: TrainedModel,
    own: OwnBlocks,
}

impl Learner {
    /// Creates a learner beside `model`, which computes on `pool`.
    ///
    /// # Errors
    /// If the system lacks memory for the learner.
    pub(crate) fn new(
        plan: &RunPlan<'_>,
        model: &TrainedModel,
        ranks: &Ranks,
        delay: Option<Late>,
        pool: Arc<ThreadPool>,
    ) -> Result<Self> {
        let own = OwnBlocks::new(plan, model, ranks, delay, DenseSums::ByProtocol)?;
        let mut model = model.beside(plan, pool)?;
        model.share(ranks.fabric.size() - plan.ranks.servers);
        Ok(Self { model, own })
    }

    /// Threads that the learner computes on.
    pub(crate) fn pool(&self) -> &Arc<ThreadPool> {
        &self.model.pool
    }

    /// Computes this rank's part of a mini-batch with the owners' answers and the given dense
    /// parameters.
    ///
    /// # Errors
    /// Names the rank whose answer is invalid.
    pub(crate) fn learn(&mut self, job: Job) -> Result<Learned> {
        let Job { mut mini, answers, parameters, mut gradient } = job;
        let Self { model, own } = self;
        // The number of earlier steps, which determines a layer's dropped lanes.
        model.dense.set_parameters(&parameters, mini.cargo.after.step - 1)?;
        let pool = Arc::clone(&model.pool);
        let arrived = Arrived { answers, ..Arrived::default() };
        let results = pool.install(|| own.compute(model, &mut mini, arrived))?;
        gradient.resize(parameters.len(), 0.0);
        let blocks = mini.cargo.blocks;
        if blocks.count() > 0 {
            let gradients = model.dense.gradients()?;
            in_pieces(&pool, &mut gradient, |lanes, sum| {
                gradients.sum((blocks, 0..blocks.count()), lanes, sum);
            });
        }
        Ok(Learned { mini, results, parameters, gradient })
    }
}
