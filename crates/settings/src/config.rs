//! What a run is told.

mod checkpoints;
mod columns;
mod device;
mod model;
mod names;
mod presets;
mod ranks;
mod sync;
mod tables;
mod tiers;

use std::path::PathBuf;

use stepwell_base::ByteCount;
use stepwell_data::Format;
use stepwell_device::Choice;
use stepwell_engine::{Admission, Life};
use stepwell_nn::Precision;
use stepwell_optim::Storage;

pub use self::checkpoints::{BestKind, CheckpointConfig};
pub use self::columns::{ColumnConfig, ColumnType, MissingKind, TransformKind};
pub use self::device::DensePlace;
pub use self::model::{ModelConfig, ModelKind};
pub use self::names::expanded;
pub(crate) use self::names::ranges;
pub use self::presets::PresetKind;
pub use self::ranks::{ExchangeKind, RanksConfig};
pub use self::sync::{DenseKind, RowsKind, SyncConfig};
pub(crate) use self::tables::check_name;
pub use self::tables::{EMBEDDING, FeatureConfig, PlaceKind, TableConfig, TableRules};
pub use self::tiers::TierConfig;
use crate::table::SETTINGS;

/// Everything a run is told.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Seed of all initial values and of the built-in stream.
    pub seed: u64,
    /// Threads that compute.
    pub threads: usize,
    /// Most bytes of host memory for a run, all of its ranks on this machine included; none for
    /// whatever the other settings add up to.
    pub memory: Option<ByteCount>,
    /// Devices above the memory of each rank.
    pub device: Choice,
    /// Where the dense part is computed.
    pub dense_place: DensePlace,
    /// Ranks that train one model, each with threads and tiers of its own.
    pub ranks: RanksConfig,
    /// How they agree.
    pub sync: SyncConfig,
    /// Where examples come from.
    pub data: DataConfig,
    /// The built-in stream, used when no data is named.
    pub synth: SynthConfig,
    /// Columns of the data; none for those of `data.preset`.
    pub columns: Vec<ColumnConfig>,
    /// What is trained.
    pub model: ModelConfig,
    /// Tables that are named; none for one table of all columns.
    pub tables: Vec<TableConfig>,
    /// Which columns go into which table, in the order of the model's input; none for all columns
    /// into one table.
    pub features: Vec<FeatureConfig>,
    /// Memory and disk.
    pub tiers: TierConfig,
    /// Overlap.
    pub pipeline: PipelineConfig,
    /// Steps of training that a step's reads of rows do not see, counted back from it.
    pub staleness: usize,
    /// When rows come to exist and cease to.
    pub life: LifeConfig,
    /// How rows keep their weights.
    pub storage: Storage,
    /// Optimizer of rows.
    pub rows: OptimizerConfig,
    /// Optimizer of dense parameters.
    pub dense: OptimizerConfig,
    /// Checkpoints.
    pub checkpoint: CheckpointConfig,
}

/// Where examples come from and how they are cut.
#[derive(Clone, Debug, PartialEq)]
pub struct DataConfig {
    /// Files or globs; empty for the built-in stream.
    pub paths: Vec<String>,
    /// Files or globs for evaluation; empty to use the tail of the data.
    pub eval_paths: Vec<String>,
    /// Share of the data, its tail in file order, that is only evaluated on.
    pub eval_fraction: f64,
    /// Times the training part is read.
    pub epochs: u64,
    /// Examples per step.
    pub mini_batch: usize,
    /// Examples planned and pulled at once; 0 for one mini-batch.
    pub batch: usize,
    /// Examples that are put into a random order together; 0 to keep the order of the data.
    pub shuffle: usize,
    /// Parts of the data that are read side by side, each for its part of every mini-batch.
    pub streams: usize,
    /// Malformed lines that are skipped and counted before one stops the run.
    pub skip_max: u64,
    /// File that keeps what parsing the data gave; none to parse in every epoch.
    pub cache: Option<PathBuf>,
    /// Columns of data that many people have, where no others are given.
    pub preset: PresetKind,
    /// How records lie in files.
    pub format: Format,
    /// Whether the first line of delimited text names the columns; none to look.
    pub header: Option<bool>,
    /// What is between fields of delimited text; none for what the format says.
    pub separator: Option<String>,
    /// Whether spaces around fields are no part of them.
    pub trim: bool,
    /// Texts that stand for a missing value, as the empty one does.
    pub missing: Vec<String>,
    /// Whether the data has its label; without it, it can be scored alone.
    pub labels: bool,
    /// Column that says which examples are evaluated on; none for the tail of the data.
    pub eval_column: Option<String>,
    /// Its values that are evaluated on; empty for a share of them by their hash.
    pub eval_values: Vec<String>,
    /// The first of its values that is evaluated on, with all that are later or larger.
    pub eval_from: Option<String>,
}

/// The built-in click stream.
#[derive(Clone, Debug, PartialEq)]
pub struct SynthConfig {
    /// Number of examples.
    pub examples: u64,
    /// Vocabulary sizes as a multiple of a real sample's.
    pub vocab_scale: f64,
}

/// Overlap of stages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PipelineConfig {
    /// Batches whose rows are pinned or on their way beyond the one that trains.
    pub lookahead: usize,
    /// Batches whose keys are known ahead, at least `lookahead`.
    pub horizon: usize,
}

/// When rows come to exist and cease to.
#[derive(Clone, Debug, PartialEq)]
pub struct LifeConfig {
    /// Occurrences of a key before it gets a row, the one that gives it one included.
    pub admit_after: u8,
    /// Probability with which a key gets a row, in each mini-batch anew.
    pub admit_probability: f64,
    /// Steps without use after which a row is no more; 0 for never.
    pub expire_after: u64,
    /// Whether rows keep step of last use, examples and importance where nothing above asks.
    pub history: bool,
    /// Bytes of the sketch that counts occurrences.
    pub sketch: ByteCount,
}

impl LifeConfig {
    /// What the rows of a table live by; none for: from their first use, for ever.
    pub fn life(&self) -> Option<Life> {
        let admission = match (self.admit_after, self.admit_probability) {
            (1, chance) if chance >= 1.0 => Admission::AtOnce,
            (1, chance) => Admission::Chance(chance),
            (times, _) => Admission::After(times),
        };
        let life = Life { admission, expire_after: self.expire_after };
        let asked = self.history || self.expire_after > 0 || admission != Admission::AtOnce;
        asked.then_some(life)
    }
}

/// Kind of an optimizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptimizerKind {
    /// Gradient descent.
    Sgd,
    /// Adagrad.
    Adagrad,
    /// Adam.
    Adam,
}

impl OptimizerKind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Sgd, Self::Adagrad, Self::Adam];

    /// Its name in settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sgd => "sgd",
            Self::Adagrad => "adagrad",
            Self::Adam => "adam",
        }
    }
}

/// An optimizer; what is not said is as is usual with it.
#[derive(Clone, Debug, PartialEq)]
pub struct OptimizerConfig {
    /// Which one.
    pub kind: OptimizerKind,
    /// Learning rate.
    pub lr: f64,
    /// What is added to the root that steps are divided by, of Adagrad and Adam.
    pub eps: Option<f64>,
    /// What the sum of squares begins with, of Adagrad.
    pub initial: Option<f64>,
    /// What is kept of the mean of gradients in a step, of Adam.
    pub beta1: Option<f64>,
    /// What is kept of the mean of their squares, of Adam.
    pub beta2: Option<f64>,
}

impl OptimizerConfig {
    /// One of this kind and rate, all else as is usual.
    pub const fn new(kind: OptimizerKind, lr: f64) -> Self {
        Self { kind, lr, eps: None, initial: None, beta1: None, beta2: None }
    }
}

/// Every setting as the table begins it.
impl Default for Config {
    fn default() -> Self {
        let mut config = Self::blank();
        SETTINGS.iter().for_each(|setting| (setting.begin)(&mut config));
        config
    }
}

impl Config {
    /// Examples planned and pulled at once.
    pub fn batch(&self) -> usize {
        if self.data.batch == 0 { self.data.mini_batch } else { self.data.batch }
    }

    /// Mini-batches of a full batch.
    pub fn mini_batches_per_batch(&self) -> usize {
        // Asked of settings, too, that were not checked yet.
        self.batch() / self.data.mini_batch.max(1)
    }

    /// What the table's defaults are written over: nobody ever sees it.
    fn blank() -> Self {
        let optimizer = OptimizerConfig::new(OptimizerKind::Sgd, 0.0);
        Self {
            seed: 0,
            threads: 0,
            memory: None,
            device: Choice::Host,
            dense_place: DensePlace::Host,
            ranks: RanksConfig { count: 0, exchange: ExchangeKind::WorkingSet, timeout: 0.0 },
            sync: SyncConfig::blank(),
            data: DataConfig::blank(),
            synth: SynthConfig { examples: 0, vocab_scale: 0.0 },
            model: ModelConfig {
                kind: ModelKind::Lr,
                dim: 0,
                hidden: Vec::new(),
                cross_layers: 0,
                bottom: Vec::new(),
                init_range: 0.0,
                precision: Precision::default(),
                blocks: 0,
            },
            columns: Vec::new(),
            tables: Vec::new(),
            features: Vec::new(),
            tiers: TierConfig::blank(),
            pipeline: PipelineConfig { lookahead: 0, horizon: 0 },
            staleness: 0,
            life: LifeConfig {
                admit_after: 0,
                admit_probability: 0.0,
                expire_after: 0,
                history: false,
                sketch: ByteCount(0),
            },
            storage: Storage::default(),
            rows: optimizer.clone(),
            dense: optimizer,
            checkpoint: CheckpointConfig {
                dir: None,
                every: 0,
                minutes: 0.0,
                initial: false,
                keep: 0,
                best: BestKind::None,
            },
        }
    }
}

impl DataConfig {
    /// Its part of [`Config::blank`].
    fn blank() -> Self {
        Self {
            paths: Vec::new(),
            eval_paths: Vec::new(),
            eval_fraction: 0.0,
            epochs: 0,
            mini_batch: 0,
            batch: 0,
            shuffle: 0,
            streams: 0,
            skip_max: 0,
            cache: None,
            preset: PresetKind::default(),
            format: Format::default(),
            header: None,
            separator: None,
            trim: false,
            missing: Vec::new(),
            labels: false,
            eval_column: None,
            eval_values: Vec::new(),
            eval_from: None,
        }
    }
}
