//! One training step: look up, forward, backward, sum, update.
//!
//! ```text
//!  by block, any thread   rows ─► x ─► forward ─► loss ─► backward ─► d_x, gradients of the block
//!  by row, any thread     d_x over a row's bags ─► row optimizer, in the slot
//!  by lane, any thread    gradients over blocks ─► dense optimizer
//! ```
//!
//! The three lines follow one another; within a line threads share out whole blocks, rows or
//! lanes, so the bits do not depend on their number (invariant I2). What concerns rows is the
//! engine's ([`EmbeddingBags`]).

mod dense;
mod early;
mod parameters;
mod pass;
mod pool;
mod said;
mod shared;

use std::borrow::Cow;
use std::sync::Arc;

use rayon::ThreadPool;
use rayon::prelude::*;
use stepwell_base::clock::Clock;
use stepwell_base::huge::HugeSlice;
use stepwell_base::stop::StopRequest;
use stepwell_engine::{
    Blocks, Borrowed, Cargo as _, Dense, DenseView, EmbeddingBags, Gradients, Group, Guests, Laps,
    Purpose, Shape, Witness, WorkingRows, Workspaces,
};
use stepwell_fabric::Fabric;
use stepwell_nn::{Loss, LossSums, tree_sum_values};
use stepwell_optim::{DenseOptimizer, DenseState};

use self::dense::{DenseUpdate, LANES, Summed};
use self::parameters::Parameters;
use self::pass::{BlockPass, Workspace, cut};
pub(crate) use self::pool::compute_pool;
pub(crate) use self::shared::Moved;
use self::shared::Sharing;
use crate::batch::{Examples, MiniBatch};
use crate::models::{Model, rule};
use crate::profile::{Kernel, Profile};
use crate::{Error, Result};
use stepwell_settings::Config;

const PARAMETERS: &str = "parameters";
const STEP: &str = "step";

/// The sums of blocks, summed in the one tree.
fn summed(of_blocks: &[LossSums]) -> LossSums {
    let sum =
        |of: fn(&LossSums) -> f64| tree_sum_values(&of_blocks.iter().map(of).collect::<Vec<f64>>());
    LossSums {
        loss: sum(|sums| sums.loss),
        prediction: sum(|sums| sums.prediction),
        weight: sum(|sums| sums.weight),
    }
}

/// The dense part of a model, and the threads that compute.
pub(crate) struct Trainer {
    model: Model,
    /// Tables and their rows.
    embeddings: EmbeddingBags,
    pool: Arc<ThreadPool>,
    parameters: Parameters,
    optimizer: DenseOptimizer,
    state: DenseState,
    blocks: usize,
    rows_max: usize,
    workspaces: Workspaces<Workspace>,
    /// Room for sums of gradients. // (lanes of a task)
    sums: Workspaces<Vec<f32>>,
    /// Gradient of the parameters by block.
    gradients: Vec<HugeSlice<f32>>,
    logits: Vec<f32>,
    d_logits: Vec<f32>,
    /// Gradient of the sums of first-order weights. // (examples)
    d_first_order: Vec<f32>,
    /// The first label of each example, where there are several. // (examples) or (0)
    clicks: Vec<f32>,
    /// Of each label.
    losses: Vec<Loss>,
    /// Gradient of the pooled embeddings of a mini-batch. It begins at a line of the processor's
    /// caches, so that an embedding of 16 lanes is in one line. // (examples, embedding columns)
    d_x: HugeSlice<f32>,
    profile: Profile,
    /// What shared steps need, where several ranks train.
    sharing: Option<Sharing>,
}

impl Trainer {
    /// A model at step 0, computed by `pool`, its time taken by `clock`.
    ///
    /// # Errors
    /// When an optimizer's settings make no sense.
    pub(crate) fn new(
        model: Model,
        config: &Config,
        pool: Arc<ThreadPool>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self> {
        let dense = rule(&config.dense);
        let optimizer = DenseOptimizer::new(dense)
            .map_err(|error| Error::Config(format!("optim.dense: {error}")))?;
        let parameters = Parameters::new(model.graph(), config.seed);
        let count = parameters.values().len();
        let shape = Shape {
            blocks: config.model.blocks,
            staleness: config.staleness,
            weighs_occurrences: config.tiers.policy.weighs_occurrences(),
            sketch_bytes: model.sketch_bytes().to_vec(),
        };
        let (tables, columns) = (model.tables().to_vec(), model.embedding().clone());
        Ok(Self {
            embeddings: EmbeddingBags::new(tables, columns, shape),
            state: DenseState::new(&dense, count),
            pool,
            parameters,
            optimizer,
            blocks: config.model.blocks,
            rows_max: Blocks::new(config.data.mini_batch, config.model.blocks).largest(),
            workspaces: Workspaces::default(),
            sums: Workspaces::default(),
            gradients: (0..config.model.blocks).map(|_| HugeSlice::rounded_up(count)).collect(),
            logits: Vec::new(),
            d_logits: Vec::new(),
            d_first_order: Vec::new(),
            clicks: Vec::new(),
            losses: model.labels().iter().map(|label| label.loss).collect(),
            d_x: HugeSlice::rounded_up(config.data.mini_batch * model.embedding().count),
            profile: Profile::new(clock, model.graph()),
            sharing: None,
            model,
        })
    }

    /// Shares its steps with the other ranks of `fabric`; `rows` are the most of each table that a
    /// mini-batch has here, and those that may be borrowed, where any are. Whoever asks to `stop`
    /// asks all ranks.
    ///
    /// # Errors
    /// When the system has no memory for them.
    pub(crate) fn share(
        &mut self,
        fabric: Fabric,
        (rows, borrowed): (&[usize], Option<&[usize]>),
        stop: StopRequest,
    ) -> Result<()> {
        let no_memory = |error: std::io::Error| {
            Error::Config(format!(
                "no memory for rows of other ranks: {error}; lower data.mini_batch"
            ))
        };
        let tables = self.embeddings.tables();
        let guests = Guests::new(tables, rows).map_err(no_memory)?;
        let borrowed = borrowed.map(|rows| Borrowed::new(tables, rows));
        let borrowed = borrowed.transpose().map_err(no_memory)?;
        if borrowed.is_some() {
            self.embeddings.lend();
        }
        // A short mini-batch may give a rank more blocks than a full one does, never more than
        // this.
        self.gradients.truncate(self.blocks.div_ceil(fabric.size()));
        self.sharing = Some(Sharing::new(fabric, (guests, borrowed), stop));
        Ok(())
    }

    /// Whether ranks share its steps.
    pub(crate) fn is_shared(&self) -> bool {
        self.sharing.is_some()
    }

    /// The most bytes of a trainer.
    pub(crate) fn bytes_max(model: &Model, config: &Config) -> u64 {
        let (mini_batch, blocks) = (config.data.mini_batch, config.model.blocks);
        let rows = Blocks::new(mini_batch, blocks).largest();
        let own_blocks = blocks.div_ceil(config.ranks.count);
        let (lanes, own) = (size_of::<f32>(), HugeSlice::<f32>::bytes_rounded_up);
        let count = model.graph().parameter_count();
        let parameters = 3 * count * lanes + own_blocks * own(count) + model.graph().packed_bytes();
        let workspace = model.graph().plan().workspace_bytes(rows, lanes);
        let pass = own(rows * model.columns()) + rows * lanes + workspace;
        let update = LANES * lanes + EmbeddingBags::workspace_bytes_max(model.tables(), blocks);
        let threads = config.threads * (pass + update + model.graph().packing_bytes(rows));
        // Logits, their gradients, that of the first order, and the first of several labels.
        let labels = model.labels().len();
        let of_example = 2 * labels + 1 + usize::from(labels > 1);
        let examples = of_example * mini_batch * lanes + own(mini_batch * model.embedding().count);
        (parameters + threads + examples) as u64
    }

    /// Shows every row that is read from now on to `witness`.
    pub(crate) fn watch(&mut self, witness: Arc<dyn Witness>) {
        self.embeddings.watch(witness);
    }

    /// What it trains.
    pub(crate) fn model(&self) -> &Model {
        &self.model
    }

    /// Floating-point operations of an example, forwards and backwards.
    pub(crate) fn flops_per_example(&self) -> u64 {
        let flops = self.model.graph().flops_per_example();
        flops.forward + flops.backward
    }

    /// Where the time went so far.
    pub(crate) fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Seconds of processor time that the threads of its pool have used.
    pub(crate) fn compute_seconds(&self) -> f64 {
        self.pool.broadcast(|_| self.profile.now()).into_iter().sum()
    }

    /// Steps trained.
    pub(crate) fn steps(&self) -> u64 {
        self.embeddings.steps()
    }

    /// Goes on after `steps` steps.
    pub(crate) fn set_steps(&mut self, steps: u64) {
        self.embeddings.set_steps(steps);
    }

    /// Whether every dense parameter is a number.
    pub(crate) fn is_finite(&self) -> bool {
        self.parameters.values().iter().all(|value| value.is_finite())
    }

    /// Logits of the last mini-batch. // (examples)
    pub(crate) fn scores_mut(&mut self) -> &mut Vec<f32> {
        &mut self.logits
    }

    /// Scores `mini`, and trains its rows and the dense part on it where that is its purpose.
    pub(crate) fn run(&mut self, mini: &mut MiniBatch, groups: &[Arc<Group>]) -> Result<LossSums> {
        let MiniBatch { number, purpose, parts, cargo } = mini;
        let trains = *purpose == Purpose::Train;
        let mut rows = self.embeddings.hold(*number, parts, groups, trains)?;
        let blocks = Blocks::new(cargo.examples(), self.blocks);
        let sums = self.run_blocks(cargo, blocks, &rows, trains);
        if trains {
            self.update(cargo, &mut rows)?;
        }
        Ok(summed(&sums))
    }

    /// The forward pass of `blocks`, and the backward pass where they are trained; sums over each.
    fn run_blocks(
        &mut self,
        examples: &Examples,
        blocks: Blocks,
        rows: &WorkingRows<'_>,
        train: bool,
    ) -> Vec<LossSums> {
        self.parameters.pack(self.model.graph(), &self.pool, &self.profile);
        let (parameters, packed) = self.parameters.packed();
        let labels = self.losses.len();
        self.logits.resize(examples.count * labels, 0.0);
        self.d_logits.resize(examples.count * labels, 0.0);
        self.d_first_order.resize(examples.count, 0.0);
        let pass = BlockPass {
            model: &self.model,
            parameters,
            packed,
            workspaces: &self.workspaces,
            rows_max: self.rows_max,
            examples,
            losses: &self.losses,
            embeddings: &self.embeddings,
            rows,
            blocks,
            profile: &self.profile,
        };
        let mut tasks = cut(
            blocks,
            (self.model.embedding().count, labels),
            [&mut self.logits, &mut self.d_logits],
            [&mut self.d_first_order, &mut self.d_x],
            train.then_some(&mut self.gradients),
        );
        self.pool.install(|| tasks.par_iter_mut().with_max_len(1).for_each(|task| pass.run(task)));
        let sums = tasks.iter().map(|task| task.sums).collect();
        self.clicks.clear();
        if train && labels > 1 {
            self.clicks.extend(examples.labels.iter().step_by(labels));
        }
        sums
    }

    /// Updates rows and dense parameters; neither reads the other, so threads mix both.
    fn update(&mut self, examples: &Examples, rows: &mut WorkingRows<'_>) -> Result<()> {
        let step = self.optimizer.begin_step();
        let Self { embeddings, parameters, state, gradients, d_x, d_first_order, pool, .. } = self;
        let labels = if self.clicks.is_empty() { &examples.labels } else { &self.clicks };
        let (sums, profile) = (&self.sums, &self.profile);
        let columns = examples.examples() * embeddings.columns().count;
        let of_rows = Gradients { d_x: &d_x[..columns], d_first_order, labels };
        let rows = || embeddings.apply(rows, of_rows, &RowLaps(profile));
        let gradients = Summed::Blocks(gradients);
        let dense = DenseUpdate { gradients, step, workspaces: sums, profile };
        let dense = || dense.run(parameters.values_mut(), state);
        let (outcome, ()) = pool.install(|| rayon::join(rows, dense));
        Ok(outcome?)
    }

    /// What a resumed run needs of this rank beside rows and the dense part; a copy.
    pub(crate) fn past(&self) -> Dense {
        let mut past = Dense::default();
        self.embeddings.save(&mut past, self.place());
        past
    }

    /// This rank, and how many there are.
    pub(crate) fn place(&self) -> (usize, usize) {
        let fabric = self.sharing.as_ref().map(|sharing| &sharing.fabric);
        fabric.map_or((0, 1), |fabric| (fabric.rank(), fabric.size()))
    }

    /// The dense part as it goes into digests, where it lies.
    pub(crate) fn dense(&self) -> DenseView<'_> {
        let mut sections = vec![(PARAMETERS.to_owned(), Cow::Borrowed(self.parameters.values()))];
        let state = self.state.vectors();
        sections.extend(state.map(|(name, values)| (name.to_owned(), Cow::Borrowed(values))));
        let step = self.optimizer.step();
        let halves = [step as u32, (step >> 32) as u32].map(f32::from_bits);
        sections.push((STEP.to_owned(), Cow::Owned(halves.to_vec())));
        DenseView { sections }
    }

    /// Takes over a dense part from a checkpoint.
    ///
    /// # Errors
    /// Says what does not fit this model.
    pub(crate) fn load(&mut self, dense: &Dense) -> std::result::Result<(), String> {
        let section = |name: &str, count: usize| {
            let found = dense.sections.iter().find(|(known, _)| known == name);
            let values = found.map(|(_, values)| values).ok_or(format!("has no dense '{name}'"))?;
            if values.len() == count {
                return Ok(values);
            }
            Err(format!("has {} dense '{name}', this model has {count}", values.len()))
        };
        let count = self.parameters.values().len();
        self.parameters.values_mut().copy_from_slice(section(PARAMETERS, count)?);
        for (name, values) in self.state.vectors_mut() {
            values.copy_from_slice(section(name, count)?);
        }
        let step = section(STEP, 2)?;
        let step = u64::from(step[0].to_bits()) | u64::from(step[1].to_bits()) << 32;
        let rule = *self.optimizer.rule();
        self.optimizer = DenseOptimizer::resume(rule, step).map_err(|error| error.to_string())?;
        self.embeddings.load(dense, step, self.place())
    }
}

/// Counts the parts of rows' updates.
struct RowLaps<'a>(&'a Profile);

impl Laps for RowLaps<'_> {
    fn now(&self) -> f64 {
        self.0.now()
    }

    fn over(&self, begin: f64, bytes: u64) {
        self.0.over(Kernel::Rows, begin, bytes);
    }
}
