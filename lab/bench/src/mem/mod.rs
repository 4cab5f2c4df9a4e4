//! `stepwell-lab bench mem`: rows in memory, compared with bare loops over the same memory.
//!
//! Two shards, each with a slab and its metadata, contain the most frequent rows. Each pair of
//! loops visits the same rows in the same order, and the bare loop knows their slots. So the
//! difference is the cost of finding, holding and training rows beyond moving their bytes. A single
//! thread visits both shards alternately; with two threads, each owns a shard.

mod loops;
mod options;
mod shard;

use serde::Serialize;
use stepwell_base::slab::Slab;
use stepwell_engine::Planner;
use stepwell_mem::{PolicyKind, metadata_bytes};
use stepwell_optim::{RowOptimizer, Rule};

use self::loops::LoopFn;
pub use self::options::Options;
use self::shard::{SHARDS, Shard};
use crate::machine::Machine;
use crate::measure::{Stopwatch, median, over};
use crate::{Error, Result};

/// Most look-ups: their keys are drawn before timing starts.
const LOOKUPS_MAX: u64 = 1 << 30;

/// Rates for a number of threads, in rows per second of all threads.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Rates {
    /// Number of threads.
    pub threads: u64,
    /// Reading rows in the order of the look-ups, with known slots.
    pub read_limit: f64,
    /// Looking up keys and reading the rows that exist.
    pub lookups: f64,
    /// `lookups` relative to its limit.
    pub lookup_over_limit: f64,
    /// Pooling rows in a plain array.
    pub gather_limit: f64,
    /// Pooling rows in the slab.
    pub gather: f64,
    /// `gather` relative to its limit.
    pub gather_over_limit: f64,
    /// Reading, changing and writing rows in a plain array.
    pub scatter_limit: f64,
    /// Updating rows in the slab with Adagrad.
    pub scatter: f64,
    /// `scatter` relative to its limit.
    pub scatter_over_limit: f64,
}

/// Results of a run. Rates are medians over the rounds; ratios are the lower ones over both numbers
/// of threads.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Figures {
    /// Options of the benchmark.
    pub options: Option<Options>,
    machine: Option<Machine>,
    /// Share of keys looked up that have a row.
    pub hit_rate: f64,
    /// Rows looked up and read per second by one thread.
    pub lookups_per_second_per_thread: f64,
    /// Relative to the bare loop.
    pub lookup_over_limit: f64,
    /// Relative to the bare loop.
    pub gather_over_limit: f64,
    /// Relative to the bare loop.
    pub scatter_over_limit: f64,
    /// Bytes per row in addition to the row: key, index, pins, policy, and all other data of a
    /// slot.
    pub metadata_bytes_per_row: f64,
    /// Rates by number of threads.
    pub threads: Vec<Rates>,
}

/// Runs the benchmark; calls `say` with a description of each part, and `keep` with the results so
/// far after it.
///
/// # Errors
/// Invalid arguments, or too little memory.
pub fn run(
    options: &Options,
    say: &mut dyn FnMut(&str),
    keep: &mut dyn FnMut(&Figures),
) -> Result<Figures> {
    check(options)?;
    say("filling memory");
    let mut shards =
        (0..SHARDS).map(|number| Shard::new(options, number)).collect::<Result<Vec<_>>>()?;
    let adagrad = RowOptimizer::new(Rule::adagrad(0.01));
    let optimizer = adagrad.map_err(|error| Error::Arguments(error.to_string()))?;
    let asked: usize = shards.iter().map(|shard| shard.skewed.keys.len()).sum();
    let found: usize = shards.iter().map(|shard| shard.skewed.slots.len()).sum();
    let mut figures = Figures {
        options: Some(options.clone()),
        machine: Some(Machine::here("none")),
        hit_rate: over(found as f64, asked as f64),
        metadata_bytes_per_row: metadata_bytes_per_row(options),
        ..Figures::default()
    };
    for count in 1..=SHARDS {
        say(&format!("{count} threads"));
        figures.threads.push(rates(&mut shards, count, options.rounds, &optimizer)?);
        figures.sum_up();
        keep(&figures);
    }
    Ok(figures)
}

impl Figures {
    /// Computes the figures of the rates so far.
    fn sum_up(&mut self) {
        let threads = &self.threads;
        let least = |ratio: fn(&Rates) -> f64| threads.iter().map(ratio).fold(f64::MAX, f64::min);
        self.lookups_per_second_per_thread = threads[0].lookups;
        self.lookup_over_limit = least(|rates| rates.lookup_over_limit);
        self.gather_over_limit = least(|rates| rates.gather_over_limit);
        self.scatter_over_limit = least(|rates| rates.scatter_over_limit);
    }
}

fn check(options: &Options) -> Result<()> {
    let fail = |why: String| Err(Error::Arguments(why));
    let Options { keys, slots, row_bytes, skew, batch, lookups, rounds } = *options;
    if !(SHARDS..u64::from(u32::MAX) / 2).contains(&slots) || keys < slots || keys > 1 << 36 {
        return fail(format!(
            "{slots} slots for {keys} keys: give 2 to 2^31 slots, no more slots than keys, and at \
             most 2^36 keys"
        ));
    }
    if !(8..=1 << 20).contains(&row_bytes) || !row_bytes.is_multiple_of(8) {
        return fail(format!("rows of {row_bytes} bytes: give a multiple of 8, at most 1 MiB"));
    }
    if !(0.01..=10.0).contains(&skew) {
        return fail(format!("skew {skew} is not supported: give 0.01 to 10"));
    }
    if batch == 0 || lookups / SHARDS < batch || lookups > LOOKUPS_MAX {
        return fail(format!(
            "{lookups} look-ups, {batch} a batch: give at least two batches and at most 2^30 \
             look-ups"
        ));
    }
    if !(1..=1000).contains(&rounds) {
        return fail(format!("{rounds} rounds: give 1 to 1000"));
    }
    Ok(())
}

fn metadata_bytes_per_row(options: &Options) -> f64 {
    let slots = options.slots / SHARDS;
    let rows = Slab::bytes_for(slots, options.row_bytes / size_of::<f32>());
    let states = rows - slots * options.row_bytes as u64;
    let all = metadata_bytes(PolicyKind::default(), slots, 3) + states + Planner::bytes_for(slots);
    all as f64 / slots as f64
}

/// Runs all loops alternately.
fn rates(
    shards: &mut [Shard],
    threads: u64,
    rounds: usize,
    optimizer: &RowOptimizer,
) -> Result<Rates> {
    const PASSES: [LoopFn; 6] = [
        loops::read_bare,
        loops::look_up,
        loops::gather_bare,
        loops::gather,
        loops::update_bare,
        loops::update,
    ];
    let mut measured: [Vec<f64>; PASSES.len()] = Default::default();
    for _ in 0..rounds {
        let mut read = Vec::new();
        for (pass, rates) in PASSES.iter().zip(&mut measured) {
            let watch = Stopwatch::start();
            let (rows, sum) = over_all(shards, threads, *pass, optimizer);
            rates.push(rows as f64 / watch.seconds());
            read.push((rows, sum));
        }
        if read[0] != read[1] {
            let why = format!("the bare loop read {:?}, look-ups {:?}", read[0], read[1]);
            return Err(Error::WrongRow { key: 0, why });
        }
    }
    let [read_limit, lookups, gather_limit, gather, scatter_limit, scatter] = measured.map(median);
    Ok(Rates {
        threads,
        read_limit,
        lookups,
        lookup_over_limit: over(lookups, read_limit),
        gather_limit,
        gather,
        gather_over_limit: over(gather, gather_limit),
        scatter_limit,
        scatter,
        scatter_over_limit: over(scatter, scatter_limit),
    })
}

/// Runs one pass over every shard.
fn over_all(
    shards: &mut [Shard],
    threads: u64,
    pass: LoopFn,
    optimizer: &RowOptimizer,
) -> (u64, u32) {
    let add = |a: (u64, u32), b: (u64, u32)| (a.0 + b.0, a.1 ^ b.1);
    if threads == 1 {
        return shards.iter_mut().map(|shard| pass(shard, optimizer)).fold((0, 0), add);
    }
    std::thread::scope(|scope| {
        let run = |shard| scope.spawn(move || pass(shard, optimizer));
        let handles: Vec<_> = shards.iter_mut().map(run).collect();
        let join = |handle: std::thread::ScopedJoinHandle<'_, _>| match handle.join() {
            Ok(passed) => passed,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        handles.into_iter().map(join).fold((0, 0), add)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn less_than_25_bytes_lie_beside_a_row() {
        let options = Options {
            keys: 80_000_000,
            slots: 16_000_000,
            row_bytes: 256,
            skew: 1.05,
            batch: 65_536,
            lookups: 1 << 25,
            rounds: 1,
        };
        let bytes = metadata_bytes_per_row(&options);
        assert!((20.0..25.0).contains(&bytes), "{bytes} bytes a row");
    }
}
