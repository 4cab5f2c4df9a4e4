//! Loops in turns: rates, medians, and memory that came with an engine.
//!
//! - **How.** A round runs the limit, ours, and the engine, first with one thread, then with two:
//!   what else the machine does meets all of them. One thread visits both shards' rows in turn, two
//!   have one each; a peer is one cache for both.
//! - **Invariants.**
//!   - CACHES-I1: ours and the limit read the same rows in every round.
//!   - CACHES-I2: a peer that found as many rows as the limit read the same ones.

use std::sync::Barrier;
use std::time::Instant;

use serde::Serialize;

use crate::Result;
use crate::engine::{Engine, Peer};
use crate::machine::Memory;
use crate::sequence::Sequence;
use crate::stepwell::Shard;
use crate::workload::Read;

/// Numbers of threads that are measured.
pub(crate) const THREADS: [usize; 2] = [1, 2];

/// What one thread does in a pass.
type Task<'a> = Box<dyn FnOnce() -> Read + Send + 'a>;

/// A rate by number of threads.
pub(crate) type Rates = [f64; THREADS.len()];

/// Medians of an engine over the rounds, by number of threads.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    name: &'static str,
    /// In rows per second, as that of the limit.
    rates: Rates,
    limit: Rates,
    over_limit: Rates,
    stepwell_over: Rates,
    found: u64,
}

/// Figures of an engine.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Figures {
    pub(crate) engine: &'static str,
    /// Rows looked up and read per second, by number of threads.
    pub(crate) lookups_per_second: Rates,
    /// The same over the limit, round by round.
    pub(crate) over_limit: Rates,
    /// Ours over the engine, round by round.
    pub(crate) stepwell_over: Rates,
    /// The limit in the same rounds.
    pub(crate) limit_per_second: Rates,
    /// Keys that have their row here, of all keys asked for.
    pub(crate) hit_share: f64,
    /// Growth of the process's memory over the number of rows, the 256 of the row among them;
    /// absent where the engine before had not given its memory back.
    pub(crate) bytes_per_row: Option<f64>,
    /// Share of that memory in huge pages.
    pub(crate) huge_share: Option<f64>,
}

impl Measured {
    /// With what the engine's memory and its hits are set against.
    pub(crate) fn figures(self, memory: Option<Memory>, rows: u64, asked: u64) -> Figures {
        Figures {
            engine: self.name,
            lookups_per_second: self.rates,
            over_limit: self.over_limit,
            stepwell_over: self.stepwell_over,
            limit_per_second: self.limit,
            hit_share: self.found as f64 / asked as f64,
            bytes_per_row: memory.map(|memory| memory.bytes as f64 / rows as f64),
            huge_share: memory.map(|memory| memory.huge_bytes as f64 / memory.bytes as f64),
        }
    }
}

/// What `make` makes, and the memory that came with it.
pub(crate) fn growth<T>(make: impl FnOnce() -> T) -> (T, Memory) {
    let before = Memory::now();
    let made = make();
    (made, Memory::now().since(before))
}

/// Begins and ends as many threads as there will ever be at once.
///
/// The system keeps their stacks, and with each a small block of the heap. Begun later, such a
/// block would lie above an engine's memory and keep all of it from being given back.
pub(crate) fn begin_threads() {
    const ENGINES_OWN: usize = 1;
    let count = ENGINES_OWN + THREADS[THREADS.len() - 1];
    let all_here = Barrier::new(count);
    std::thread::scope(|scope| {
        (0..count).for_each(|_| drop(scope.spawn(|| all_here.wait())));
    });
}

/// Ours, without and with uses counted.
pub(crate) fn ours(
    shards: &mut [Shard],
    sequences: &[Sequence],
    rounds: usize,
) -> Result<[Measured; 2]> {
    let pass = |shards: &mut [Shard], threads| timed(threads, look_ups_counted(shards, sequences));
    let turns = in_turns(shards, sequences, rounds, pass)?;
    let [limit, stepwell, counted] = turns.read;
    let name = "stepwell, uses counted";
    same(name, counted, limit)?;
    Ok([turns.measured("stepwell", 1, stepwell), turns.measured(name, 2, counted)])
}

/// A peer, in turns with ours.
pub(crate) fn peer(
    engine: Engine,
    peer: &dyn Peer,
    shards: &mut [Shard],
    sequences: &[Sequence],
    rounds: usize,
) -> Result<Measured> {
    let pass = |_: &mut [Shard], threads| timed(threads, look_ups_of(peer, sequences));
    let turns = in_turns(shards, sequences, rounds, pass)?;
    let [limit, _, read] = turns.read;
    if read.rows == limit.rows {
        same(engine.name(), read, limit)?;
    }
    Ok(turns.measured(engine.name(), 2, read))
}

/// Rates of the limit, ours and a third, round by round, and what each read in a pass.
#[derive(Debug, Default)]
struct Turns {
    rates: [Vec<[f64; 3]>; THREADS.len()],
    read: [Read; 3],
}

impl Turns {
    fn measured(&self, name: &'static str, at: usize, read: Read) -> Measured {
        let medians = |figure: fn(&[f64; 3], usize) -> f64| {
            self.rates
                .each_ref()
                .map(|rounds| median(rounds.iter().map(|rates| figure(rates, at)).collect()))
        };
        Measured {
            name,
            rates: medians(|rates, at| rates[at]),
            limit: medians(|rates, _| rates[0]),
            over_limit: medians(|rates, at| rates[at] / rates[0]),
            stepwell_over: medians(|rates, at| rates[1] / rates[at]),
            found: read.rows,
        }
    }
}

/// The limit, ours, and a third, in this order in every round.
fn in_turns(
    shards: &mut [Shard],
    sequences: &[Sequence],
    rounds: usize,
    mut third: impl FnMut(&mut [Shard], usize) -> (f64, Read),
) -> Result<Turns> {
    let mut turns = Turns::default();
    for _ in 0..rounds {
        for (threads, rates) in THREADS.into_iter().zip(&mut turns.rates) {
            let passes = [
                timed(threads, bare(shards, sequences)),
                timed(threads, look_ups(shards, sequences)),
                third(shards, threads),
            ];
            turns.read = passes.map(|(_, read)| read);
            same("stepwell", turns.read[1], turns.read[0])?;
            rates.push(passes.map(|(seconds, read)| read.rows as f64 / seconds));
        }
    }
    Ok(turns)
}

/// Refuses an engine that read other rows than the limit.
fn same(name: &str, read: Read, limit: Read) -> Result<()> {
    match read == limit {
        true => Ok(()),
        false => Err(format!("{name} read {read:?}, the limit {limit:?}")),
    }
}

fn bare<'a>(shards: &'a mut [Shard], sequences: &'a [Sequence]) -> Vec<Task<'a>> {
    let pairs = shards.iter_mut().zip(sequences);
    pairs.map(|(shard, of)| Box::new(move || shard.read_bare(&of.slots)) as Task<'a>).collect()
}

fn look_ups<'a>(shards: &'a mut [Shard], sequences: &'a [Sequence]) -> Vec<Task<'a>> {
    let pairs = shards.iter_mut().zip(sequences);
    pairs.map(|(shard, of)| Box::new(move || shard.look_up(of)) as Task<'a>).collect()
}

fn look_ups_counted<'a>(shards: &'a mut [Shard], sequences: &'a [Sequence]) -> Vec<Task<'a>> {
    let pairs = shards.iter_mut().zip(sequences);
    pairs.map(|(shard, of)| Box::new(move || shard.look_up_counted(of)) as Task<'a>).collect()
}

fn look_ups_of<'a>(peer: &'a dyn Peer, sequences: &'a [Sequence]) -> Vec<Task<'a>> {
    sequences.iter().map(|of| Box::new(move || peer.read(&of.keys)) as Task<'a>).collect()
}

/// All tasks: one after another in this thread, or each in one of its own.
fn timed(threads: usize, tasks: Vec<Task<'_>>) -> (f64, Read) {
    let start = Instant::now();
    let read = if threads == 1 {
        tasks.into_iter().map(|task| task()).fold(Read::default(), |a, b| a + b)
    } else {
        std::thread::scope(|scope| {
            let running: Vec<_> = tasks.into_iter().map(|task| scope.spawn(task)).collect();
            let join = |handle: std::thread::ScopedJoinHandle<'_, Read>| match handle.join() {
                Ok(read) => read,
                Err(panic) => std::panic::resume_unwind(panic),
            };
            running.into_iter().map(join).fold(Read::default(), |a, b| a + b)
        })
    };
    (start.elapsed().as_secs_f64(), read)
}

/// The middle one, the upper of two.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[cfg(test)]
mod tests;
