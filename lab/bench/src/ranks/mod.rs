//! `stepwell-lab bench ranks`: several ranks that train one model, compared with one rank, with
//! memory and with a network.
//!
//! - **Exchange.** Messages from every rank to every other one, compared with copying the same
//!   bytes in memory, and with MPI's all-to-all if MPI is available.
//! - **Bytes.** Bytes that ranks send each other per step, relative to the least that the step
//!   needs.
//! - **Memory.** Two ranks of one thread compared with one rank of two, with all rows in memory,
//!   and out of core.
//! - **Network.** A run on a slow network, relative to the longer of its computing and its sending.
//! - **Late.** Four ranks with random delays, out of step relative to in step, by protocol.
//!
//! All runs read the same packed file. The two sides of a comparison run alternately, in an order
//! that changes from pair to pair, and medians count.

mod bytes;
mod exchange;
mod job;
mod late;
mod least_bytes;
mod network;
mod two_against_one;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;

use serde::Serialize;
use stepwell_settings::{Config, ModelKind};

pub use self::bytes::BytesOfModel;
#[cfg(feature = "mpi")]
pub use self::exchange::launched;
pub use self::exchange::{Exchange, Way};
use self::job::Bench;
pub use self::late::WhenLate;
pub use self::network::{NETWORK, OnNetwork};
pub use self::two_against_one::Pairs;
use crate::directory::Home;
use crate::machine::Machine;
use crate::measure::names;
use crate::{Error, Result};

/// Most rounds.
const ROUNDS_MAX: usize = 1000;
/// Most ids: slots are numbered in 32 bits.
const ROWS_MAX: u64 = 1 << 31;
/// Models for counting bytes and for training on a slow network: one with much computation, and one
/// with little.
const TALKATIVE: [ModelKind; 2] = [ModelKind::DeepFm, ModelKind::Lr];

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

    fn from_str(name: &str) -> std::result::Result<Self, String> {
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

/// All results; what wasn't measured is `None` or empty.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Figures {
    /// Options of the benchmark.
    pub options: Option<Options>,
    machine: Option<Machine>,
    /// Name of the connection between ranks.
    pub fabric: String,
    /// All-to-all messages over MPI relative to `MPI_Alltoallv` of the same bytes: the minimum over
    /// sizes of at least 256 KiB per pair.
    pub alltoallv_over_raw: Option<f64>,
    /// All-to-all messages between threads relative to copying the same bytes in memory.
    pub threads_alltoallv_over_memcpy: Option<f64>,
    /// Results of both, by size.
    pub exchanges: Vec<Exchange>,
    /// Bytes per step relative to the least possible: the maximum of `bytes`.
    pub bytes_over_least: Option<f64>,
    /// Results by model and number of ranks.
    pub bytes: Vec<BytesOfModel>,
    /// Examples per second of two ranks of one thread relative to one rank of two threads, by
    /// model.
    pub ranks_over_threads: BTreeMap<String, f64>,
    /// Like `ranks_over_threads`, with a tenth of the rows in memory.
    pub ranks_over_threads_out_of_core: BTreeMap<String, f64>,
    /// Runs of both comparisons.
    pub pairs: Vec<Pairs>,
    /// Time of a run on a slow network relative to the longer of its computing and its sending: the
    /// maximum of `network`.
    pub wall_over_longest: Option<f64>,
    /// Results by model.
    pub network: Vec<OnNetwork>,
    /// Results by protocol, with delayed ranks.
    pub late: Vec<WhenLate>,
}

/// Runs the benchmark; calls `say` with a description of each part, and `keep` with the results so
/// far after it.
///
/// # Errors
/// Invalid arguments, or a run that fails.
pub fn run(
    options: &Options,
    say: &mut dyn FnMut(&str),
    keep: &mut dyn FnMut(&Figures),
) -> Result<Figures> {
    check(options)?;
    let mut figures = Figures {
        options: Some(options.clone()),
        machine: Some(Machine::here("none")),
        fabric: "threads".to_owned(),
        ..Figures::default()
    };
    let has = |part| options.parts.contains(&part);
    let home = Home::take(&options.directory.join("stepwell-bench-ranks"))?;
    // Check the data before the first measurement.
    let trains = options.parts.iter().any(|part| *part != Part::Exchange);
    let bench = trains.then(|| Bench::new(options, home.path(), say)).transpose()?;
    if has(Part::Exchange) {
        exchange::run(options.rounds, &options.launcher, say, &mut figures)?;
        keep(&figures);
    }
    let Some(bench) = bench else { return Ok(figures) };
    for kind in talkative(options).filter(|_| has(Part::Bytes)) {
        bytes::run(&bench, kind, say, &mut figures)?;
        keep(&figures);
    }
    for kind in options.models.iter().filter(|_| has(Part::Memory)) {
        let pairs = two_against_one::run(&bench, *kind, false, say)?;
        figures.ranks_over_threads.insert(pairs.model.clone(), pairs.ranks_over_threads);
        figures.pairs.push(pairs);
        keep(&figures);
    }
    for kind in options.models.iter().filter(|_| has(Part::OutOfCore)) {
        let pairs = two_against_one::run(&bench, *kind, true, say)?;
        let by_model = &mut figures.ranks_over_threads_out_of_core;
        by_model.insert(pairs.model.clone(), pairs.ranks_over_threads);
        figures.pairs.push(pairs);
        keep(&figures);
    }
    for kind in talkative(options).filter(|_| has(Part::Network)) {
        network::run(&bench, kind, say, &mut figures)?;
        keep(&figures);
    }
    for kind in talkative(options).take(1).filter(|_| has(Part::Late)) {
        late::run(&bench, kind, say, &mut figures, keep)?;
    }
    Ok(figures)
}

/// The models of `options` in [`TALKATIVE`]; if none is, the first model.
fn talkative(options: &Options) -> impl Iterator<Item = ModelKind> {
    let all = options.models.iter().copied().filter(|kind| TALKATIVE.contains(kind));
    let all: Vec<ModelKind> = all.collect();
    let first = options.models.first().copied().filter(|_| all.is_empty());
    all.into_iter().chain(first)
}

/// Returns an error that names an invalid argument.
fn check(options: &Options) -> Result<()> {
    let fail = |why: String| Err(Error::Arguments(why));
    let Options { rows, skew, examples, rounds, .. } = options;
    if !(26..=ROWS_MAX).contains(rows) {
        return fail(format!("--rows {rows}: give 26 to {ROWS_MAX}"));
    }
    if !(0.01..=10.0).contains(skew) {
        return fail(format!("--skew {skew}: give 0.01 to 10"));
    }
    if !(1..=ROUNDS_MAX).contains(rounds) {
        return fail(format!("--rounds {rounds}: give 1 to {ROUNDS_MAX}"));
    }
    if options.parts.is_empty() {
        let names = Part::ALL.map(Part::name).join(", ");
        return fail(format!("--parts: give some of {names}"));
    }
    if let Some(data) = options.data.as_ref().filter(|data| !data.is_file()) {
        return fail(format!("--data {}: there is no such file", data.display()));
    }
    let mini_batch = options.config.data.mini_batch as u64;
    if options.data.is_none() && examples / 2 < mini_batch {
        return fail(format!(
            "--examples {examples}: give at least two mini-batches, data.mini_batch = {mini_batch}"
        ));
    }
    if options.config.rows.life().is_some() || !options.config.tables.is_empty() {
        return fail("give one table of rows that stay: leave out rows.* and tables".into());
    }
    Ok(())
}

/// Largest of some results.
fn most(figures: impl Iterator<Item = f64>) -> Option<f64> {
    figures.max_by(f64::total_cmp)
}
