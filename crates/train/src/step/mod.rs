//! One training step: look up, forward, backward, sum, update.
//!
//! ```text
//!  by block, any thread   rows ─► x ─► forward ─► loss ─► backward ─► d_x, gradients of the block
//!  by row, any thread     d_x over a row's bags ─► row optimizer, in the slab
//!  by lane, any thread    gradients over blocks ─► dense optimizer
//! ```
//!
//! The three lines follow one another; within a line threads share out whole blocks, rows or
//! lanes, so the bits do not depend on their number (invariant I2).

mod blocks;
mod dense;
mod desks;
mod gather;
mod life;
mod parameters;
mod pass;
mod pool;
mod sight;
mod sums;
mod update;
mod versions;

use std::borrow::Cow;
use std::sync::Arc;

use rayon::ThreadPool;
use rayon::prelude::*;
use stepwell_base::clock::Clock;
use stepwell_base::huge::HugeSlice;
use stepwell_engine::{Dense, DenseView, Group, TableSpec};
use stepwell_mem::Occurrence;
use stepwell_nn::tree_sum_values;
use stepwell_optim::{DenseOptimizer, DenseState};

use self::blocks::Blocks;
use self::dense::{DenseUpdate, LANES};
use self::desks::Desks;
use self::life::Lives;
use self::parameters::Parameters;
use self::pass::{Bench, BlockPass, cut};
pub(crate) use self::pool::compute_pool;
pub(crate) use self::sight::Sight;
use self::update::{Desk, Update};
pub(crate) use self::versions::Versions;
use crate::batch::MiniBatch;
use crate::config::Config;
use crate::models::{Model, rule};
use crate::profile::Profile;
use crate::world::{Moment, Witness};
use crate::{Error, Result};

const PARAMETERS: &str = "parameters";
const STEP: &str = "step";

/// Sums over the examples of a mini-batch.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Sums {
    pub(crate) loss: f64,
    pub(crate) probability: f64,
}

/// The dense part of a model, and the threads that compute.
pub(crate) struct Trainer {
    model: Model,
    pool: Arc<ThreadPool>,
    parameters: Parameters,
    optimizer: DenseOptimizer,
    state: DenseState,
    steps: u64,
    blocks: usize,
    rows_max: usize,
    benches: Desks<Bench>,
    row_desks: Desks<Desk>,
    /// Room for sums of gradients. // (lanes of a task)
    sums: Desks<Vec<f32>>,
    /// Gradient of the parameters by block.
    gradients: Vec<HugeSlice<f32>>,
    logits: Vec<f32>,
    probabilities: Vec<f32>,
    d_logits: Vec<f32>,
    /// Gradient of the pooled embeddings of a mini-batch. It begins at a line of the processor's
    /// caches, so that an embedding of 16 lanes is in one line. // (examples, embedding columns)
    d_x: HugeSlice<f32>,
    /// By table group; none where rows exist for ever from their first use.
    lives: Vec<Option<Lives>>,
    versions: Versions,
    witness: Option<Arc<dyn Witness>>,
    profile: Profile,
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
        let tables = model.tables();
        let sketch = config.life.sketch.0 / tables.len().max(1) as u64;
        let lives = tables.iter().map(|table| Lives::new(table, sketch)).collect();
        let widths = tables.iter().map(TableSpec::weight_count).collect();
        Ok(Self {
            lives,
            versions: Versions::new(config.staleness, widths),
            state: DenseState::new(&dense, count),
            pool,
            parameters,
            optimizer,
            steps: 0,
            blocks: config.model.blocks,
            rows_max: Blocks::new(config.data.mini_batch, config.model.blocks).largest(),
            benches: Desks::default(),
            row_desks: Desks::default(),
            sums: Desks::default(),
            gradients: (0..config.model.blocks).map(|_| HugeSlice::rounded_up(count)).collect(),
            logits: Vec::new(),
            probabilities: Vec::new(),
            d_logits: Vec::new(),
            d_x: HugeSlice::rounded_up(config.data.mini_batch * model.embedding_columns()),
            witness: None,
            profile: Profile::new(clock, model.graph()),
            model,
        })
    }

    /// The most bytes of a trainer.
    pub(crate) fn bytes_max(model: &Model, config: &Config) -> u64 {
        let (mini_batch, blocks) = (config.data.mini_batch, config.model.blocks);
        let rows = Blocks::new(mini_batch, blocks).largest();
        let (lanes, own) = (size_of::<f32>(), HugeSlice::<f32>::bytes_rounded_up);
        let count = model.graph().parameter_count();
        let parameters = 3 * count * lanes + blocks * own(count) + model.graph().packed_bytes();
        let workspace = model.graph().plan().workspace_bytes(rows, lanes);
        let bench = own(rows * model.columns()) + rows * lanes + workspace;
        let desks = (LANES + Desk::lanes_max(model, blocks)) * lanes;
        let threads = config.threads * (bench + desks + model.graph().packing_bytes(rows));
        let examples = 3 * mini_batch * lanes + own(mini_batch * model.embedding_columns());
        (parameters + threads + examples) as u64
    }

    /// Shows every row that is read from now on to `witness`.
    pub(crate) fn watch(&mut self, witness: Arc<dyn Witness>) {
        self.witness = Some(witness);
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

    /// Steps trained.
    pub(crate) fn steps(&self) -> u64 {
        self.steps
    }

    /// Goes on after `steps` steps.
    pub(crate) fn set_steps(&mut self, steps: u64) {
        self.steps = steps;
    }

    /// Whether every dense parameter is a number.
    pub(crate) fn is_finite(&self) -> bool {
        self.parameters.values().iter().all(|value| value.is_finite())
    }

    /// Logits of the last mini-batch. // (examples)
    pub(crate) fn scores(&self) -> &[f32] {
        &self.logits
    }

    /// Scores `mini`; nothing changes.
    pub(crate) fn score(&mut self, mini: &MiniBatch, groups: &[Arc<Group>]) -> Sums {
        let mut sights = sights(mini, groups);
        self.look(mini, groups, &mut sights, false);
        self.show(mini, groups, &sights);
        self.run_blocks(mini, &sights, false)
    }

    /// Scores `mini`, then trains its rows and the dense part on it.
    pub(crate) fn train(&mut self, mini: &mut MiniBatch, groups: &[Arc<Group>]) -> Sums {
        let mut occurrences: Vec<Vec<Occurrence>> = mini
            .groups
            .iter_mut()
            .map(|part| {
                let mut occurrences = std::mem::take(&mut part.occurrences);
                occurrences.clear();
                occurrences.resize(part.lookup.slots.len(), Occurrence::default());
                occurrences
            })
            .collect();
        let sums = {
            let mut sights = sights(mini, groups);
            self.look(mini, groups, &mut sights, true);
            self.versions.look_back(mini, &mut sights, &self.lives);
            self.show(mini, groups, &sights);
            self.versions.keep(mini, &sights);
            self.steps += 1;
            let sums = self.run_blocks(mini, &sights, true);
            self.update(mini, &mut sights, &mut occurrences);
            sums
        };
        for (part, occurrences) in mini.groups.iter_mut().zip(occurrences) {
            part.occurrences = occurrences;
        }
        groups.iter().for_each(|group| group.set_steps(self.steps));
        sums
    }

    /// Decides which rows of `mini` exist.
    fn look(
        &mut self,
        mini: &MiniBatch,
        groups: &[Arc<Group>],
        sights: &mut [Sight<'_>],
        trains: bool,
    ) {
        let parts = mini.groups.iter().zip(groups).zip(sights).zip(&mut self.lives);
        for (((part, group), sight), lives) in parts {
            if let Some(lives) = lives {
                lives.look(&group.spec, part, sight, (self.steps, trains));
            }
        }
    }

    /// Shows the rows that `mini` reads to the witness.
    fn show(&self, mini: &MiniBatch, groups: &[Arc<Group>], sights: &[Sight<'_>]) {
        let Some(witness) = &self.witness else { return };
        let at = Moment::new(self.steps, mini.number, mini.purpose);
        for ((part, group), sight) in mini.groups.iter().zip(groups).zip(sights) {
            let mut weights = vec![0.0; group.spec.weight_count()];
            let state = group.spec.weight_lanes()..group.spec.model_lanes();
            for (row, key) in part.lookup.distinct.iter().enumerate() {
                let state = &sight.held(row)[state.clone()];
                sight.weights(row).copy_to(&mut weights);
                witness.read(at, group.spec.id, *key, &weights, state);
            }
        }
    }

    fn run_blocks(&mut self, mini: &MiniBatch, sights: &[Sight<'_>], train: bool) -> Sums {
        self.parameters.pack(self.model.graph(), &self.pool, &self.profile);
        let (parameters, packed) = self.parameters.packed();
        let examples = mini.examples();
        let blocks = Blocks::new(examples, self.blocks);
        self.logits.resize(examples, 0.0);
        self.probabilities.resize(examples, 0.0);
        self.d_logits.resize(examples, 0.0);
        let pass = BlockPass {
            model: &self.model,
            parameters,
            packed,
            benches: &self.benches,
            rows_max: self.rows_max,
            mini,
            sights,
            blocks,
            profile: &self.profile,
        };
        let mut tasks = cut(
            blocks,
            self.model.embedding_columns(),
            [&mut self.logits, &mut self.probabilities, &mut self.d_logits],
            &mut self.d_x,
            train.then_some(&mut self.gradients),
        );
        self.pool.install(|| tasks.par_iter_mut().with_max_len(1).for_each(|task| pass.run(task)));
        let sum = |of: fn(&Sums) -> f64| {
            tree_sum_values(&tasks.iter().map(|task| of(&task.sums)).collect::<Vec<f64>>())
        };
        Sums { loss: sum(|sums| sums.loss), probability: sum(|sums| sums.probability) }
    }

    /// Updates rows and dense parameters; neither reads the other, so threads mix both.
    fn update(
        &mut self,
        mini: &MiniBatch,
        sights: &mut [Sight<'_>],
        occurrences: &mut [Vec<Occurrence>],
    ) {
        let step = self.optimizer.begin_step();
        let Self { model, parameters, state, gradients, d_x, d_logits, blocks, pool, .. } = self;
        let sums = &self.sums;
        let (profile, desks) = (&self.profile, &self.row_desks);
        let (lives, steps) = (&self.lives, self.steps);
        let blocks = Blocks::new(mini.examples(), *blocks);
        let rows = || {
            let parts = mini.groups.iter().zip(sights).zip(occurrences).enumerate();
            for (group, ((part, sight), occurrences)) in parts {
                let (labels, lives) = (&mini.labels, lives[group].as_ref());
                let update = Update {
                    model,
                    group,
                    part,
                    blocks,
                    labels,
                    d_x,
                    d_logits,
                    lives,
                    step: steps,
                    profile,
                    desks,
                };
                update.run(sight.rows_mut(), occurrences);
            }
        };
        let dense = DenseUpdate { gradients, step, desks: sums, profile };
        let dense = || dense.run(parameters.values_mut(), state);
        pool.install(|| rayon::join(rows, dense));
    }

    /// The dense part as it goes into checkpoints: with what a resumed run needs beside it, of
    /// which it is a copy.
    pub(crate) fn kept(&self) -> DenseView<'_> {
        let mut past = Dense::default();
        self.versions.save(&mut past);
        self.lives.iter().flatten().for_each(|lives| lives.save(&mut past));
        let mut dense = self.dense();
        dense.sections.extend(DenseView::from(past).sections);
        dense
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
        self.versions.load(dense, self.optimizer.step())?;
        self.lives.iter_mut().flatten().try_for_each(|lives| lives.load(dense))
    }
}

fn sights<'a>(mini: &'a MiniBatch, groups: &'a [Arc<Group>]) -> Vec<Sight<'a>> {
    let parts = mini.groups.iter().zip(groups);
    parts
        .map(|(part, group)| {
            let held = group.slab.hold(&part.lookup.slots);
            let width = group.spec.weight_count();
            let mut sight = Sight::new(held, width, group.spec.storage);
            for (row, early) in part.early.chunks_exact(width).enumerate() {
                sight.replace(row, |weights| weights.copy_from_slice(early));
            }
            sight
        })
        .collect()
}
