//! Options of the benchmark of ranks, and its parts.

use std::path::PathBuf;
use std::str::FromStr;

use serde::Serialize;
use stepwell_settings::{Config, ModelKind};

use crate::measure::names;

/// Parts of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Messages from every rank to every other one.
    Exchange,
    /// Bytes per step.
    Bytes,
    /// Two ranks compared with one, with all rows in memory.
    Memory,
    /// Two ranks compared with one, with a tenth of the rows in memory.
    OutOfCore,
    /// Training on a slow network.
    Network,
    /// Training with random delays of ranks: in step, and with each protocol.
    Late,
}

impl Part {
    /// All parts, in order of execution.
    pub const ALL: [Self; 6] =
        [Self::Exchange, Self::Bytes, Self::Memory, Self::OutOfCore, Self::Network, Self::Late];

    /// Name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Exchange => "exchange",
            Self::Bytes => "bytes",
            Self::Memory => "memory",
            Self::OutOfCore => "out_of_core",
            Self::Network => "network",
            Self::Late => "late",
        }
    }
}

impl FromStr for Part {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let names = Self::ALL.map(Self::name).join(", ");
        let found = Self::ALL.into_iter().find(|part| part.name() == name);
        found.ok_or_else(|| format!("give some of {names}"))
    }
}

/// Options of the benchmark.
#[derive(Clone, Debug, Serialize)]
pub struct Options {
    /// A directory on the disk to use; files created in it are removed again.
    pub directory: PathBuf,
    /// Training data; `None` for the built-in stream.
    pub data: Option<PathBuf>,
    /// Approximate number of ids of all slots of the built-in stream.
    pub rows: u64,
    /// Exponent of the ids' frequencies.
    pub skew: f64,
    /// Examples of the built-in stream.
    pub examples: u64,
    /// Number of pairs of runs.
    pub rounds: usize,
    /// Models.
    #[serde(serialize_with = "names")]
    pub models: Vec<ModelKind>,
    /// Parts to measure.
    pub parts: Vec<Part>,
    /// Command that launches processes with MPI, with its arguments.
    pub launcher: Vec<String>,
    /// All other settings: mini-batch, lookahead and so on.
    #[serde(skip)]
    pub config: Config,
}
