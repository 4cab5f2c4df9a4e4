//! Options of the benchmark of training steps.

use serde::Serialize;
use stepwell_settings::{Config, ModelKind};

use crate::measure::names;

/// Options of the benchmark.
#[derive(Clone, Debug, Serialize)]
pub struct Options {
    /// Approximate number of ids of all slots.
    pub rows: u64,
    /// Exponent of the ids' frequencies.
    pub skew: f64,
    /// Ids per slot and example.
    pub ids_per_slot: usize,
    /// Uncounted steps over new rows, and the number of counted steps after them.
    pub steps: usize,
    /// Models.
    #[serde(serialize_with = "names")]
    pub models: Vec<ModelKind>,
    /// Numbers of threads.
    pub threads: Vec<usize>,
    /// Whether to measure the machine's limits.
    pub limits: bool,
    /// All other settings: mini-batch, dim, optimizers and so on.
    #[serde(skip)]
    pub config: Config,
}
