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
mod figures;
mod job;
mod late;
mod least_bytes;
mod network;
mod options;
mod two_against_one;

use stepwell_settings::ModelKind;

pub use self::exchange::Way;
#[cfg(feature = "mpi")]
pub use self::exchange::launched;
pub use self::figures::{BytesOfModel, Exchange, Figures, OnNetwork, Pairs, WhenLate};
use self::job::Bench;
pub use self::network::NETWORK;
pub use self::options::{Options, Part};
use crate::directory::Home;
use crate::machine::Machine;
use crate::{Error, Result};

/// Most rounds.
const ROUNDS_MAX: usize = 1000;
/// Most ids: slots are numbered in 32 bits.
const ROWS_MAX: u64 = 1 << 31;
/// Models for counting bytes and for training on a slow network: one with much computation, and one
/// with little.
const TALKATIVE: [ModelKind; 2] = [ModelKind::DeepFm, ModelKind::Lr];

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
