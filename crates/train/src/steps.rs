//! Training steps without the pipeline, on given examples, with every row in memory.
//!
//! For benchmarks: the code of a run groups a step's keys, loads its rows and trains on it, one
//! part after the other, each timed.

use std::sync::Arc;

use stepwell_base::clock::Clock;
use stepwell_disk::{Disk, MemDisk};
use stepwell_engine::{
    Bags, Blocks, Group, Grouper, Hands, Hierarchy, MiniBatch, Part, Planner, PrefetchDepth,
    Purpose, Ready, Retired, Staging,
};
use stepwell_settings::Config;
use stepwell_ssd::{Compaction, Store, StoreOptions};

use crate::batch::{Examples, RunPosition};
use crate::models::Model;
use crate::profile::{KernelReport, LayerReport};
use crate::run_plan::RunPlan;
use crate::step::{TrainedModel, compute_pool};
use crate::{Error, Result};

/// The examples of a step.
#[derive(Clone, Debug, Default)]
pub struct StepInput {
    /// Labels, from 0 to 1. // (examples)
    pub labels: Vec<f32>,
    /// Dense features. // (examples, dense)
    pub dense: Vec<f32>,
    /// Ids in example order, field by field.
    pub bags: Bags,
}

/// Wall time of the parts of a step, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StepSeconds {
    /// Grouping keys by row.
    pub group: f64,
    /// Finding and pinning rows, creating new ones, unpinning.
    pub plan: f64,
    /// Gather, forward, loss, backward, optimizers.
    pub train: f64,
}

/// A model, with the tiers and the state that its steps need.
pub struct Steps {
    model: TrainedModel,
    hierarchy: Hierarchy<Examples>,
    grouper: Grouper,
    clock: Arc<dyn Clock>,
    /// The most examples of a step, and its blocks.
    mini_batch: usize,
    blocks: usize,
}

impl std::fmt::Debug for Steps {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Steps").field("hierarchy", &self.hierarchy).finish_non_exhaustive()
    }
}

impl Steps {
    /// Creates a model as `config` sets it, with `slots` slots for rows; rows beyond that are on a
    /// disk in memory.
    ///
    /// # Errors
    /// Settings from which no model can be built, or too little memory.
    pub fn new(config: &Config, slots: usize, clock: Arc<dyn Clock>) -> Result<Self> {
        let plan = &RunPlan::of(config)?;
        Self::of(Model::build(config, plan.schema())?, plan, slots, clock)
    }

    /// Like [`Steps::new`], with a model that was built.
    pub(crate) fn of(
        model: Model,
        plan: &RunPlan<'_>,
        slots: usize,
        clock: Arc<dyn Clock>,
    ) -> Result<Self> {
        let [table] = model.tables() else {
            return Err(Error::Config("single steps need a model with one table".to_owned()));
        };
        let options = StoreOptions {
            compaction: Compaction::Inline,
            ..StoreOptions::new(table.id.0, table.row_bytes())
        };
        let disk: Arc<dyn Disk> = Arc::new(MemDisk::new());
        let store = Arc::new(Store::create(disk, options)?);
        let staging = Staging::new(table.row_lanes(), 1 << 12, 2);
        let group = Arc::new(Group::new(table.clone(), slots, store, staging)?);
        let pool = compute_pool(plan.threads)?;
        let planner = Planner::new(slots, 2, plan.tiers.policy);
        let prefetch = PrefetchDepth { lookahead: 0, horizon: 0 };
        let hands = Hands::Caller;
        let clock_of_stages = Arc::clone(&clock);
        Ok(Self {
            model: TrainedModel::new(model, plan, pool, Arc::clone(&clock))?,
            hierarchy: Hierarchy::new(
                vec![group],
                vec![planner],
                prefetch,
                clock_of_stages,
                hands,
            )?,
            grouper: Grouper::default(),
            clock,
            mini_batch: plan.batching.mini_batch,
            blocks: plan.batching.blocks,
        })
    }

    /// The model.
    #[cfg(test)]
    pub(crate) fn model(&mut self) -> &mut TrainedModel {
        &mut self.model
    }

    /// Trains on `input`; returns the sum of the losses and the time of each part.
    ///
    /// # Errors
    /// If there are no examples, more than a mini-batch, lists that do not fit each other, or more
    /// rows than slots.
    pub fn step(&mut self, input: StepInput) -> Result<(f64, StepSeconds)> {
        self.check(&input).map_err(Error::Config)?;
        let StepInput { labels, dense, bags } = input;
        let count = labels.len();
        self.train(&bags, Examples { count, labels, dense, ..Examples::default() })
    }

    /// Trains on examples and their ids, which fit each other.
    pub(crate) fn train(&mut self, bags: &Bags, examples: Examples) -> Result<(f64, StepSeconds)> {
        let begin = self.clock.seconds();
        let mut mini = self.hierarchy.spares().take().unwrap_or_else(|| MiniBatch {
            number: 0,
            purpose: Purpose::Train,
            parts: vec![Part::default()],
            cargo: Examples::default(),
        });
        for part in &mut mini.parts {
            part.request.ends.extend_from_slice(&bags.ends);
            self.grouper.group_into(&bags.keys, 0, &mut part.request);
        }
        let grouped = self.clock.seconds();
        let after = RunPosition { step: self.model.steps() + 1, ..RunPosition::default() };
        let blocks = Blocks::new(examples.count, self.blocks);
        mini.cargo = Examples { after, blocks, ..examples };
        self.hierarchy.feed(mini)?;
        let Some(Ready::Unit(mut unit)) = self.hierarchy.ready()? else {
            unreachable!("the fed mini-batch is ready")
        };
        let planned = self.clock.seconds();
        let mut loss = 0.0;
        for mini in &mut unit.minis {
            loss += self.model.run(mini, self.hierarchy.groups())?.loss;
        }
        unit.trained = true;
        let trained = self.clock.seconds();
        self.hierarchy.retire(Retired::Unit(unit));
        let retired = self.clock.seconds() - trained;
        let seconds = StepSeconds {
            group: grouped - begin,
            plan: planned - grouped + retired,
            train: trained - planned,
        };
        Ok((loss, seconds))
    }

    fn check(&self, examples: &StepInput) -> std::result::Result<(), String> {
        let (count, most) = (examples.labels.len(), self.mini_batch);
        if !(1..=most).contains(&count) {
            return Err(format!("a step of {count} examples: give 1 to {most} (data.mini_batch)"));
        }
        let model = self.model.model();
        let dense = model.columns() - model.embedding().count;
        let fields = model.embedding().of_fields[0].len();
        let (features, ends) = (examples.dense.len(), &examples.bags.ends);
        if features != count * dense {
            return Err(format!(
                "{features} dense features of {count} examples: give {dense} each"
            ));
        }
        if ends.len() != count * fields {
            return Err(format!("{} bags of {count} examples: give {fields} each", ends.len()));
        }
        let keys = examples.bags.keys.len();
        if !ends.is_sorted() || ends.last().is_some_and(|end| *end as usize != keys) {
            return Err(format!("the ends of bags do not divide {keys} keys in order"));
        }
        Ok(())
    }

    /// Processor time of the steps so far, by kernel.
    pub fn profile(&self) -> Vec<KernelReport> {
        self.model.profile().kernels()
    }

    /// Processor time of the graph's passes so far, by layer.
    pub fn layers(&self) -> Vec<LayerReport> {
        self.model.profile().layers()
    }

    /// Floating-point operations per example, forwards and backwards.
    pub fn flops_per_example(&self) -> u64 {
        self.model.flops_per_example()
    }
}
