//! What a run is told: every setting with its default and its checks.
//!
//! This is the meaning; how it is written down (TOML, flags) is the roof's business.

mod checkpoint;
mod model;

use std::path::PathBuf;

use stepwell_base::ByteCount;
use stepwell_engine::{Admission, Life};
use stepwell_mem::PolicyKind;
use stepwell_nn::Precision;
use stepwell_optim::Storage;

pub use self::checkpoint::CheckpointConfig;
pub use self::model::{ModelConfig, ModelKind};

/// Everything a run is told.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Seed of all initial values and of the built-in stream.
    pub seed: u64,
    /// Threads that compute.
    pub threads: usize,
    /// Where examples come from.
    pub data: DataConfig,
    /// The built-in stream, used when no data is named.
    pub synth: SynthConfig,
    /// What is trained.
    pub model: ModelConfig,
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
    /// Malformed lines that are skipped and counted before one stops the run.
    pub skip_max: u64,
    /// File that keeps what parsing the data gave; none to parse in every epoch.
    pub cache: Option<PathBuf>,
}

impl DataConfig {
    fn check_cache(&self) -> Result<(), String> {
        let Some(cache) = self.cache.as_ref().map(|path| path.display()) else { return Ok(()) };
        if self.paths.is_empty() {
            return Err(format!(
                "data.cache = {cache} is for text, and the built-in stream is none: name data, or \
                 leave data.cache out"
            ));
        }
        if self.skip_max > CACHED_SKIP_MAX {
            return Err(format!(
                "data.skip_max is {}, and a data.cache remembers {CACHED_SKIP_MAX} malformed \
                 lines: give at most that, or leave data.cache out",
                self.skip_max
            ));
        }
        Ok(())
    }
}

/// The built-in click stream.
#[derive(Clone, Debug, PartialEq)]
pub struct SynthConfig {
    /// Number of examples.
    pub examples: u64,
    /// Vocabulary sizes as a multiple of a real sample's.
    pub vocab_scale: f64,
}

/// Memory and disk.
#[derive(Clone, Debug, PartialEq)]
pub struct TierConfig {
    /// Bytes of the slab with its index and metadata.
    pub dram: ByteCount,
    /// Directory of the store; none for a temporary one.
    pub ssd: Option<PathBuf>,
    /// Bytes that the store's index may take.
    pub index: ByteCount,
    /// Bytes of a segment file.
    pub segment: ByteCount,
    /// Bytes of segment files that go through the system's page cache.
    pub page_cache: ByteCount,
    /// Space of the store after a commit at most, times that of its live rows.
    pub space: f64,
    /// Which rows leave memory first, of those whose next use is not known.
    pub policy: PolicyKind,
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

    fn check(&self) -> Result<(), String> {
        if self.admit_after == 0 {
            return Err("rows.admit_after is 0: give 1 to 255".to_owned());
        }
        if !(self.admit_probability > 0.0 && self.admit_probability <= 1.0) {
            return Err(format!(
                "rows.admit_probability is {}: give more than 0 and at most 1",
                self.admit_probability
            ));
        }
        if self.admit_after > 1 && self.admit_probability < 1.0 {
            return Err(format!(
                "rows.admit_after = {} and rows.admit_probability = {} are two rules of admission: \
                 give one of them",
                self.admit_after, self.admit_probability
            ));
        }
        if self.admit_after > 1 && self.sketch.0 < 64 {
            return Err(format!("rows.sketch is {}: give at least 64 bytes", self.sketch));
        }
        Ok(())
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

/// An optimizer and its rate.
#[derive(Clone, Debug, PartialEq)]
pub struct OptimizerConfig {
    /// Which one.
    pub kind: OptimizerKind,
    /// Learning rate.
    pub lr: f64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            seed: 1,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            data: DataConfig {
                paths: Vec::new(),
                eval_paths: Vec::new(),
                eval_fraction: 0.1,
                epochs: 1,
                mini_batch: 4096,
                batch: 0,
                skip_max: 0,
                cache: None,
            },
            synth: SynthConfig { examples: 4_000_000, vocab_scale: 40.0 },
            model: ModelConfig {
                kind: ModelKind::DeepFm,
                dim: 16,
                hidden: vec![512, 256, 128],
                cross_layers: 3,
                bottom: vec![512, 256],
                init_range: 0.01,
                precision: Precision::F32,
                blocks: 8,
            },
            tiers: TierConfig {
                dram: ByteCount(1 << 30),
                ssd: None,
                index: ByteCount(1 << 30),
                segment: ByteCount(64 << 20),
                page_cache: ByteCount(4 << 30),
                space: 1.5,
                policy: PolicyKind::default(),
            },
            pipeline: PipelineConfig { lookahead: 2, horizon: 16 },
            staleness: 0,
            life: LifeConfig {
                admit_after: 1,
                admit_probability: 1.0,
                expire_after: 0,
                history: false,
                sketch: ByteCount(4 << 20),
            },
            storage: Storage::F32,
            rows: OptimizerConfig { kind: OptimizerKind::Adagrad, lr: 0.02 },
            dense: OptimizerConfig { kind: OptimizerKind::Adam, lr: 0.001 },
            checkpoint: CheckpointConfig::default(),
        }
    }
}

/// Most threads that compute, and as many that parse.
const THREADS_MAX: usize = 1024;
/// Most malformed lines of a pass whose data is cached; training and evaluation may be two parts.
const CACHED_SKIP_MAX: u64 = stepwell_data::CACHE_MALFORMED_MAX / 2;
/// Most examples of a mini-batch: occurrences are counted in u32.
const MINI_BATCH_MAX: usize = 1 << 22;
/// Most mini-batches whose keys are known at once; a row has at most so many pins, and a pin count
/// has 16 bits.
const MINI_BATCHES_KNOWN_MAX: usize = 16_384;
/// Largest learning rate; beyond it nothing was ever learned.
const LR_MAX: f64 = 1e6;
/// Largest range of initial embeddings.
const INIT_RANGE_MAX: f64 = 1e3;
/// Most steps of staleness; each costs a mini-batch of rows.
const STALENESS_MAX: usize = 1024;
/// Most blocks of a mini-batch; each has a gradient of every dense parameter.
const BLOCKS_MAX: usize = 1024;

impl Config {
    /// Examples planned and pulled at once.
    pub fn batch(&self) -> usize {
        if self.data.batch == 0 { self.data.mini_batch } else { self.data.batch }
    }

    /// Mini-batches of a full batch.
    pub fn mini_batches_per_batch(&self) -> usize {
        self.batch() / self.data.mini_batch
    }

    /// Refuses settings that make no sense together.
    ///
    /// # Errors
    /// One line that names the key and the mend.
    pub fn check(&self) -> Result<(), String> {
        let positive = |key: &str, value: usize| {
            if value == 0 { Err(format!("{key} is 0: give at least 1")) } else { Ok(()) }
        };
        if !(1..=THREADS_MAX).contains(&self.threads) {
            return Err(format!("threads is {}: give 1 to {THREADS_MAX}", self.threads));
        }
        self.data.check_cache()?;
        positive("data.mini_batch", self.data.mini_batch)?;
        positive("data.epochs", self.data.epochs as usize)?;
        self.checkpoint.check()?;
        positive("model.dim", self.model.dim)?;
        positive("train.blocks", self.model.blocks)?;
        self.check_sizes()?;
        self.life.check()?;
        self.check_numbers()
    }

    fn check_sizes(&self) -> Result<(), String> {
        if self.data.mini_batch > MINI_BATCH_MAX {
            return Err(format!(
                "data.mini_batch is {}: give at most {MINI_BATCH_MAX}",
                self.data.mini_batch
            ));
        }
        if !self.batch().is_multiple_of(self.data.mini_batch) {
            let mini_batch = self.data.mini_batch;
            let example = self.batch().checked_next_multiple_of(mini_batch).unwrap_or(mini_batch);
            return Err(format!(
                "data.batch is {}, which is no multiple of data.mini_batch = {mini_batch}; give \
                 for example {example}",
                self.batch()
            ));
        }
        if self.pipeline.horizon < self.pipeline.lookahead {
            return Err(format!(
                "pipeline.horizon is {}, less than pipeline.lookahead = {}; give at least {}",
                self.pipeline.horizon, self.pipeline.lookahead, self.pipeline.lookahead
            ));
        }
        if self.pipeline.lookahead >= MINI_BATCHES_KNOWN_MAX {
            return Err(format!(
                "pipeline.lookahead is {}: give less than {MINI_BATCHES_KNOWN_MAX}, as for \
                 pipeline.horizon",
                self.pipeline.lookahead
            ));
        }
        let known = self.pipeline.horizon.saturating_add(1);
        let known = known.saturating_mul(self.mini_batches_per_batch());
        if known > MINI_BATCHES_KNOWN_MAX {
            return Err(format!(
                "pipeline.horizon = {} batches of {} mini-batches are {known} known ahead; lower \
                 pipeline.horizon, pipeline.lookahead or data.batch to {MINI_BATCHES_KNOWN_MAX} in \
                 all",
                self.pipeline.horizon,
                self.mini_batches_per_batch()
            ));
        }
        if self.staleness > STALENESS_MAX {
            let staleness = self.staleness;
            return Err(format!("pipeline.staleness is {staleness}: give at most {STALENESS_MAX}"));
        }
        if self.model.blocks > BLOCKS_MAX {
            return Err(format!(
                "train.blocks is {}: give at most {BLOCKS_MAX}",
                self.model.blocks
            ));
        }
        self.model.check()
    }

    fn check_numbers(&self) -> Result<(), String> {
        if !(0.0..1.0).contains(&self.data.eval_fraction) {
            return Err(format!(
                "data.eval_fraction is {}: give a share from 0 up to, not including, 1",
                self.data.eval_fraction
            ));
        }
        for (key, lr) in [("optim.rows.lr", self.rows.lr), ("optim.dense.lr", self.dense.lr)] {
            // Steps are taken in f32.
            if !(lr as f32 > 0.0 && lr <= LR_MAX) {
                return Err(format!(
                    "{key} is {lr:?}: give a number above 0 (in f32, from 1e-45 on), at most \
                     {LR_MAX}"
                ));
            }
        }
        if !(0.0..=INIT_RANGE_MAX).contains(&self.model.init_range) {
            return Err(format!(
                "model.init_range is {}: give a number from 0 to {INIT_RANGE_MAX}",
                self.model.init_range
            ));
        }
        if !(self.synth.vocab_scale > 0.0 && self.synth.vocab_scale <= 1e5) {
            return Err(format!(
                "synth.vocab_scale is {}: give more than 0 and at most 100000",
                self.synth.vocab_scale
            ));
        }
        Ok(())
    }
}
