//! One training step: look up, forward, backward, sum, update.
//!
//! ```text
//!  by block, any thread   rows ─► x ─► forward ─► loss ─► backward ─► d_x, gradients of the block
//!  by row, any thread     d_x over a row's bags ─► row optimizer, in the slot
//!  by lane, any thread    gradients over blocks ─► dense optimizer
//! ```
//!
//! The three lines run one after the other; within a line, threads divide whole blocks, rows or
//! lanes, so the bits do not depend on the number of threads (invariant I2). The engine does the
//! work on rows ([`EmbeddingBags`]).

mod apart;
mod early;
mod incoming;
mod pool;
mod said;
mod shared;

use std::sync::Arc;

use rayon::ThreadPool;
use stepwell_base::clock::Clock;
use stepwell_base::huge::HugeSlice;
use stepwell_base::owner::RankOf;
use stepwell_base::stop::StopRequest;
use stepwell_device::{Choice, Device};
use stepwell_engine::{
    Blocks, Borrowed, Cargo as _, Dense, DenseView, EmbeddingBags, Gradients, Group, Guests, Laps,
    PoolShape, Purpose, Shape, Witness, WorkingRows,
};
use stepwell_fabric::Fabric;
use stepwell_nn::{Loss, LossSums, tree_sum_values};

pub(crate) use self::incoming::Incoming;
pub(crate) use self::pool::compute_pool;
pub(crate) use self::shared::Moved;
use self::shared::Sharing;
use crate::batch::{Examples, MiniBatch};
use crate::dense::{DenseExecutor, DeviceDense, HostDense, Input, LANES, Outputs, Processor, Work};
use crate::models::Model;
use crate::profile::{Kernel, Profile};
use crate::{Error, Result};
use stepwell_settings::{Config, DensePlace};

/// Adds up the sums of blocks in the fixed tree order.
fn summed(of_blocks: &[LossSums]) -> LossSums {
    let sum =
        |of: fn(&LossSums) -> f64| tree_sum_values(&of_blocks.iter().map(of).collect::<Vec<f64>>());
    LossSums {
        loss: sum(|sums| sums.loss),
        prediction: sum(|sums| sums.prediction),
        weight: sum(|sums| sums.weight),
    }
}

/// A model and everything that trains it.
pub(crate) struct Trainer {
    model: Arc<Model>,
    /// Tables and their rows.
    embeddings: EmbeddingBags,
    pool: Arc<ThreadPool>,
    /// Threads of a learner, if ranks are out of step.
    learns: Option<Arc<ThreadPool>>,
    /// Computes the dense part.
    dense: Box<dyn DenseExecutor>,
    logits: Vec<f32>,
    /// Gradient of the sums of first-order weights. // (examples)
    d_first_order: Vec<f32>,
    /// The first label of each example, if there are several. // (examples) or (0)
    clicks: Vec<f32>,
    /// Loss of each label.
    losses: Vec<Loss>,
    /// Gradient of the pooled embeddings of a mini-batch. It starts at a processor cache line, so
    /// that an embedding of 16 lanes fills one line. // (examples, embedding columns)
    d_x: HugeSlice<f32>,
    profile: Arc<Profile>,
    /// State of shared steps, if there are several ranks.
    sharing: Option<Sharing>,
}

impl Trainer {
    /// A model at step 0, computed by `pool` and timed by `clock`.
    ///
    /// # Errors
    /// If an optimizer's settings are invalid.
    pub(crate) fn new(
        model: Model,
        config: &Config,
        pool: Arc<ThreadPool>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self> {
        let profile = Arc::new(Profile::new(clock, model.graph()));
        let sketch_bytes = model.sketch_bytes().to_vec();
        Self::of((Arc::new(model), profile), config, pool, sketch_bytes)
    }

    /// A trainer of `model` at step 0, measured by `profile`, with the given sketch bytes for each
    /// table.
    fn of(
        (model, profile): (Arc<Model>, Arc<Profile>),
        config: &Config,
        pool: Arc<ThreadPool>,
        sketch_bytes: Vec<u64>,
    ) -> Result<Self> {
        let dense = Box::new(HostDense::new(&model, config)?);
        let shape = Shape {
            blocks: config.train.blocks,
            staleness: config.pipeline.staleness,
            weighs_occurrences: config.tiers.policy.weighs_occurrences(),
            sketch_bytes,
        };
        let (tables, columns) = (model.tables().to_vec(), model.embedding().clone());
        Ok(Self {
            embeddings: EmbeddingBags::new(tables, columns, shape),
            pool,
            learns: None,
            dense,
            logits: Vec::new(),
            d_first_order: Vec::new(),
            clicks: Vec::new(),
            losses: model.labels().iter().map(|label| label.loss).collect(),
            d_x: HugeSlice::rounded_up(config.data.mini_batch * model.embedding().count),
            profile,
            sharing: None,
            model,
        })
    }

    /// Moves the dense part to `devices`, as `config` says, from its current state. Must precede
    /// sharing steps.
    ///
    /// # Errors
    /// If a device cannot multiply, or lacks room.
    pub(crate) fn compute_on(&mut self, devices: &[Device], config: &Config) -> Result<()> {
        assert!(self.sharing.is_none(), "the dense part moves to devices before steps are shared");
        let dense = self.dense.sections()?.to_dense();
        let dense = DeviceDense::new(&self.model, config, devices, &dense)?;
        self.embeddings.pool_on_devices(dense.pooled_at());
        self.dense = Box::new(dense);
        Ok(())
    }

    /// Moves the dense part back to the processor.
    #[cfg(test)]
    pub(crate) fn compute_here(&mut self, config: &Config) -> Result<()> {
        let mut host = HostDense::new(&self.model, config)?;
        host.load(&self.dense.sections()?.to_dense()).map_err(Error::Config)?;
        self.embeddings.pool_on_devices(Vec::new());
        self.dense = Box::new(host);
        Ok(())
    }

    /// The most bytes that the dense part uses on each of `devices` devices, and of pinned host
    /// memory for each.
    pub(crate) fn device_bytes_max(model: &Model, config: &Config, devices: usize) -> (u64, u64) {
        DeviceDense::bytes_max(model, config, devices)
    }

    /// How rows of `model` may be pooled on `devices` devices.
    pub(crate) fn pool_shape<'a>(
        model: &'a Model,
        config: &Config,
        devices: usize,
    ) -> Option<PoolShape<'a>> {
        let is_there = config.train.dense == DensePlace::Device;
        is_there.then(|| DeviceDense::pool_shape(model, config, devices)).flatten()
    }

    /// Shares steps with the other ranks of `fabric`; `rows` bounds the rows of each table in a
    /// local mini-batch, `borrowed` those that may be borrowed, if any. A request to `stop` goes to
    /// all ranks.
    ///
    /// # Errors
    /// If the system lacks memory for them.
    pub(crate) fn share(
        &mut self,
        (fabric, config): (Fabric, &Config),
        (rows, borrowed): (&[usize], Option<&[usize]>),
        stop: StopRequest,
    ) -> Result<()> {
        let no_memory = Error::no_memory_of_ranks;
        let tables = self.embeddings.tables();
        let guests = Guests::new(tables, rows).map_err(no_memory)?;
        let borrowed = borrowed.map(|rows| Borrowed::new(tables, rows));
        let borrowed = borrowed.transpose().map_err(no_memory)?;
        if borrowed.is_some() {
            self.embeddings.lend();
        }
        // Ranks exchange rows through the host, even if there is only one rank.
        self.embeddings.pool_on_devices(Vec::new());
        self.dense.share(fabric.size() - config.servers());
        self.sharing = Some(Sharing::new(fabric, (guests, borrowed), stop));
        Ok(())
    }

    /// Whether ranks share its steps.
    pub(crate) fn is_shared(&self) -> bool {
        self.sharing.is_some()
    }

    /// The most bytes of a trainer.
    pub(crate) fn bytes_max(model: &Model, config: &Config) -> u64 {
        let (mini_batch, blocks) = (config.data.mini_batch, config.train.blocks);
        let rows = Blocks::new(mini_batch, blocks).largest();
        let own_blocks = blocks.div_ceil(config.ranks.count - config.servers());
        let (lanes, own) = (size_of::<f32>(), HugeSlice::<f32>::bytes_rounded_up);
        let count = model.graph().parameter_count();
        if config.train.dense == DensePlace::Device {
            // Two copies of the dense part, for checkpoints; rows are updated here.
            let update = EmbeddingBags::workspace_bytes_max(model.tables(), blocks);
            let examples = Self::example_bytes(model, mini_batch);
            // Emulated devices multiply here, each one product at a time.
            let devices = if let Choice::Emulated(count) = config.device { count } else { 0 };
            let products = devices * model.graph().packing_bytes(rows);
            return (6 * count * lanes + config.threads * update + products + examples) as u64;
        }
        let constants = model.graph().packed_bytes() + model.graph().constant_bytes();
        let parameters = 3 * count * lanes + own_blocks * own(count) + constants;
        let workspace = model.graph().plan().workspace_bytes(rows, lanes);
        let pass = own(rows * model.columns()) + rows * lanes + workspace;
        let update = LANES * lanes + EmbeddingBags::workspace_bytes_max(model.tables(), blocks);
        let threads = config.threads * (pass + update + model.graph().packing_bytes(rows));
        (parameters + threads + Self::example_bytes(model, mini_batch)) as u64
    }

    /// Bytes of logits, their gradients, the first-order gradient, the first of several labels, and
    /// the gradient of the pooled embeddings.
    fn example_bytes(model: &Model, mini_batch: usize) -> usize {
        let labels = model.labels().len();
        let of_example = 2 * labels + 1 + usize::from(labels > 1);
        let d_x = HugeSlice::<f32>::bytes_rounded_up(mini_batch * model.embedding().count);
        of_example * mini_batch * size_of::<f32>() + d_x
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

    /// Seconds of processor time of its threads, including its learner's.
    pub(crate) fn compute_seconds(&self) -> f64 {
        let pools = self.learns.iter().chain([&self.pool]);
        pools.flat_map(|pool| pool.broadcast(|_| self.profile.now())).sum()
    }

    /// Number of trained steps.
    pub(crate) fn steps(&self) -> u64 {
        self.embeddings.steps()
    }

    /// Sets the number of trained steps.
    pub(crate) fn set_steps(&mut self, steps: u64) {
        self.embeddings.set_steps(steps);
    }

    /// Whether all dense parameters are finite.
    ///
    /// # Errors
    /// If they cannot be read.
    pub(crate) fn is_finite(&self) -> Result<bool> {
        self.dense.is_finite()
    }

    /// Logits of the last mini-batch. // (examples)
    pub(crate) fn scores(&self) -> &[f32] {
        &self.logits
    }

    /// Scores `mini`; also trains its rows and the dense part if its purpose is training.
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

    /// The forward pass of the blocks of `examples`, and the backward pass if they are trained; returns sums over
    /// each.
    fn run_blocks(
        &mut self,
        examples: &Examples,
        rows: &WorkingRows<'_>,
        train: bool,
    ) -> Result<Vec<LossSums>> {
        let (labels, embedding) = (self.losses.len(), self.model.embedding().count);
        self.logits.resize(examples.count * labels, 0.0);
        self.d_first_order.resize(examples.count, 0.0);
        let columns = self.model.columns();
        let work = Work {
            model: &self.model,
            input: Input { examples, embeddings: &self.embeddings, rows, columns },
            examples,
            losses: &self.losses,
            blocks: examples.blocks,
            trains: train,
            on: Processor { pool: &self.pool, profile: &self.profile },
        };
        let outputs = Outputs {
            logits: &mut self.logits,
            d_first_order: &mut self.d_first_order,
            d_x: &mut self.d_x[..examples.count * embedding],
        };
        self.dense.begin(&work)?;
        self.embeddings.update_early(rows)?;
        let sums = self.dense.pass(&work, outputs)?;
        self.clicks.clear();
        if train && labels > 1 {
            self.clicks.extend(examples.labels.iter().step_by(labels));
        }
        Ok(sums)
    }

    /// Updates rows and dense parameters; neither reads the other, so threads mix both.
    fn update(&mut self, examples: &Examples, rows: &mut WorkingRows<'_>) -> Result<()> {
        let Self { embeddings, dense, d_x, d_first_order, pool, profile, .. } = self;
        let labels = if self.clicks.is_empty() { &examples.labels } else { &self.clicks };
        let columns = examples.examples() * embeddings.columns().count;
        let of_rows = Gradients { d_x: &d_x[..columns], d_first_order, labels };
        let on = Processor { pool, profile };
        if rows.are_pooled() {
            // Devices have the rows' gradients; the rest is too little to wake other threads for.
            embeddings.apply(rows, of_rows, &RowLaps(profile))?;
            return dense.step(None, on);
        }
        let rows = || embeddings.apply(rows, of_rows, &RowLaps(profile));
        let dense = || dense.step(None, on);
        let (outcome, stepped) = pool.install(|| rayon::join(rows, dense));
        outcome?;
        stepped
    }

    /// A copy of the state, besides rows and dense part, that a resumed run needs from this rank.
    pub(crate) fn past(&self) -> Dense {
        let mut past = Dense::default();
        self.embeddings.save(&mut past, self.place());
        past
    }

    /// This rank.
    pub(crate) fn place(&self) -> RankOf {
        let fabric = self.sharing.as_ref().map(|sharing| &sharing.fabric);
        fabric.map_or(RankOf::ALONE, |fabric| RankOf { rank: fabric.rank(), ranks: fabric.size() })
    }

    /// The dense part in the form of digests, without a copy if it is in memory.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(crate) fn dense(&self) -> Result<DenseView<'_>> {
        self.dense.sections()
    }

    /// Loads a dense part from a checkpoint.
    ///
    /// # Errors
    /// Describes what does not fit this model.
    pub(crate) fn load(&mut self, dense: &Dense) -> std::result::Result<(), String> {
        let step = self.dense.load(dense)?;
        self.embeddings.load(dense, step, self.place())
    }
}

/// Times the parts of row updates.
struct RowLaps<'a>(&'a Profile);

impl Laps for RowLaps<'_> {
    fn now(&self) -> f64 {
        self.0.now()
    }

    fn over(&self, begin: f64, bytes: u64) {
        self.0.over(Kernel::Rows, begin, bytes);
    }
}
