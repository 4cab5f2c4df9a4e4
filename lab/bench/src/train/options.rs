//! Options of the benchmark of training out of core, and the settings of its runs.

use std::path::{Path, PathBuf};

use serde::Serialize;
use stepwell_base::ByteCount;
use stepwell_settings::{Config, ModelKind};

use super::store::StoreAge;
use crate::measure::names;
use crate::{Error, Result};

/// Options of the benchmark.
#[derive(Clone, Debug, Serialize)]
pub struct Options {
    /// A directory on the disk to measure; files created in it are removed again.
    pub directory: PathBuf,
    /// Approximate rows in the store.
    pub rows: u64,
    /// Exponent of the ids' frequencies.
    pub skew: f64,
    /// Whether all slots have equally many ids; otherwise as in `criteo_tb_80k`.
    pub equal: bool,
    /// Warm-up examples, which don't count.
    pub warmup: u64,
    /// Examples that count.
    pub examples: u64,
    /// Models.
    #[serde(serialize_with = "names")]
    pub models: Vec<ModelKind>,
    /// Slots in memory, as percentages of the rows.
    pub shares: Vec<f64>,
    /// Stores with which runs start.
    pub stores: Vec<StoreAge>,
    /// Whether to skip the run in memory.
    pub only_out_of_core: bool,
    /// Whether to skip the plain runs.
    pub no_plain: bool,
    /// All other settings: threads, mini-batch, lookahead and so on.
    #[serde(skip)]
    pub config: Config,
}

/// Settings of the runs of a model, except for memory.
pub(super) fn config(options: &Options, kind: ModelKind, data: &Path) -> Result<Config> {
    let mut config = options.config.clone();
    config.model.kind = kind;
    config.data.paths = vec![data.display().to_string()];
    config.data.eval_fraction = 0.0;
    config.data.eval_paths = Vec::new();
    config.data.epochs = 1;
    config.checkpoint.dir = None;
    if config.rows.life().is_some() {
        let why =
            "rows that come and go are not supported here: of rows.*, only rows.storage can be set";
        return Err(Error::Arguments(why.to_owned()));
    }
    config.tiers.page_cache = ByteCount(0);
    config.tiers.ssd = None;
    Ok(config)
}
