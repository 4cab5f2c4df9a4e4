//! The settings of a run, checked and resolved once, in parts.

use std::path::PathBuf;
use std::sync::Arc;

use stepwell_data::{Layout, Schema};
use stepwell_device::Choice;
use stepwell_engine::Blocks;
use stepwell_nn::Precision;
use stepwell_optim::{DenseOptimizer, Regularization, Rule, Schedule};
use stepwell_settings::{
    CheckpointConfig, Config, DataConfig, DensePlace, ExchangeKind, SyncConfig, TierConfig,
};

use crate::models::{dense_rule, regularization, schedule};
use crate::{Error, Result};

/// The settings of a run that passed their checks, and the values that follow from them.
#[derive(Debug)]
pub(crate) struct RunPlan<'a> {
    /// All settings as given: models are built from them, and checkpoints compared with them.
    pub(crate) config: &'a Config,
    /// Compute threads.
    pub(crate) threads: usize,
    /// Devices of each rank.
    pub(crate) device: &'a Choice,
    /// Source of examples.
    pub(crate) data: &'a DataConfig,
    /// Columns of the data; `None` for Criteo's click logs.
    pub(crate) layout: Option<Arc<Layout>>,
    pub(crate) batching: Batching,
    pub(crate) ranks: RankPlan,
    pub(crate) dense: DensePlan,
    /// Steps between evaluations within an epoch; 0 for none, as without data to evaluate on.
    pub(crate) evaluate_every: u64,
    /// Evaluations without improvement after which training ends; 0 for no limit.
    pub(crate) patience: u64,
    /// Memory and disk.
    pub(crate) tiers: &'a TierConfig,
    pub(crate) storage: StoragePlan,
}

impl<'a> RunPlan<'a> {
    /// Resolves `config`.
    ///
    /// # Errors
    /// Invalid settings.
    pub(crate) fn of(config: &'a Config) -> Result<Self> {
        config.check().map_err(Error::Config)?;
        Ok(Self {
            config,
            threads: config.threads,
            device: &config.device,
            data: &config.data,
            layout: config.layout().map_err(Error::Config)?,
            batching: Batching::of(config),
            ranks: RankPlan::of(config),
            dense: DensePlan::of(config),
            evaluate_every: if config.evaluates() { config.train.evaluate_every } else { 0 },
            patience: config.train.patience,
            tiers: &config.tiers,
            storage: StoragePlan::of(config),
        })
    }

    /// Columns of an example.
    pub(crate) fn schema(&self) -> Schema {
        self.layout.as_ref().map_or(Schema::CRITEO, |layout| layout.schema())
    }
}

/// The number of dense features and id columns in the data of `config`.
pub(crate) fn schema(config: &Config) -> Result<Schema> {
    let layout = config.layout().map_err(Error::Config)?;
    Ok(layout.map_or(Schema::CRITEO, |layout| layout.schema()))
}

/// How examples are cut into mini-batches and batches, and how many are in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Batching {
    /// Examples of a mini-batch.
    pub(crate) mini_batch: usize,
    /// Mini-batches of a batch.
    pub(crate) per_batch: usize,
    /// Blocks of a mini-batch, the unit of summation.
    pub(crate) blocks: usize,
    /// Batches beyond the one in training whose rows are pinned or being loaded.
    pub(crate) lookahead: usize,
    /// Batches whose keys are known ahead.
    pub(crate) horizon: usize,
    /// Number of most recent steps whose updates a step's reads of rows miss.
    pub(crate) staleness: usize,
}

impl Batching {
    pub(crate) fn of(config: &Config) -> Self {
        Self {
            mini_batch: config.data.mini_batch,
            per_batch: config.mini_batches_per_batch(),
            blocks: config.train.blocks,
            lookahead: config.pipeline.lookahead,
            horizon: config.pipeline.horizon,
            staleness: config.pipeline.staleness,
        }
    }

    /// Examples of a batch.
    pub(crate) fn batch(self) -> usize {
        self.mini_batch * self.per_batch
    }

    /// The blocks of a full mini-batch.
    pub(crate) fn full_mini_batch(self) -> Blocks {
        Blocks::new(self.mini_batch, self.blocks)
    }
}

/// Ranks, and how they train one model.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RankPlan {
    /// Number of ranks.
    pub(crate) count: usize,
    /// Number of ranks that only serve dense parameters, which are the first ranks.
    pub(crate) servers: usize,
    /// How ranks exchange rows.
    pub(crate) exchange: ExchangeKind,
    /// Whether all ranks take each step together.
    pub(crate) in_step: bool,
    /// Most steps that a rank may be ahead of the last step that all ranks have ended.
    pub(crate) ahead_max: u64,
    /// How ranks out of step agree on the model.
    pub(crate) sync: SyncConfig,
    /// Whether runs of these settings may give different models.
    pub(crate) depends_on_time: bool,
}

impl RankPlan {
    pub(crate) fn of(config: &Config) -> Self {
        Self {
            count: config.ranks.count,
            servers: config.servers(),
            exchange: config.ranks.exchange,
            in_step: config.in_step(),
            ahead_max: config.ahead_max(),
            sync: config.sync,
            depends_on_time: config.depends_on_time(),
        }
    }

    /// Number of ranks that compute blocks.
    pub(crate) fn learners(self) -> usize {
        self.count - self.servers
    }
}

/// The dense part: where and how it is computed and trained.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DensePlan {
    /// Optimizer of the parameters.
    pub(crate) rule: Rule,
    /// Penalties on the parameters and bound of their gradient.
    pub(crate) regularization: Regularization,
    /// Their learning rate over time.
    pub(crate) schedule: Schedule,
    /// Decay of the mean of the parameters, if there is one.
    pub(crate) ema: Option<f64>,
    /// Where the dense part is computed.
    pub(crate) place: DensePlace,
    /// Number type of the operands of products.
    pub(crate) precision: Precision,
    /// Seed of the random numbers.
    pub(crate) seed: u64,
}

impl DensePlan {
    fn of(config: &Config) -> Self {
        Self {
            rule: dense_rule(config),
            regularization: regularization(&config.optim.dense),
            schedule: schedule(&config.optim.dense),
            ema: config.optim.dense.ema,
            place: config.train.dense,
            precision: config.model.precision,
            seed: config.seed,
        }
    }

    /// The optimizer before its first step.
    ///
    /// # Errors
    /// If its settings are invalid.
    pub(crate) fn optimizer(&self) -> Result<DenseOptimizer> {
        DenseOptimizer::new(self.rule)
            .and_then(|optimizer| optimizer.regularized(self.regularization))
            .map_err(|error| Error::Config(format!("optim.dense: {error}")))
    }
}

/// Where a run keeps rows and checkpoints, and when it writes checkpoints.
#[derive(Clone, Debug)]
pub struct StoragePlan {
    /// Directory of this rank's rows; `None` for a temporary one.
    pub rows: Option<PathBuf>,
    /// Number of ranks. Each of several has a directory for rows within the one that was named.
    pub ranks: usize,
    /// Checkpoints.
    pub checkpoints: CheckpointConfig,
}

impl StoragePlan {
    fn of(config: &Config) -> Self {
        Self {
            rows: config.tiers.ssd.clone(),
            ranks: config.ranks.count,
            checkpoints: config.checkpoint.clone(),
        }
    }

    /// Whether the run writes checkpoints.
    pub(crate) fn saves(&self) -> bool {
        self.checkpoints.dir.is_some()
    }
}
