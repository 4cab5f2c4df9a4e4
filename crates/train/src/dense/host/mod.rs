//! The dense part on the processor: threads divide whole blocks, then whole lanes.

mod parameters;
mod pass;
mod update;

use std::borrow::Cow;

use rayon::prelude::*;
use stepwell_base::huge::HugeSlice;
use stepwell_engine::{Dense, DenseView, Workspaces};
use stepwell_nn::{Graph, LossSums};
use stepwell_optim::{DenseOptimizer, DenseState, Schedule, average};

use self::parameters::Parameters;
use self::pass::{BlockPass, Workspace, cut};
use self::update::{DenseUpdate, Gradient};
use super::sections::{AVERAGED, Sections, sections};
use super::{DenseExecutor, LANES, Outputs, Pieces, Processor, Summed, Work};
use crate::models::Model;
use crate::profile::Kernel;
use crate::run_plan::{Batching, DensePlan};
use crate::{Error, Result};

/// Parameters, state and gradients in memory.
pub(crate) struct HostDense {
    parameters: Parameters,
    averaged: Option<Averaged>,
    seed: u64,
    optimizer: DenseOptimizer,
    schedule: Schedule,
    state: DenseState,
    rows_max: usize,
    workspaces: Workspaces<Workspace>,
    /// Scratch for sums of gradients. // (lanes of a task)
    sums: Workspaces<Vec<f32>>,
    /// Gradient of the parameters by block.
    gradients: Vec<HugeSlice<f32>>,
    d_logits: Vec<f32>,
}

/// The mean of the parameters over the steps, which evaluations use.
struct Averaged {
    decay: f64,
    parameters: Parameters,
}

impl HostDense {
    /// The dense part of `model` at step 0.
    ///
    /// # Errors
    /// If the optimizer's settings are invalid, or the graph has state.
    pub(crate) fn new(model: &Model, batching: Batching, plan: DensePlan) -> Result<Self> {
        check(model.graph())?;
        let optimizer = plan.optimizer()?;
        let parameters = Parameters::new(model.graph(), plan.seed);
        let count = parameters.values().len();
        Ok(Self {
            state: DenseState::new(&plan.rule, count),
            averaged: plan.ema.map(|decay| Averaged {
                decay,
                parameters: Parameters::new(model.graph(), plan.seed),
            }),
            parameters,
            seed: plan.seed,
            optimizer,
            schedule: plan.schedule,
            rows_max: batching.full_mini_batch().largest(),
            workspaces: Workspaces::default(),
            sums: Workspaces::default(),
            gradients: (0..batching.blocks).map(|_| HugeSlice::rounded_up(count)).collect(),
            d_logits: Vec::new(),
        })
    }
}

/// Refuses statistics of blocks: they would have to be summed over ranks and saved in checkpoints.
fn check(graph: &Graph<f32>) -> Result<()> {
    graph.state().first().map_or(Ok(()), |spec| {
        let name = &spec.name;
        Err(Error::Config(format!(
            "'{name}' is state that is not a parameter, which is not supported here: remove its \
             layer"
        )))
    })
}

impl Averaged {
    /// Moves the mean towards `parameters` after a step.
    fn follow(&mut self, parameters: &[f32], on: Processor<'_>) {
        let decay = self.decay;
        let lanes = self.parameters.values_mut().par_chunks_mut(LANES);
        let lanes = lanes.zip(parameters.par_chunks(LANES));
        let bytes = (3 * parameters.len() * size_of::<f32>()) as u64;
        on.profile.count(Kernel::Dense, 0, bytes);
        on.pool.install(|| {
            lanes.for_each(|(mean, values)| {
                on.profile.time(Kernel::Dense, || average(mean, values, decay));
            });
        });
    }
}

impl DenseExecutor for HostDense {
    fn parameter_count(&self) -> usize {
        self.parameters.values().len()
    }

    fn share(&mut self, ranks: usize) {
        // A short mini-batch may give a rank more blocks than a full one, but never more than this.
        self.gradients.truncate(self.gradients.len().div_ceil(ranks));
    }

    fn pass(&mut self, work: &Work<'_>, out: Outputs<'_>) -> Result<Vec<LossSums>> {
        let Processor { pool, profile } = work.on;
        let parameters = match &mut self.averaged {
            Some(averaged) if !work.trains => &mut averaged.parameters,
            _ => &mut self.parameters,
        };
        parameters.pack(work.model.graph(), pool, profile);
        let (parameters, packed) = parameters.packed();
        let labels = work.objectives.len();
        self.d_logits.resize(work.examples.count * labels, 0.0);
        let pass = BlockPass {
            model: work.model,
            parameters,
            packed,
            workspaces: &self.workspaces,
            rows_max: self.rows_max,
            input: work.input,
            examples: work.examples,
            objectives: work.objectives,
            blocks: work.blocks,
            trains: work.trains.then(|| (self.seed, self.optimizer.step())),
            profile,
        };
        let mut tasks = cut(
            work.blocks,
            (work.model.embedding().count, labels),
            [out.logits, &mut self.d_logits],
            [out.d_first_order, out.d_x],
            work.trains.then_some(&mut self.gradients),
        );
        pool.install(|| tasks.par_iter_mut().with_max_len(1).for_each(|task| pass.run(task)));
        Ok(tasks.iter().map(|task| task.sums).collect())
    }

    fn gradients(&mut self) -> Result<Summed<'_>> {
        Ok(Summed::Blocks(&self.gradients))
    }

    fn step(&mut self, steps: u64, total: Option<Pieces<'_>>, on: Processor<'_>) -> Result<()> {
        let step = self.optimizer.begin_step().times(self.schedule.factor(steps));
        let gradient = total.map_or(Gradient::OfBlocks(&self.gradients), Gradient::Pieces);
        let (workspaces, profile) = (&self.sums, on.profile);
        let update = DenseUpdate { gradient, step, workspaces, profile };
        on.pool.install(|| update.run(self.parameters.values_mut(), &mut self.state));
        if let Some(averaged) = &mut self.averaged {
            averaged.follow(self.parameters.values(), on);
        }
        Ok(())
    }

    fn set_falls(&mut self, falls: u64) {
        self.schedule = self.schedule.fallen(falls);
    }

    fn sections(&self) -> Result<DenseView<'_>> {
        let averaged = self.averaged.as_ref().map(|of| (AVERAGED, of.parameters.values()));
        let vectors = self.state.vectors().chain(averaged);
        let state = vectors.map(|(name, values)| (name, Cow::Borrowed(values)));
        Ok(sections(Cow::Borrowed(self.parameters.values()), state, &self.optimizer))
    }

    fn load(&mut self, dense: &Dense) -> std::result::Result<u64, String> {
        let sections = Sections { dense, count: self.parameter_count() };
        self.parameters.values_mut().copy_from_slice(sections.parameters()?);
        for (name, values) in self.state.vectors_mut() {
            values.copy_from_slice(sections.vector(name)?);
        }
        if let Some(averaged) = &mut self.averaged {
            averaged.parameters.values_mut().copy_from_slice(sections.vector(AVERAGED)?);
        }
        self.optimizer = sections.optimizer(&self.optimizer)?;
        Ok(self.optimizer.step())
    }

    fn set_parameters(&mut self, parameters: &[f32], steps: u64) -> Result<()> {
        self.optimizer = self.optimizer.at_step(steps);
        self.parameters.values_mut().copy_from_slice(parameters);
        Ok(())
    }

    fn is_finite(&self) -> Result<bool> {
        let state = self.state.vectors().flat_map(|(_, values)| values);
        Ok(self.parameters.values().iter().chain(state).all(|value| value.is_finite()))
    }
}
