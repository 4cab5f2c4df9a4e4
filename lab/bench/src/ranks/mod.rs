//! `stepwell-lab bench ranks`: several ranks that train one model, against one rank, against memory
//! and against a network.
//!
//! - **Exchange.** Messages from every rank to every other one, over copying the same bytes in
//!   memory, and over MPI's own exchange where there is MPI.
//! - **Bytes.** What ranks send each other in a step, over the least that the step needs.
//! - **Memory.** Two ranks of one thread over one rank of two, all rows in memory, and out of core.
//! - **Network.** A run on a slow network, over the longer of its computing and its sending.
//! - **Late.** Four ranks that are held up at random, out of step over in step, by protocol.
//!
//! All runs read one packed file. What is compared runs in turns, the order changes from pair to
//! pair, and medians count.

mod bytes;
mod exchange;
mod job;
mod late;
mod least;
mod network;
mod pairs;

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
pub use self::pairs::Pairs;
use crate::home::Home;
use crate::machine::Machine;
use crate::measure::names;
use crate::{Error, Result};

/// The most rounds.
const ROUNDS_MAX: usize = 1000;
/// Most ids: slots are numbered in 32 bits.
const ROWS_MAX: u64 = 1 << 31;
/// The models whose bytes are counted, and that train on a slow network: one with much to compute,
/// and one with little.
const TALKATIVE: [ModelKind; 2] = [ModelKind::DeepFm, ModelKind::Lr];

/// What can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Messages from every rank to every rank.
    Exchange,
    /// Bytes of a step.
    Bytes,
    /// Two ranks beside one, all rows in memory.
    Memory,
    /// The same with a tenth of the rows in memory.
    OutOfCore,
    /// Training on a slow network.
    Network,
    /// Training where ranks are held up at random: in step, and by each protocol.
    Late,
}

impl Part {
    /// All of them, in the order in which they are measured.
    pub const ALL: [Self; 6] =
        [Self::Exchange, Self::Bytes, Self::Memory, Self::OutOfCore, Self::Network, Self::Late];

    /// Its name on the command line.
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

/// What is measured.
#[derive(Clone, Debug, Serialize)]
pub struct Options {
    /// A directory on the disk in question; what is made in it is removed again.
    pub directory: PathBuf,
    /// What is trained on; none for the built-in stream.
    pub data: Option<PathBuf>,
    /// Ids of all slots of the built-in stream, about.
    pub rows: u64,
    /// Exponent of their frequencies.
    pub skew: f64,
    /// Examples of it.
    pub examples: u64,
    /// Pairs of runs.
    pub rounds: usize,
    /// Models.
    #[serde(serialize_with = "names")]
    pub models: Vec<ModelKind>,
    /// What is measured of all that can be.
    pub parts: Vec<Part>,
    /// The program that launches processes with MPI, and what it is told.
    pub launcher: Vec<String>,
    /// Everything else: mini-batch, lookahead and so on.
    #[serde(skip)]
    pub config: Config,
}

/// All figures; what was not measured is none, or empty.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Figures {
    /// What was measured.
    pub options: Option<Options>,
    machine: Option<Machine>,
    /// What joins the ranks.
    pub fabric: String,
    /// Messages to all over MPI, over `MPI_Alltoallv` of the same bytes: the least of all sizes
    /// from 256 KiB a pair.
    pub alltoallv_over_raw: Option<f64>,
    /// The same among threads, over copying these bytes in memory.
    pub threads_alltoallv_over_memcpy: Option<f64>,
    /// Both, by size.
    pub exchanges: Vec<Exchange>,
    /// Bytes of a step over the least possible: the most of `bytes`.
    pub bytes_over_least: Option<f64>,
    /// By model and number of ranks.
    pub bytes: Vec<BytesOfModel>,
    /// Examples a second of two ranks of one thread over one rank of two threads, by model.
    pub ranks_over_threads: BTreeMap<String, f64>,
    /// The same with a tenth of the rows in memory.
    pub ranks_over_threads_out_of_core: BTreeMap<String, f64>,
    /// The runs of both.
    pub pairs: Vec<Pairs>,
    /// Time of a run on a slow network over the longer of its computing and its sending: the most
    /// of `network`.
    pub wall_over_longest: Option<f64>,
    /// By model.
    pub network: Vec<OnNetwork>,
    /// By protocol, where ranks are held up.
    pub late: Vec<WhenLate>,
}

/// Measures; `say` is told what is going on.
///
/// # Errors
/// When the arguments cannot be, or a run fails.
pub fn run(options: &Options, say: &mut dyn FnMut(&str)) -> Result<Figures> {
    check(options)?;
    let mut figures = Figures {
        options: Some(options.clone()),
        machine: Some(Machine::here("none")),
        fabric: "threads".to_owned(),
        ..Figures::default()
    };
    let has = |part| options.parts.contains(&part);
    let home = Home::take(&options.directory.join("stepwell-bench-ranks"))?;
    // What is refused for its data is refused first.
    let trains = options.parts.iter().any(|part| *part != Part::Exchange);
    let bench = trains.then(|| Bench::new(options, home.path(), say)).transpose()?;
    if has(Part::Exchange) {
        exchange::run(options.rounds, &options.launcher, say, &mut figures)?;
    }
    let Some(bench) = bench else { return Ok(figures) };
    for kind in talkative(options).filter(|_| has(Part::Bytes)) {
        bytes::run(&bench, kind, say, &mut figures)?;
    }
    for kind in options.models.iter().filter(|_| has(Part::Memory)) {
        let pairs = pairs::run(&bench, *kind, false, say)?;
        figures.ranks_over_threads.insert(pairs.model.clone(), pairs.ranks_over_threads);
        figures.pairs.push(pairs);
    }
    for kind in options.models.iter().filter(|_| has(Part::OutOfCore)) {
        let pairs = pairs::run(&bench, *kind, true, say)?;
        let by_model = &mut figures.ranks_over_threads_out_of_core;
        by_model.insert(pairs.model.clone(), pairs.ranks_over_threads);
        figures.pairs.push(pairs);
    }
    for kind in talkative(options).filter(|_| has(Part::Network)) {
        network::run(&bench, kind, say, &mut figures)?;
    }
    for kind in talkative(options).take(1).filter(|_| has(Part::Late)) {
        late::run(&bench, kind, say, &mut figures)?;
    }
    Ok(figures)
}

/// The models of `options` that are measured where not all are; the first one where none is.
fn talkative(options: &Options) -> impl Iterator<Item = ModelKind> {
    let all = options.models.iter().copied().filter(|kind| TALKATIVE.contains(kind));
    let all: Vec<ModelKind> = all.collect();
    let first = options.models.first().copied().filter(|_| all.is_empty());
    all.into_iter().chain(first)
}

/// Refuses arguments that cannot be measured, by name.
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
    if options.config.life.life().is_some() || !options.config.tables.is_empty() {
        return fail("one table of rows that stay is measured: leave rows.* and tables out".into());
    }
    Ok(())
}

/// The most of some figures.
fn most(figures: impl Iterator<Item = f64>) -> Option<f64> {
    figures.max_by(f64::total_cmp)
}
