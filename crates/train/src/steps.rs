//! Training steps without the pipeline: examples that are there already, every row in memory.
//!
//! For benchmarks, and for who brings data of their own: a step is prepared (its keys are grouped,
//! their slots found) and trained by the same code as in a run, one after the other.

use std::sync::Arc;

use stepwell_base::clock::Clock;
use stepwell_data::Schema;
use stepwell_disk::{Disk, MemDisk};
use stepwell_engine::{Bags, Fit, Group, GroupUnit, Grouper, Planner, Puller, Staging};
use stepwell_ssd::{Compaction, Store, StoreOptions};

use crate::batch::{GroupPart, MiniBatch, Position, Purpose};
use crate::config::Config;
use crate::models::Model;
use crate::profile::{KernelReport, LayerReport};
use crate::step::{Trainer, compute_pool};
use crate::{Error, Result};

/// The examples of a step.
#[derive(Clone, Debug, Default)]
pub struct Examples {
    /// Labels, 0 or 1. // (examples)
    pub labels: Vec<f32>,
    /// Dense features. // (examples, dense)
    pub dense: Vec<f32>,
    /// Ids in example order, field by field.
    pub bags: Bags,
}

/// Where the wall time of a step went, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StepSeconds {
    /// Grouping keys by row.
    pub group: f64,
    /// Finding and pinning rows, making new ones, unpinning.
    pub plan: f64,
    /// Gather, forward, loss, backward, optimizers.
    pub train: f64,
}

/// A model in memory and its steps.
pub struct Steps {
    trainer: Trainer,
    group: Arc<Group>,
    planner: Planner,
    puller: Puller,
    grouper: Grouper,
    clock: Arc<dyn Clock>,
    number: u32,
    /// Most examples of a step.
    mini_batch: usize,
    /// Memory of the step before, for the next one.
    part: GroupPart,
    unit: GroupUnit,
}

impl std::fmt::Debug for Steps {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Steps").field("number", &self.number).finish_non_exhaustive()
    }
}

impl Steps {
    /// A fresh model as `config` says, with `slots` slots for rows.
    ///
    /// # Errors
    /// Settings from which no model can be built, or too little memory.
    pub fn new(config: &Config, slots: usize, clock: Arc<dyn Clock>) -> Result<Self> {
        config.check().map_err(Error::Config)?;
        let model = Model::build(config, Schema::CRITEO)?;
        let [table] = model.tables() else {
            return Err(Error::Config("steps alone are of models with one table group".to_owned()));
        };
        let options = StoreOptions {
            compaction: Compaction::Inline,
            ..StoreOptions::new(table.id.0, table.row_bytes())
        };
        let disk: Arc<dyn Disk> = Arc::new(MemDisk::new());
        let store = Arc::new(Store::create(disk, options)?);
        let staging = Staging::new(table.row_lanes(), 1, 1);
        let group = Arc::new(Group::new(table.clone(), slots, store, staging)?);
        let pool = compute_pool(config.threads)?;
        Ok(Self {
            trainer: Trainer::new(model, config, pool, Arc::clone(&clock))?,
            puller: Puller::new(Arc::clone(&group)),
            group,
            planner: Planner::new(slots, 0, config.tiers.policy),
            grouper: Grouper::default(),
            clock,
            number: 0,
            mini_batch: config.data.mini_batch,
            part: GroupPart::default(),
            unit: GroupUnit::default(),
        })
    }

    /// Trains on `examples`; gives the sum of their losses and where the time went.
    ///
    /// # Errors
    /// When there are no examples, more than a mini-batch of them, lists that do not fit each
    /// other, or fewer slots than rows.
    pub fn step(&mut self, examples: Examples) -> Result<(f64, StepSeconds)> {
        self.check(&examples).map_err(Error::Config)?;
        let begin = self.clock.seconds();
        let mut part = std::mem::take(&mut self.part);
        part.bags = examples.bags;
        self.grouper.group_into(&part.bags, &mut part.lookup);
        let grouped = self.clock.seconds();
        let mut mini = MiniBatch {
            number: self.number,
            after: Position { step: self.trainer.steps() + 1, ..Position::default() },
            purpose: Purpose::Train,
            labels: examples.labels,
            dense: examples.dense,
            truth: Vec::new(),
            groups: vec![part],
        };
        self.number += 1;
        self.plan(&mut mini)?;
        let planned = self.clock.seconds();
        let sums = self.trainer.train(&mut mini, std::slice::from_ref(&self.group));
        let trained = self.clock.seconds();
        for part in &mini.groups {
            self.planner.retire(&part.lookup.slots, &part.occurrences);
        }
        let retired = self.clock.seconds() - trained;
        self.part = mini.groups.pop().unwrap_or_default();
        let seconds = StepSeconds {
            group: grouped - begin,
            plan: planned - grouped + retired,
            train: trained - planned,
        };
        Ok((sums.loss, seconds))
    }

    fn check(&self, examples: &Examples) -> std::result::Result<(), String> {
        let (count, most) = (examples.labels.len(), self.mini_batch);
        if !(1..=most).contains(&count) {
            return Err(format!("a step of {count} examples: give 1 to {most} (data.mini_batch)"));
        }
        let model = self.trainer.model();
        let dense = model.columns() - model.embedding_columns();
        let fields = model.field_columns(0).len();
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
            return Err(format!("the ends of bags do not cut {keys} keys in order"));
        }
        Ok(())
    }

    fn plan(&mut self, mini: &mut MiniBatch) -> Result<()> {
        for part in &mut mini.groups {
            let lookup = &mut part.lookup;
            self.planner.learn(mini.number, &lookup.distinct);
            self.planner.begin_unit();
            if self.planner.fits(&lookup.distinct) != Fit::Now {
                return Err(self.too_few());
            }
            let unit = &mut self.unit;
            unit.clear();
            self.planner.plan(mini.number, &lookup.distinct, unit, &mut lookup.slots)?;
            if unit.evictions > 0 {
                return Err(self.too_few());
            }
            let pull = self.puller.begin(&mut unit.fills)?;
            self.puller.finish(pull, &mut unit.fills)?;
            self.planner.pulled(&unit.fills);
        }
        Ok(())
    }

    fn too_few(&self) -> Error {
        let slots = self.planner.slots();
        Error::Config(format!("{slots} slots are fewer than the rows of all steps; give more"))
    }

    /// Where the processor time of the steps went so far.
    pub fn profile(&self) -> Vec<KernelReport> {
        self.trainer.profile().kernels()
    }

    /// The same of the graph's passes, by layer.
    pub fn layers(&self) -> Vec<LayerReport> {
        self.trainer.profile().layers()
    }

    /// Floating-point operations of an example, forwards and backwards.
    pub fn flops_per_example(&self) -> u64 {
        self.trainer.flops_per_example()
    }
}
