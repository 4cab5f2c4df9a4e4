//! The dense part on the processor: threads divide whole blocks, then whole lanes.

mod parameters;
mod pass;
mod update;

use std::borrow::Cow;
use std::sync::Arc;

use rayon::prelude::*;
use stepwell_base::huge::HugeSlice;
use stepwell_engine::{Dense, DenseView, Workspaces};
use stepwell_nn::{Graph, LossSums};
use stepwell_optim::{DenseOptimizer, DenseState, Schedule, average};

use self::parameters::Parameters;
use self::pass::{BlockPass, PassPurpose, Workspace, cut};
use self::update::{DenseUpdate, Gradient};
use super::sections::{AVERAGED, STATE, Sections, sections};
use super::{DenseExecutor, LANES, Outputs, Pieces, Processor, Summed, Work};
use crate::Result;
use crate::models::Model;
use crate::profile::Kernel;
use crate::run_plan::{Batching, DensePlan};

/// Parameters, state and gradients in memory.
pub(crate) struct HostDense {
    model: Arc<Model>,
    parameters: Parameters,
    averaged: Option<Averaged>,
    /// State of the graph, which evaluations read.
    graph_state: Vec<f32>,
    /// Sums of its statistics over the blocks of a step.
    statistics: Vec<f32>,
    seed: u64,
    optimizer: DenseOptimizer,
    schedule: Schedule,
    state: DenseState,
    rows_max: usize,
    workspaces: Workspaces<Workspace>,
    /// Scratch for sums of gradients. // (lanes of a task)
    sums: Workspaces<Vec<f32>>,
    /// Gradient of the parameters, then statistics, by block.
    summands: Vec<HugeSlice<f32>>,
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
    /// If the optimizer's settings are invalid.
    pub(crate) fn new(model: &Arc<Model>, batching: Batching, plan: DensePlan) -> Result<Self> {
        let optimizer = plan.optimizer()?;
        let parameters = Parameters::new(model.graph(), plan.seed);
        let summed = model.summed_count();
        let count = parameters.values().len();
        Ok(Self {
            state: DenseState::new(&plan.rule, count),
            averaged: plan.ema.map(|decay| Averaged {
                decay,
                parameters: Parameters::new(model.graph(), plan.seed),
            }),
            parameters,
            graph_state: model.graph().initial_state(),
            statistics: vec![0.0; model.graph().statistics_count()],
            model: Arc::clone(model),
            seed: plan.seed,
            optimizer,
            schedule: plan.schedule,
            rows_max: batching.full_mini_batch().largest(),
            workspaces: Workspaces::default(),
            sums: Workspaces::default(),
            summands: (0..batching.blocks).map(|_| HugeSlice::rounded_up(summed)).collect(),
            d_logits: Vec::new(),
        })
    }
}

/// Advances the `state` of `graph` by statistics, which follow the parameters in `summed`; sums
/// them in `statistics`.
fn advance(graph: &Graph<f32>, state: &mut [f32], summed: Gradient<'_>, statistics: &mut [f32]) {
    if state.is_empty() {
        return;
    }
    let first = graph.parameter_count();
    summed.sum(first..first + statistics.len(), statistics);
    graph.advance_state(state, statistics);
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
    fn summed_count(&self) -> usize {
        self.model.summed_count()
    }

    fn share(&mut self, ranks: usize) {
        // A short mini-batch may give a rank more blocks than a full one, but never more than this.
        self.summands.truncate(self.summands.len().div_ceil(ranks));
    }

    fn pass(&mut self, work: &Work<'_>, out: Outputs<'_>) -> Result<Vec<LossSums>> {
        let Processor { pool, profile } = work.on;
        let parameters = match &mut self.averaged {
            Some(averaged) if !work.trains => &mut averaged.parameters,
            _ => &mut self.parameters,
        };
        parameters.pack(work.model.graph(), pool, profile);
        let (parameters, packed) = parameters.packed();
        let state = &self.graph_state[..];
        let purpose = match work.trains {
            true => PassPurpose::Training { seed: self.seed, step: self.optimizer.step(), state },
            false => PassPurpose::Evaluation { state },
        };
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
            purpose,
            shown: work.shown,
            profile,
        };
        let mut tasks = cut(
            work.blocks,
            (work.model.embedding().count, labels),
            [out.logits, &mut self.d_logits],
            [out.d_first_order, out.d_x],
            out.shown,
            work.trains.then_some(&mut self.summands),
        );
        pool.install(|| tasks.par_iter_mut().with_max_len(1).for_each(|task| pass.run(task)));
        Ok(tasks.iter().map(|task| task.sums).collect())
    }

    fn gradients(&mut self) -> Result<Summed<'_>> {
        Ok(Summed::Blocks(&self.summands))
    }

    fn step(&mut self, steps: u64, total: Option<Pieces<'_>>, on: Processor<'_>) -> Result<()> {
        let step = self.optimizer.begin_step().times(self.schedule.factor(steps));
        let gradient = total.map_or(Gradient::OfBlocks(&self.summands), Gradient::Pieces);
        let (workspaces, profile) = (&self.sums, on.profile);
        let update = DenseUpdate { gradient, step, workspaces, profile };
        on.pool.install(|| update.run(self.parameters.values_mut(), &mut self.state));
        advance(self.model.graph(), &mut self.graph_state, gradient, &mut self.statistics);
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
        let of_graph = Some((STATE, &*self.graph_state)).filter(|(_, values)| !values.is_empty());
        let others = self.state.vectors().chain(averaged).chain(of_graph);
        let others = others.map(|(name, values)| (name, Cow::Borrowed(values)));
        Ok(sections(Cow::Borrowed(self.parameters.values()), others, &self.optimizer))
    }

    fn load(&mut self, dense: &Dense) -> std::result::Result<u64, String> {
        let sections = Sections { dense, count: self.parameters.values().len() };
        self.parameters.values_mut().copy_from_slice(sections.parameters()?);
        for (name, values) in self.state.vectors_mut() {
            values.copy_from_slice(sections.vector(name)?);
        }
        if let Some(averaged) = &mut self.averaged {
            averaged.parameters.values_mut().copy_from_slice(sections.vector(AVERAGED)?);
        }
        let of_graph = sections.state(self.graph_state.len())?;
        self.graph_state.copy_from_slice(of_graph);
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
        let mut all = self.parameters.values().iter().chain(state).chain(&self.graph_state);
        Ok(all.all(|value| value.is_finite()))
    }
}
