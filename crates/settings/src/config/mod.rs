//! The configuration of a run.

mod checkpoints;
mod columns;
mod device;
mod layers;
mod layout;
mod model;
mod names;
mod optimizers;
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
use stepwell_optim::Storage;

pub use self::checkpoints::{BestKind, CheckpointConfig};
pub use self::columns::{ColumnConfig, ColumnType, MissingKind, TransformKind};
pub use self::device::DensePlace;
pub(crate) use self::layers::Need;
pub use self::layers::{LayerConfig, LayerKind};
pub use self::model::{ModelConfig, ModelKind};
pub use self::names::expanded;
pub(crate) use self::names::ranges;
pub use self::optimizers::{
    OptimConfig, OptimizerConfig, OptimizerKind, RowOptimizerConfig, RowOptimizerKind, ScheduleKind,
};
pub use self::presets::PresetKind;
pub use self::ranks::{ExchangeKind, RanksConfig};
pub use self::sync::{DenseKind, RowsKind, SyncConfig};
pub(crate) use self::tables::check_name;
pub use self::tables::{EMBEDDING, FeatureConfig, PlaceKind, TableConfig, TableRules};
pub use self::tiers::TierConfig;

/// All settings of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Seed of all initial values and of the built-in stream.
    pub seed: u64,
    /// Compute threads.
    pub threads: usize,
    /// Limit on host memory in bytes, for all ranks of the run on this machine together; `None`
    /// for the sum of the other settings.
    pub memory: Option<ByteCount>,
    /// Devices of each rank.
    pub device: Choice,
    /// Ranks that train one model, each with its own threads and tiers.
    pub ranks: RanksConfig,
    /// How ranks agree on the model.
    pub sync: SyncConfig,
    /// Source of examples.
    pub data: DataConfig,
    /// The built-in stream, used when no data is named.
    pub synth: SynthConfig,
    /// Columns of the data; empty for those of `data.preset`.
    pub columns: Vec<ColumnConfig>,
    /// Model to train.
    pub model: ModelConfig,
    /// How a training step is computed.
    pub train: TrainConfig,
    /// Named tables; empty for one table with all columns.
    pub tables: Vec<TableConfig>,
    /// Which columns go into which table, in the order of the model's input; empty for all columns
    /// in one table.
    pub features: Vec<FeatureConfig>,
    /// Memory and disk.
    pub tiers: TierConfig,
    /// Overlap.
    pub pipeline: PipelineConfig,
    /// Rows: when they start and stop existing, and the format of their weights.
    pub rows: RowsConfig,
    /// Optimizers.
    pub optim: OptimConfig,
    /// Checkpoints.
    pub checkpoint: CheckpointConfig,
}

/// Source of examples, and how they are split into steps.
#[derive(Clone, Debug, PartialEq)]
pub struct DataConfig {
    /// Files or globs; empty for the built-in stream.
    pub paths: Vec<String>,
    /// Files or globs for evaluation; empty to use the tail of the data.
    pub eval_paths: Vec<String>,
    /// Share of the data for evaluation: its tail in file order.
    pub eval_fraction: f64,
    /// Passes over the training part.
    pub epochs: u64,
    /// How often a positive example counts in training; a negative one counts once.
    pub class_weight: f64,
    /// Share of the negative examples that are trained on.
    pub negative_rate: f64,
    /// Examples per step.
    pub mini_batch: usize,
    /// Examples planned and pulled at once; 0 for one mini-batch.
    pub batch: usize,
    /// Examples of a window, which is shuffled; 0 to keep the order of the data.
    pub shuffle: usize,
    /// Parts of the data read in parallel, each for its part of every mini-batch.
    pub streams: usize,
    /// Malformed lines that are skipped and counted before one stops the run.
    pub skip_max: u64,
    /// Data cache to write and read; `None` to parse the text in every epoch.
    pub cache: Option<PathBuf>,
    /// Columns of a well-known data set, used if no columns are given.
    pub preset: PresetKind,
    /// Format of the files.
    pub format: Format,
    /// Whether the first line of delimited text names the columns; `None` to guess.
    pub header: Option<bool>,
    /// Separator of fields in delimited text; `None` for the format's own.
    pub separator: Option<String>,
    /// Whether spaces around fields are removed.
    pub trim: bool,
    /// Texts that mean a missing value, besides the empty text.
    pub missing: Vec<String>,
    /// Whether the data has labels; without them, it can only be scored.
    pub labels: bool,
    /// Column that selects the examples for evaluation; `None` for the tail of the data.
    pub eval_column: Option<String>,
    /// Its values for evaluation; empty for a share of all values by their hash.
    pub eval_values: Vec<String>,
    /// Least of its values for evaluation; all later or larger ones are included.
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
    /// Batches beyond the one in training whose rows are pinned or being loaded.
    pub lookahead: usize,
    /// Batches whose keys are known ahead, at least `lookahead`.
    pub horizon: usize,
    /// Number of most recent steps whose updates a step's reads of rows miss.
    pub staleness: usize,
}

/// Rows: when they start and stop existing, and the format of their weights.
#[derive(Clone, Debug, PartialEq)]
pub struct RowsConfig {
    /// Occurrences of a key until it gets a row, including the one that admits it.
    pub admit_after: u8,
    /// Probability that a key gets a row, drawn anew in each mini-batch.
    pub admit_probability: f64,
    /// Steps without use after which a row expires; 0 for never.
    pub expire_after: u64,
    /// Whether rows keep step of last use, examples and importance even if nothing above needs it.
    pub history: bool,
    /// Bytes of the sketch that counts occurrences.
    pub sketch: ByteCount,
    /// Format of the weights.
    pub storage: Storage,
}

impl RowsConfig {
    /// The life of a table's rows; `None` if they exist from their first use on, forever.
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

/// How a training step is computed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TrainConfig {
    /// Blocks that every mini-batch is cut into, the unit of summation.
    pub blocks: usize,
    /// Where the dense part is computed.
    pub dense: DensePlace,
    /// Steps between evaluations within an epoch; 0 for none.
    pub evaluate_every: u64,
    /// Share of each label that is spread evenly over both classes.
    pub label_smoothing: f64,
    /// Exponent of the focal loss; 0 for the log loss itself.
    pub focal_gamma: f64,
    /// Evaluations without improvement after which training ends; 0 for no limit.
    pub patience: u64,
}

impl Config {
    /// Whether a part of the data, or other data, is for evaluation.
    pub fn evaluates(&self) -> bool {
        let DataConfig { eval_paths, eval_fraction, eval_column, .. } = &self.data;
        !eval_paths.is_empty() || *eval_fraction > 0.0 || eval_column.is_some()
    }

    /// Examples planned and pulled at once.
    pub fn batch(&self) -> usize {
        if self.data.batch == 0 { self.data.mini_batch } else { self.data.batch }
    }

    /// Mini-batches in a full batch.
    pub fn mini_batches_per_batch(&self) -> usize {
        // The settings may not be checked yet.
        self.batch() / self.data.mini_batch.max(1)
    }
}
