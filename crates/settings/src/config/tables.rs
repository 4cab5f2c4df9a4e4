//! Tables that a model names itself, and the features that go into them.

use stepwell_base::ByteCount;
use stepwell_engine::Pooling;
use stepwell_optim::Storage;

use super::{Config, LifeConfig, OptimizerConfig, OptimizerKind};

/// A table; what it does not say is as the settings for all rows have it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TableConfig {
    /// Its name.
    pub name: String,
    /// Lanes of an embedding; 0 for first-order weights alone.
    pub dim: Option<usize>,
    /// Optimizer of its rows.
    pub optimizer: Option<OptimizerKind>,
    /// Learning rate of its rows.
    pub lr: Option<f64>,
    /// How rows keep their weights.
    pub storage: Option<Storage>,
    /// Embeddings begin uniform in [-range, range).
    pub init_range: Option<f64>,
    /// Occurrences of a key before it gets a row.
    pub admit_after: Option<u8>,
    /// Probability with which a key gets a row, in each mini-batch anew.
    pub admit_probability: Option<f64>,
    /// Steps without use after which a row is no more; 0 for never.
    pub expire_after: Option<u64>,
    /// Whether rows keep a history where nothing else asks.
    pub history: Option<bool>,
    /// Bytes of the sketch that counts occurrences.
    pub sketch: Option<ByteCount>,
    /// Where its rows may lie.
    pub place: PlaceKind,
    /// Bytes of its rows in memory; none for a share of `tiers.dram`.
    pub dram: Option<ByteCount>,
}

/// What holds for the rows of one table.
#[derive(Clone, Debug, PartialEq)]
pub struct TableRules {
    /// Lanes of an embedding.
    pub dim: usize,
    /// Optimizer of its rows.
    pub optimizer: OptimizerConfig,
    /// How rows keep their weights.
    pub storage: Storage,
    /// Embeddings begin uniform in [-range, range).
    pub init_range: f64,
    /// When rows come to exist and cease to.
    pub life: LifeConfig,
}

impl TableConfig {
    /// What holds for its rows in a run of `config`.
    pub fn rules(&self, config: &Config) -> TableRules {
        let (rows, life) = (&config.rows, &config.life);
        TableRules {
            dim: self.dim.unwrap_or(config.model.dim),
            optimizer: OptimizerConfig {
                kind: self.optimizer.unwrap_or(rows.kind),
                lr: self.lr.unwrap_or(rows.lr),
            },
            storage: self.storage.unwrap_or(config.storage),
            init_range: self.init_range.unwrap_or(config.model.init_range),
            life: LifeConfig {
                admit_after: self.admit_after.unwrap_or(life.admit_after),
                admit_probability: self.admit_probability.unwrap_or(life.admit_probability),
                expire_after: self.expire_after.unwrap_or(life.expire_after),
                history: self.history.unwrap_or(life.history),
                sketch: self.sketch.unwrap_or(life.sketch),
            },
        }
    }
}

/// Where the rows of a table may lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PlaceKind {
    /// In every tier.
    #[default]
    Tiers,
    /// In memory, all of them.
    Memory,
}

impl PlaceKind {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Tiers, Self::Memory];

    /// Its name in settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tiers => "tiers",
            Self::Memory => "memory",
        }
    }
}

/// Columns of ids that go into one table, each pooled alike: a feature each.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FeatureConfig {
    /// Names of the columns, such as `C3`, and ranges of them, such as `C5-C9`.
    pub columns: Vec<String>,
    /// Name of the table.
    pub table: String,
    /// How the rows of a bag become one embedding.
    pub pooling: Pooling,
    /// Ids that a bag has at most.
    pub ids: usize,
    /// Dense column, such as `I3`, whose value weights the bag; none for no weight.
    pub weight: Option<String>,
}
