//! `stepwell-lab bench mem`: rows in memory against bare loops over the same memory.
//!
//! Two shards, each with its slab and its metadata, hold the most frequent of all rows. Every pair
//! of loops visits the same rows in the same order, the bare one knowing their places: what is
//! measured is what finding, holding and training rows costs beyond moving their bytes. With one
//! thread it visits both shards in turn, with two each thread has one.

mod loops;
mod shard;

use serde::Serialize;
use stepwell_base::slab::Slab;
use stepwell_engine::Planner;
use stepwell_mem::{PolicyKind, metadata_bytes};
use stepwell_optim::{RowOptimizer, Rule};

use crate::machine::Machine;
use crate::measure::{Stopwatch, median, over};
use crate::{Error, Result};
use loops::LoopFn;
use shard::{SHARDS, Shard};

/// Look-ups at most: their keys are drawn before the clock starts.
const LOOKUPS_MAX: u64 = 1 << 30;

/// What is measured.
#[derive(Clone, Debug, Serialize)]
pub struct Options {
    /// Keys that are asked for.
    pub keys: u64,
    /// Rows that there is room for.
    pub slots: u64,
    /// Bytes of a row.
    pub row_bytes: usize,
    /// Exponent of the keys' frequencies in look-ups.
    pub skew: f64,
    /// Keys of a look-up, before repetitions are left out.
    pub batch: u64,
    /// Keys drawn in all.
    pub lookups: u64,
    /// Rounds, of which the median counts.
    pub rounds: usize,
}

/// Rates of one number of threads, in rows per second of all of them.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Rates {
    /// Threads.
    pub threads: u64,
    /// Reading rows in the order of the look-ups, their places known.
    pub read_limit: f64,
    /// Looking keys up and reading the rows that are there.
    pub lookups: f64,
    /// The same over the limit.
    pub lookup_over_limit: f64,
    /// Pooling rows, their memory a plain array.
    pub gather_limit: f64,
    /// Pooling rows of the slab.
    pub gather: f64,
    /// The same over the limit.
    pub gather_over_limit: f64,
    /// Reading, changing and writing rows of a plain array.
    pub scatter_limit: f64,
    /// Updating rows of the slab by Adagrad.
    pub scatter: f64,
    /// The same over the limit.
    pub scatter_over_limit: f64,
}

/// Figures of a run. Rates are medians over the rounds; ratios of rates, over both numbers of
/// threads, are the lower ones.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Figures {
    /// What was measured.
    pub options: Option<Options>,
    machine: Option<Machine>,
    /// Keys looked up that have a row here, of all.
    pub hit_rate: f64,
    /// Rows looked up and read per second, by one thread.
    pub lookups_per_second_per_thread: f64,
    /// Over the bare loop.
    pub lookup_over_limit: f64,
    /// Over the bare loop.
    pub gather_over_limit: f64,
    /// Over the bare loop.
    pub scatter_over_limit: f64,
    /// Bytes beside a row: key, index, pins, policy, and all else that a slot has.
    pub metadata_bytes_per_row: f64,
    /// Rates by number of threads.
    pub threads: Vec<Rates>,
}

/// Runs the benchmark; `progress` is told what comes next.
///
/// # Errors
/// When the arguments cannot be, or there is too little memory.
pub fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Figures> {
    check(options)?;
    progress("filling memory");
    let mut shards =
        (0..SHARDS).map(|number| Shard::new(options, number)).collect::<Result<Vec<_>>>()?;
    let adagrad = RowOptimizer::new(Rule::adagrad(0.01));
    let optimizer = adagrad.map_err(|error| Error::Arguments(error.to_string()))?;
    let asked: usize = shards.iter().map(|shard| shard.skewed.keys.len()).sum();
    let found: usize = shards.iter().map(|shard| shard.skewed.slots.len()).sum();
    let mut threads = Vec::new();
    for count in 1..=SHARDS {
        progress(&format!("{count} threads"));
        threads.push(rates(&mut shards, count, options.rounds, &optimizer)?);
    }
    let least = |ratio: fn(&Rates) -> f64| threads.iter().map(ratio).fold(f64::MAX, f64::min);
    Ok(Figures {
        options: Some(options.clone()),
        machine: Some(Machine::here("none")),
        hit_rate: over(found as f64, asked as f64),
        lookups_per_second_per_thread: threads[0].lookups,
        lookup_over_limit: least(|rates| rates.lookup_over_limit),
        gather_over_limit: least(|rates| rates.gather_over_limit),
        scatter_over_limit: least(|rates| rates.scatter_over_limit),
        metadata_bytes_per_row: metadata_bytes_per_row(options),
        threads,
    })
}

fn check(options: &Options) -> Result<()> {
    let fail = |why: String| Err(Error::Arguments(why));
    let Options { keys, slots, row_bytes, skew, batch, lookups, rounds } = *options;
    if !(SHARDS..u64::from(u32::MAX) / 2).contains(&slots) || keys < slots || keys > 1 << 36 {
        return fail(format!(
            "{slots} slots for {keys} keys: 2 to 2^31 slots, no more of them than keys, and at \
             most 2^36 keys"
        ));
    }
    if !(8..=1 << 20).contains(&row_bytes) || !row_bytes.is_multiple_of(8) {
        return fail(format!("rows of {row_bytes} bytes: a multiple of 8, at most 1 MiB"));
    }
    if !(0.01..=10.0).contains(&skew) {
        return fail(format!("skew {skew} is not admitted: 0.01 to 10"));
    }
    if batch == 0 || lookups / SHARDS < batch || lookups > LOOKUPS_MAX {
        return fail(format!(
            "{lookups} look-ups in batches of {batch}: at least two batches, at most 2^30 look-ups"
        ));
    }
    if !(1..=1000).contains(&rounds) {
        return fail(format!("{rounds} rounds: 1 to 1000"));
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

/// All loops, in turns.
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

/// One pass over every shard.
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
