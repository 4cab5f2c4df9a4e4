//! Named tables, and the features that go into them.

use std::path::PathBuf;

use stepwell_base::ByteCount;
use stepwell_base::initial::Initial;
use stepwell_engine::Pooling;
use stepwell_optim::Storage;

use super::{Config, ModelConfig, RowOptimizerConfig, RowOptimizerKind, RowsConfig};

/// The table that exists without being named; without features, it has all id columns.
pub const EMBEDDING: &str = "embedding";
/// Longest name of a table.
const NAME_MAX: usize = 64;

/// A named table. Unset values are inherited from the settings for all rows.
#[derive(Clone, Debug, PartialEq)]
pub struct TableConfig {
    /// Its name.
    pub name: String,
    /// Lanes of an embedding; 0 for only first-order weights.
    pub dim: Option<usize>,
    /// Optimizer of its rows.
    pub optimizer: Option<RowOptimizerKind>,
    /// Learning rate of its rows.
    pub lr: Option<f64>,
    /// The weights of its rows times this are added to their gradient.
    pub l2: Option<f64>,
    /// The weights of its rows times this and the learning rate are subtracted before an update.
    pub weight_decay: Option<f64>,
    /// Greatest norm of the gradient of one of its rows.
    pub clip_norm: Option<f64>,
    /// Greatest norm of the embedding of one of its rows.
    pub max_norm: Option<f64>,
    /// Format of weights in its rows.
    pub storage: Option<Storage>,
    /// Initial embedding weights are uniform in [-range, range).
    pub init_range: Option<f64>,
    /// Initial embedding weights are normal with this standard deviation instead.
    pub init_std: Option<f64>,
    /// All initial embedding weights are this instead.
    pub init_value: Option<f64>,
    /// File of embeddings that some of its rows begin with.
    pub pretrained: Option<PathBuf>,
    /// Occurrences of a key until it gets a row.
    pub admit_after: Option<u8>,
    /// Probability that a key gets a row, drawn anew in each mini-batch.
    pub admit_probability: Option<f64>,
    /// Steps without use after which a row expires; 0 for never.
    pub expire_after: Option<u64>,
    /// Whether rows keep a history even if no other setting needs it.
    pub history: Option<bool>,
    /// Bytes of the sketch that counts occurrences.
    pub sketch: Option<ByteCount>,
    /// Where its rows may be.
    pub place: PlaceKind,
    /// Bytes of its rows in memory; `None` for a share of `tiers.dram`.
    pub dram: Option<ByteCount>,
}

/// The settings of one table's rows, with none unset.
#[derive(Clone, Debug, PartialEq)]
pub struct TableRules {
    /// Lanes of an embedding.
    pub dim: usize,
    /// Optimizer of its rows.
    pub optimizer: RowOptimizerConfig,
    /// Learning rate of its rows.
    pub lr: f64,
    /// Distribution of initial embedding weights.
    pub initial: Initial,
    /// Its rows.
    pub rows: RowsConfig,
}

impl TableConfig {
    /// The table with this name and nothing set.
    pub fn named(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }

    /// The whole key of one of its settings: `tables.users.dim`.
    pub(crate) fn key(&self, setting: &str) -> String {
        format!("tables.{}.{setting}", self.name)
    }

    /// The same table with all inherited values filled in.
    pub(crate) fn resolved(&self, config: &Config) -> Self {
        let TableRules { dim, optimizer, lr, initial, rows } = self.rules(config);
        let range = self.init_range.unwrap_or(config.model.init_range);
        Self {
            dim: Some(dim),
            optimizer: Some(optimizer.kind),
            lr: Some(lr),
            l2: optimizer.l2,
            weight_decay: optimizer.weight_decay,
            clip_norm: optimizer.clip_norm,
            max_norm: optimizer.max_norm,
            storage: Some(rows.storage),
            init_range: Some(range),
            init_std: match initial {
                Initial::Normal { std } => Some(f64::from(std)),
                _ => None,
            },
            init_value: match initial {
                Initial::Constant { value } => Some(f64::from(value)),
                _ => None,
            },
            admit_after: Some(rows.admit_after),
            admit_probability: Some(rows.admit_probability),
            expire_after: Some(rows.expire_after),
            history: Some(rows.history),
            sketch: Some(rows.sketch),
            ..self.clone()
        }
    }

    /// Optimizer of the table. Values of `rows` that have a default for each kind, such as `eps`,
    /// apply only if the kind is the same.
    fn optimizer(&self, rows: &RowOptimizerConfig, lr: f64) -> RowOptimizerConfig {
        let kind = self.optimizer.unwrap_or(rows.kind);
        let of_kind = |value: Option<f64>| value.filter(|_| kind == rows.kind);
        RowOptimizerConfig {
            kind,
            lr: Some(lr),
            eps: of_kind(rows.eps),
            initial: of_kind(rows.initial),
            l2: self.l2.or(rows.l2),
            weight_decay: self.weight_decay.or(rows.weight_decay),
            clip_norm: self.clip_norm.or(rows.clip_norm),
            max_norm: self.max_norm.or(rows.max_norm),
            ..rows.clone()
        }
    }

    /// Distribution of initial weights: the table's, if it sets any, or the model's.
    fn initial(&self, model: &ModelConfig) -> Initial {
        let range = self.init_range.unwrap_or(model.init_range);
        let is_own = [self.init_range, self.init_std, self.init_value].iter().any(Option::is_some);
        let (std, value) = match is_own {
            true => (self.init_std, self.init_value),
            false => (model.init_std, model.init_value),
        };
        match (std, value) {
            (Some(std), _) => Initial::Normal { std: std as f32 },
            (None, Some(value)) => Initial::Constant { value: value as f32 },
            (None, None) => Initial::Uniform { range: range as f32 },
        }
    }

    /// The settings of its rows in a run of `config`.
    pub fn rules(&self, config: &Config) -> TableRules {
        let (rows, lr) = (&config.rows, self.lr.unwrap_or_else(|| config.row_rate()));
        TableRules {
            dim: self.dim.unwrap_or(config.model.dim),
            optimizer: self.optimizer(&config.optim.rows, lr),
            lr,
            initial: self.initial(&config.model),
            rows: RowsConfig {
                admit_after: self.admit_after.unwrap_or(rows.admit_after),
                admit_probability: self.admit_probability.unwrap_or(rows.admit_probability),
                expire_after: self.expire_after.unwrap_or(rows.expire_after),
                history: self.history.unwrap_or(rows.history),
                sketch: self.sketch.unwrap_or(rows.sketch),
                storage: self.storage.unwrap_or(rows.storage),
            },
        }
    }
}

/// Where the rows of a table may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PlaceKind {
    /// In every tier.
    #[default]
    Tiers,
    /// All in memory.
    Memory,
    /// In every tier, but only the most used ones on devices.
    Device,
}

impl PlaceKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Tiers, Self::Memory, Self::Device];

    /// Name in settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tiers => "tiers",
            Self::Memory => "memory",
            Self::Device => "device",
        }
    }
}

/// Id columns that go into one table with the same settings; each becomes a feature.
#[derive(Clone, Debug, PartialEq)]
pub struct FeatureConfig {
    /// Names of the columns, such as `C3`, and ranges of names, such as `C5-C9`.
    pub columns: Vec<String>,
    /// Name of the table.
    pub table: String,
    /// How the rows of a bag become one embedding.
    pub pooling: Pooling,
    /// Most ids in a bag.
    pub ids: usize,
    /// Dense column, such as `I3`, whose value weights the bag; `None` for no weight.
    pub weight: Option<String>,
}

impl FeatureConfig {
    /// The whole key of a setting of the feature with this number, counted from 1.
    pub(crate) fn key(number: usize, setting: &str) -> String {
        format!("features.{number}.{setting}")
    }
}

impl Config {
    /// The tables of a run that passes [`Config::check`]: `embedding` first if it is used, whether
    /// given or not, then the others in their order.
    pub fn tables_in_use(&self) -> Vec<TableConfig> {
        let is_embedding = |table: &&TableConfig| table.name == EMBEDDING;
        let used = self.features.is_empty() || self.features.iter().any(|of| of.table == EMBEDDING);
        let given = self.tables.iter().find(is_embedding);
        let first = given.cloned().or_else(|| used.then(|| TableConfig::named(EMBEDDING)));
        let others = self.tables.iter().filter(|table| !is_embedding(table));
        first.into_iter().chain(others.cloned()).collect()
    }

    /// The table with this name; adds it as the last one if it is missing.
    ///
    /// # Errors
    /// If the name is not allowed; the message has the fix.
    pub fn table_mut(&mut self, name: &str) -> Result<&mut TableConfig, String> {
        check_name(name)?;
        let at = self.tables.iter().position(|table| table.name == name);
        let at = at.unwrap_or_else(|| {
            self.tables.push(TableConfig::named(name));
            self.tables.len() - 1
        });
        Ok(&mut self.tables[at])
    }

    /// The feature with this number, counted from 1; adds the one after the last.
    ///
    /// # Errors
    /// If the number is too high; the message names the next one.
    pub fn feature_mut(&mut self, number: usize) -> Result<&mut FeatureConfig, String> {
        let count = self.features.len();
        if !(1..=count + 1).contains(&number) {
            let next = count + 1;
            return Err(format!("features.{number} skips a number: give features.{next}"));
        }
        if number > count {
            self.features.push(FeatureConfig::default());
        }
        Ok(&mut self.features[number - 1])
    }
}

/// Refuses a name that is not allowed for tables.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if (1..=NAME_MAX).contains(&name.len()) && name.bytes().all(fits) {
        return Ok(());
    }
    Err(format!("tables.{name}: give a name of 1 to {NAME_MAX} ASCII letters, digits, _ and -"))
}
