//! A model in training: its tables, its dense part, and the buffers of a mini-batch.

use std::sync::Arc;

use rayon::ThreadPool;
use stepwell_base::clock::Clock;
use stepwell_base::huge::HugeSlice;
use stepwell_base::owner::RankOf;
use stepwell_device::Device;
use stepwell_engine::{
    Dense, DenseView, EmbeddingBags, Gradients, Group, Laps, Purpose, Shape, Witness, WorkingRows,
};
use stepwell_nn::{LossSums, Objective, Source, losses, tree_sum_values};

use crate::Result;
use crate::batch::{Examples, MiniBatch};
use crate::dense::{DenseExecutor, DeviceDense, HostDense, Input, Outputs, Processor, Work};
use crate::models::{Model, schedule};
use crate::profile::{Kernel, Profile};
use crate::run_plan::RunPlan;

/// A model, with the executor, threads and buffers of its steps.
pub(crate) struct TrainedModel {
    pub(super) model: Arc<Model>,
    /// Tables and their rows.
    pub(super) embeddings: EmbeddingBags,
    pub(super) pool: Arc<ThreadPool>,
    /// Computes the dense part.
    pub(super) dense: Box<dyn DenseExecutor>,
    /// Objective of each label.
    objectives: Vec<Objective>,
    /// What is added to logits in evaluations: the logarithm of the share of negatives that are
    /// trained on.
    shift: f64,
    /// Layers whose outputs evaluations show.
    shown: ShownLayers,
    pub(super) buffers: Buffers,
    pub(super) profile: Arc<Profile>,
}

/// How often learning rates have fallen at plateaus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Falls {
    pub(crate) rows: u64,
    pub(crate) dense: u64,
}

/// Layers and parts of the input that evaluations show.
#[derive(Debug, Default)]
struct ShownLayers {
    sources: Vec<Source>,
    /// Columns of all of them.
    columns: usize,
}

/// Scores and gradients of the last mini-batch.
pub(super) struct Buffers {
    pub(super) logits: Vec<f32>, // (examples, labels)
    /// Gradient of the sums of first-order weights. // (examples)
    d_first_order: Vec<f32>,
    /// The first label of each example, if there are several. // (examples) or (0)
    clicks: Vec<f32>,
    /// Gradient of the pooled embeddings of a mini-batch. It starts at a processor cache line, so
    /// that an embedding of 16 lanes fills one line. // (examples, embedding columns)
    d_x: HugeSlice<f32>,
    /// Outputs of the shown layers. // (examples, columns) or (0)
    shown: Vec<f32>,
}

impl Buffers {
    /// The gradients of `examples`, whose embeddings have `columns` columns.
    pub(super) fn gradients<'a>(&'a self, examples: &'a Examples, columns: usize) -> Gradients<'a> {
        Gradients {
            d_x: &self.d_x[..examples.count * columns],
            d_first_order: &self.d_first_order,
            labels: if self.clicks.is_empty() { &examples.labels } else { &self.clicks },
        }
    }
}

impl TrainedModel {
    /// A model at step 0, computed by `pool` and timed by `clock`.
    ///
    /// # Errors
    /// If an optimizer's settings are invalid.
    pub(crate) fn new(
        model: Model,
        plan: &RunPlan<'_>,
        pool: Arc<ThreadPool>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self> {
        let profile = Arc::new(Profile::new(clock, model.graph()));
        let sketch_bytes = model.sketch_bytes().to_vec();
        Self::with(Arc::new(model), profile, plan, pool, sketch_bytes)
    }

    /// The same model with its own dense parameters and buffers, at step 0, computed by `pool`. It
    /// admits no rows.
    ///
    /// # Errors
    /// If an optimizer's settings are invalid.
    pub(super) fn beside(&self, plan: &RunPlan<'_>, pool: Arc<ThreadPool>) -> Result<Self> {
        let (model, profile) = (Arc::clone(&self.model), Arc::clone(&self.profile));
        Self::with(model, profile, plan, pool, Vec::new())
    }

    /// The model at step 0, measured by `profile`, with the given sketch bytes for each table.
    fn with(
        model: Arc<Model>,
        profile: Arc<Profile>,
        plan: &RunPlan<'_>,
        pool: Arc<ThreadPool>,
        sketch_bytes: Vec<u64>,
    ) -> Result<Self> {
        let dense = Box::new(HostDense::new(&model, plan.batching, plan.dense)?);
        let shape = Shape {
            blocks: plan.batching.blocks,
            staleness: plan.batching.staleness,
            weighs_occurrences: plan.tiers.policy.weighs_occurrences(),
            sketch_bytes,
            schedule: schedule(&plan.config.optim.rows),
        };
        let (tables, columns) = (model.tables().to_vec(), model.embedding().clone());
        let buffers = Buffers {
            logits: Vec::new(),
            d_first_order: Vec::new(),
            clicks: Vec::new(),
            d_x: HugeSlice::rounded_up(plan.batching.mini_batch * model.embedding().count),
            shown: Vec::new(),
        };
        Ok(Self {
            embeddings: EmbeddingBags::new(tables, columns, shape),
            pool,
            dense,
            shift: libm::log(plan.config.data.negative_rate),
            shown: ShownLayers::default(),
            objectives: model.labels().iter().map(|label| label.objective).collect(),
            buffers,
            profile,
            model,
        })
    }

    /// Moves the dense part to `devices`, from its current state.
    ///
    /// # Errors
    /// If a device cannot multiply, or lacks room.
    pub(crate) fn compute_on(&mut self, devices: &[Device], plan: &RunPlan<'_>) -> Result<()> {
        let dense = self.dense.sections()?.to_dense();
        let dense = DeviceDense::new(&self.model, plan, devices, &dense)?;
        self.embeddings.pool_on_devices(dense.pooled_at());
        self.dense = Box::new(dense);
        Ok(())
    }

    /// Moves the dense part back to the processor.
    #[cfg(test)]
    pub(crate) fn compute_here(&mut self, plan: &RunPlan<'_>) -> Result<()> {
        let mut host = HostDense::new(&self.model, plan.batching, plan.dense)?;
        host.load(&self.dense.sections()?.to_dense()).map_err(crate::Error::Config)?;
        self.embeddings.pool_on_devices(Vec::new());
        self.dense = Box::new(host);
        Ok(())
    }

    /// Limits all later passes to the blocks of one of `ranks` ranks. Ranks exchange rows through
    /// the host, even if there is only one rank.
    pub(super) fn share(&mut self, ranks: usize) {
        self.embeddings.pool_on_devices(Vec::new());
        self.dense.share(ranks);
    }

    /// Reports every later row read to `witness`.
    pub(crate) fn watch(&mut self, witness: Arc<dyn Witness>) {
        self.embeddings.watch(witness);
    }

    /// The model in training.
    pub(crate) fn model(&self) -> &Model {
        &self.model
    }

    /// Floating-point operations per example, forwards and backwards.
    pub(crate) fn flops_per_example(&self) -> u64 {
        let flops = self.model.graph().flops_per_example();
        flops.forward + flops.backward
    }

    /// The time spent so far, by part.
    pub(crate) fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Number of trained steps.
    pub(crate) fn steps(&self) -> u64 {
        self.embeddings.steps()
    }

    /// Sets the number of trained steps.
    pub(crate) fn set_steps(&mut self, steps: u64) {
        self.embeddings.set_steps(steps);
    }

    /// Sets how often learning rates have fallen at plateaus, for later steps.
    pub(crate) fn set_falls(&mut self, falls: Falls) {
        self.embeddings.set_falls(falls.rows);
        self.dense.set_falls(falls.dense);
    }

    /// Whether all dense parameters are finite.
    ///
    /// # Errors
    /// If they cannot be read.
    pub(crate) fn is_finite(&self) -> Result<bool> {
        self.dense.is_finite()
    }

    /// Logits of the last mini-batch. // (examples, labels)
    pub(crate) fn scores(&self) -> &[f32] {
        &self.buffers.logits
    }

    /// Outputs of the shown layers for the last mini-batch, if it was evaluated.
    pub(crate) fn shown(&self) -> &[f32] {
        &self.buffers.shown
    }

    /// Shows the layers and parts of the input of these `names` in later evaluations.
    ///
    /// # Errors
    /// A name that the model doesn't have.
    pub(crate) fn show(&mut self, names: &[String]) -> Result<()> {
        self.shown = ShownLayers::default();
        for name in names {
            let source = self.model.source(name)?;
            self.shown.columns += self.model.graph().columns_of(&source);
            self.shown.sources.push(source);
        }
        Ok(())
    }

    /// Scores all examples of `mini`; also trains its rows and the dense part if its purpose is
    /// training.
    pub(crate) fn run(&mut self, mini: &mut MiniBatch, groups: &[Arc<Group>]) -> Result<LossSums> {
        let MiniBatch { number, purpose, parts, cargo } = mini;
        let trains = *purpose == Purpose::Train;
        let mut rows = self.embeddings.hold(*number, parts, groups, trains)?;
        let sums = self.run_blocks(cargo, &rows, trains)?;
        if trains {
            self.update(cargo, &mut rows)?;
        }
        Ok(summed(&sums))
    }

    /// The forward pass of the blocks of `examples`, and the backward pass if they are trained;
    /// returns sums over each block.
    pub(super) fn run_blocks(
        &mut self,
        examples: &Examples,
        rows: &WorkingRows<'_>,
        trains: bool,
    ) -> Result<Vec<LossSums>> {
        let (labels, embedding) = (self.objectives.len(), self.model.embedding().count);
        let shown = if trains { 0 } else { self.shown.columns };
        let buffers = &mut self.buffers;
        buffers.shown.resize(examples.count * shown, 0.0);
        buffers.logits.resize(examples.count * labels, 0.0);
        buffers.d_first_order.resize(examples.count, 0.0);
        let columns = self.model.columns();
        let work = Work {
            model: &self.model,
            input: Input { examples, embeddings: &self.embeddings, rows, columns },
            examples,
            objectives: &self.objectives,
            blocks: examples.blocks,
            trains,
            shown: if trains { &[] } else { &self.shown.sources },
            on: Processor { pool: &self.pool, profile: &self.profile },
        };
        let outputs = Outputs {
            logits: &mut buffers.logits,
            d_first_order: &mut buffers.d_first_order,
            d_x: &mut buffers.d_x[..examples.count * embedding],
            shown: &mut buffers.shown,
        };
        self.dense.begin(&work)?;
        self.embeddings.update_early(rows)?;
        let mut sums = self.dense.pass(&work, outputs)?;
        if !trains && self.shift != 0.0 {
            self.shift_logits(examples, &mut sums);
        }
        let buffers = &mut self.buffers;
        buffers.clicks.clear();
        if trains && labels > 1 {
            buffers.clicks.extend(examples.labels.iter().step_by(labels));
        }
        Ok(sums)
    }

    /// Corrects the logits of evaluated `examples` for the negatives that are not trained on, and
    /// computes the `sums` of their blocks anew.
    ///
    /// If a share w of the negatives is trained on, a model learns q with the odds p / (1 - p) / w,
    /// so p = q / (q + (1 - q) / w): the logit of p is that of q plus ln w.
    fn shift_logits(&mut self, examples: &Examples, sums: &mut [LossSums]) {
        let (shift, labels, blocks) = (self.shift, self.objectives.len(), examples.blocks);
        let logits = &mut self.buffers.logits;
        logits.iter_mut().for_each(|logit| *logit = (f64::from(*logit) + shift) as f32);
        let mut d_logits = Vec::new();
        for (number, sums) in sums.iter_mut().enumerate() {
            let range = blocks.range(number);
            let logits = &logits[range.start * labels..range.end * labels];
            d_logits.resize(logits.len(), 0.0);
            let targets = examples.targets(&self.objectives, range);
            *sums = losses(logits, targets, blocks.examples_of_all(), &mut d_logits);
        }
    }

    /// Updates rows and dense parameters; neither reads the other, so threads mix both.
    fn update(&mut self, examples: &Examples, rows: &mut WorkingRows<'_>) -> Result<()> {
        let Self { embeddings, dense, buffers, pool, profile, .. } = self;
        let of_rows = buffers.gradients(examples, embeddings.columns().count);
        let steps = embeddings.steps();
        let on = Processor { pool, profile };
        if rows.are_pooled() {
            // Devices have the rows' gradients; the rest is too little to wake other threads for.
            embeddings.apply(rows, of_rows, &RowLaps(profile))?;
            return dense.step(steps, None, on);
        }
        let rows = || embeddings.apply(rows, of_rows, &RowLaps(profile));
        let dense = || dense.step(steps, None, on);
        let (outcome, stepped) = pool.install(|| rayon::join(rows, dense));
        outcome?;
        stepped
    }

    /// A copy of the state, besides rows and dense part, that a resumed run needs from rank `place`
    /// of several.
    pub(crate) fn past(&self, place: RankOf) -> Dense {
        let mut past = Dense::default();
        self.embeddings.save(&mut past, place);
        past
    }

    /// The dense part in the form of digests, without a copy if it is in memory.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(crate) fn dense(&self) -> Result<DenseView<'_>> {
        self.dense.sections()
    }

    /// Loads a dense part from a checkpoint, as rank `place` of several.
    ///
    /// # Errors
    /// Describes what does not fit this model.
    pub(crate) fn load(&mut self, dense: &Dense, place: RankOf) -> std::result::Result<(), String> {
        let step = self.dense.load(dense)?;
        self.embeddings.load(dense, step, place)
    }
}

/// Adds up the sums of blocks in the fixed tree order.
pub(super) fn summed(of_blocks: &[LossSums]) -> LossSums {
    let sum =
        |of: fn(&LossSums) -> f64| tree_sum_values(&of_blocks.iter().map(of).collect::<Vec<f64>>());
    LossSums {
        loss: sum(|sums| sums.loss),
        prediction: sum(|sums| sums.prediction),
        weight: sum(|sums| sums.weight),
    }
}

/// Times the parts of row updates.
pub(super) struct RowLaps<'a>(pub(super) &'a Profile);

impl Laps for RowLaps<'_> {
    fn now(&self) -> f64 {
        self.0.now()
    }

    fn over(&self, begin: f64, bytes: u64) {
        self.0.over(Kernel::Rows, begin, bytes);
    }
}
