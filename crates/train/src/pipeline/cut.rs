//! How the stream of examples is cut into mini-batches and batches.

use std::sync::Arc;

use stepwell_base::owner::RankOf;
use stepwell_base::queue::Sender;
use stepwell_base::rules::{Rule, Rules};
use stepwell_data::{Labels, Ordered};
use stepwell_engine::{Part, Purpose, Spares};
use stepwell_settings::BestKind;

use super::negatives::Negatives;
use crate::batch::{Examples, Item, MiniBatch};
use crate::derived::Derived;
use crate::features::{Features, TableInput};
use crate::models::Model;
use crate::run_plan::RunPlan;

/// Parameters of the cut.
#[derive(Clone, Debug)]
pub(super) struct Cut {
    pub(super) mini_batch: usize,
    pub(super) mini_batches: usize,
    /// Steps between checkpoints; 0 for none.
    pub(super) checkpoint_every: u64,
    /// Whether a checkpoint follows the last training pass.
    pub(super) checkpoint_at_end: bool,
    /// Whether a checkpoint follows each evaluation.
    pub(super) checkpoint_evaluated: bool,
    /// Steps between evaluations within an epoch; 0 for none.
    pub(super) evaluate_every: u64,
    /// Whether such an evaluation comes before the first step of the run.
    pub(super) evaluates_first: bool,
    pub(super) epochs: u64,
    pub(super) skip_max: u64,
    /// Blocks of a mini-batch.
    pub(super) blocks: usize,
    /// This rank among the ranks that share mini-batches; `None` without sharing.
    pub(super) rank: Option<RankOf>,
    /// Number of servers, which are the first ranks.
    pub(super) servers: usize,
    /// Each table's input from the data.
    pub(super) tables: Vec<TableInput>,
    /// Features that follow the dense ones.
    pub(super) derived: Vec<Derived>,
    /// Layout of the examples' labels and weights.
    pub(super) labels: Labels,
    /// Limits of bags.
    pub(super) features: Features,
    /// Examples that are shuffled together; 0 for none.
    pub(super) shuffle: usize,
    /// Which negatives are trained on; `None` for all.
    pub(super) negatives: Option<Negatives>,
    pub(super) seed: u64,
}

impl Cut {
    /// Returns an empty mini-batch.
    pub(super) fn empty_mini(&self, ends: &BatchEnds, purpose: Purpose) -> MiniBatch {
        let fresh = || MiniBatch {
            number: 0,
            purpose,
            parts: self.tables.iter().map(|_| Part::default()).collect(),
            cargo: Examples::with_room(self.mini_batch, self.labels),
        };
        MiniBatch { purpose, ..ends.spares.take().unwrap_or_else(fresh) }
    }
}

pub(super) fn cut(plan: &RunPlan<'_>, checkpoints: bool, model: &Model, rules: Rules) -> Cut {
    let RunPlan { config, batching, data, storage, .. } = plan;
    let mut tables = model.inputs();
    if !rules.hold(Rule::SaltKeys) {
        tables.iter_mut().for_each(|table| table.salt = 0);
    }
    Cut {
        mini_batch: batching.mini_batch,
        mini_batches: batching.per_batch,
        checkpoint_every: if checkpoints { storage.checkpoints.every } else { 0 },
        checkpoint_at_end: checkpoints,
        checkpoint_evaluated: checkpoints && storage.checkpoints.best != BestKind::None,
        evaluate_every: 0,
        evaluates_first: false,
        epochs: data.epochs,
        skip_max: data.skip_max,
        blocks: batching.blocks,
        rank: None,
        servers: 0,
        tables,
        derived: model.features().derived(),
        labels: model.label_lanes(),
        features: model.features().clone(),
        shuffle: data.shuffle,
        negatives: Negatives::of(config),
        seed: config.seed,
    }
}

/// Input of stage `batch`.
pub(super) type Parsed = stepwell_data::Parsed<Purpose>;

/// The stage's input and output.
pub(super) struct BatchEnds {
    pub(super) input: Arc<Ordered<Parsed>>,
    /// Evaluations within epochs, if there are any.
    pub(super) evaluations: Option<Arc<Ordered<Parsed>>>,
    pub(super) output: Sender<Item>,
    pub(super) spares: Arc<Spares<Examples>>,
}
