//! `stepwell-lab cache-sim`: eviction policies on traces of look-ups, compared with the offline
//! optimum.
//!
//! - **How.** A trace is read completely and cut into mini-batches of distinct keys; then every
//!   policy runs over it with slabs of the given sizes. With a horizon, it runs in the
//!   product's cache ([`stepwell_mem::Cache`]). Policies and sizes run in parallel on all cores.
//!
//! - **Hits.** A look-up is one distinct key of a mini-batch. It is a hit if its row is in the slab
//!   when the mini-batch is planned. Hits of a mini-batch are pinned before its misses are placed,
//!   as in the planner.
//!
//! - **Optimum.** Belady's MIN with demand fill: every missed key is placed, and the row with the
//!   farthest next use is evicted. With bypass, a missed key with the farthest next use isn't
//!   placed; the slab of a parameter server can't do that, so this is only shown for comparison.
//!
//! - **Reads.** If requested, evicted rows are put on pages, and the reads that bring them back are
//!   counted ([`ReadOptions`]). The optimum has no reads, as it minimizes misses.
//!
//! - **Failure.** One line with the file, the number and a fix.
//! - **Cost.** 10 to 60 ns per look-up, policy and size; 40 bytes of memory per look-up.
//! - **Bounds.** 2^31 look-ups per trace.

#![forbid(unsafe_code)]

mod error;
mod known;
mod optimum;
mod pages;
mod picture;
mod policy;
mod sequence;
mod size;
mod slab;
mod trace;

use std::path::{Path, PathBuf};

use rayon::prelude::*;
use serde::Serialize;

use known::Outcome;
use sequence::Sequence;

pub use error::{Error, Result};
pub use pages::{ReadOptions, Reads};
pub use picture::{check_picture, draw};
pub use policy::Candidate;
pub use size::Size;
pub use trace::Format;

/// Most mini-batches known ahead: a record has 16 bits for the next one.
const HORIZON_MAX: usize = 1 << 15;

/// Options of a simulation.
#[derive(Clone, Debug)]
pub struct Options {
    /// Format of the traces; `None` to infer it from their names.
    pub format: Option<Format>,
    /// Policies.
    pub policies: Vec<Candidate>,
    /// Sizes of the slab.
    pub sizes: Vec<Size>,
    /// Accesses per mini-batch.
    pub mini_batch: usize,
    /// Number of mini-batches ahead for which keys are known.
    pub horizon: usize,
    /// Pages of reads, if reads are counted.
    pub reads: Option<ReadOptions>,
}

/// Results for a trace.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    /// File of the trace.
    pub trace: PathBuf,
    /// Format in which it was read.
    pub format: Format,
    /// Accesses in the trace.
    pub accesses: usize,
    /// Look-ups: the distinct keys of each mini-batch.
    pub look_ups: usize,
    /// Distinct keys in the trace.
    pub keys: usize,
    /// Accesses per mini-batch.
    pub mini_batch: usize,
    /// Number of mini-batches ahead for which keys were known.
    #[serde(rename = "window")]
    pub horizon: usize,
    /// Pages of reads, if reads were counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reads: Option<ReadOptions>,
    /// Sizes as given.
    pub sizes: Vec<String>,
    /// Sizes in slots.
    pub slots: Vec<usize>,
    /// One row per policy, then the optimum.
    pub rows: Vec<Row>,
}

/// Hit rates of a policy, or of the optimum.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Name.
    pub policy: String,
    /// Hits, by size.
    pub hits: Vec<usize>,
    /// Hits over look-ups, by size.
    pub hit_rates: Vec<f64>,
    /// Reads, by size; empty if they weren't counted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reads: Vec<Reads>,
}

/// A row of the table.
#[derive(Clone, Copy, Debug)]
enum Contender {
    Policy(Candidate),
    Optimum,
    OptimumWithBypass,
}

impl Contender {
    fn name(self) -> &'static str {
        match self {
            Self::Policy(kind) => kind.name(),
            Self::Optimum => "optimum",
            Self::OptimumWithBypass => "optimum+bypass",
        }
    }

    fn run(self, sequence: &Sequence, slots: usize, options: &Options) -> Result<Outcome> {
        // More slots than keys make no difference.
        let slots = slots.min(sequence.keys());
        let (horizon, reads) = (options.horizon, options.reads);
        let hits = match self {
            Self::Policy(kind) if horizon > 0 || reads.is_some() => {
                return known::run(sequence, slots, kind, horizon, reads);
            }
            Self::Policy(kind) => slab::hits(sequence, slots, kind),
            Self::Optimum => optimum::hits(sequence, slots, false),
            Self::OptimumWithBypass => optimum::hits(sequence, slots, true),
        };
        Ok(Outcome { hits, reads: None })
    }
}

/// Returns an error if a trace is missing or has an unknown format, without reading it.
///
/// # Errors
/// A missing trace, an unknown format, or invalid options.
pub fn probe(path: &Path, options: &Options) -> Result<()> {
    check(options)?;
    trace::probe(path, options.format).map(drop)
}

/// Simulates all policies on the trace in `path`.
///
/// # Errors
/// A trace that can't be read, is empty, or has mini-batches larger than a slab; invalid options.
pub fn run(path: &Path, options: &Options) -> Result<Figures> {
    check(options)?;
    let (format, trace) = trace::read(path, options.format)?;
    let sequence = Sequence::new(&trace, options.mini_batch);
    let mut slots = Vec::new();
    for size in &options.sizes {
        slots.push(checked_slots(path, *size, &sequence)?);
    }
    let mut contenders: Vec<_> =
        options.policies.iter().map(|kind| Contender::Policy(*kind)).collect();
    contenders.push(Contender::Optimum);
    if options.mini_batch == 1 {
        contenders.push(Contender::OptimumWithBypass);
    }
    let jobs: Vec<_> =
        contenders.iter().flat_map(|who| slots.iter().map(|slots| (*who, *slots))).collect();
    let outcomes = jobs.par_iter().map(|(who, slots)| who.run(&sequence, *slots, options));
    let outcomes = outcomes.collect::<Result<Vec<Outcome>>>()?;
    let look_ups = sequence.look_ups();
    let row = |(who, outcomes): (&Contender, &[Outcome])| Row {
        policy: who.name().to_owned(),
        hits: outcomes.iter().map(|outcome| outcome.hits).collect(),
        hit_rates: outcomes.iter().map(|outcome| outcome.hits as f64 / look_ups as f64).collect(),
        reads: outcomes.iter().filter_map(|outcome| outcome.reads).collect(),
    };
    Ok(Figures {
        trace: path.to_owned(),
        format,
        accesses: sequence.accesses(),
        look_ups,
        keys: sequence.keys(),
        mini_batch: options.mini_batch,
        horizon: options.horizon,
        reads: options.reads,
        sizes: options.sizes.iter().map(ToString::to_string).collect(),
        rows: contenders.iter().zip(outcomes.chunks(slots.len())).map(row).collect(),
        slots,
    })
}

fn check(options: &Options) -> Result<()> {
    let fail = |why: &str| Err(Error::Arguments(why.to_owned()));
    if options.policies.is_empty() {
        return fail("no policy is given: give one or more with --policies");
    }
    if options.sizes.is_empty() {
        return fail("no size is given: give one or more, for example 0.01,0.1");
    }
    if options.mini_batch == 0 || options.mini_batch > 1 << 30 {
        return fail("--mini-batch: give 1 to 2^30 accesses");
    }
    if options.horizon > HORIZON_MAX {
        return fail("--window: give at most 32768 mini-batches");
    }
    options.reads.as_ref().map_or(Ok(()), |reads| check_reads(reads, options.horizon))
}

fn check_reads(reads: &ReadOptions, horizon: usize) -> Result<()> {
    let most = ReadOptions::MOST;
    let sizes = [("--rows-per-page", reads.rows_per_page), ("--read-unit", reads.read_unit)];
    if let Some((name, size)) = sizes.iter().find(|(_, size)| !(1..=most).contains(size)) {
        return Err(Error::Arguments(format!("{name} {size}: give 1 to {most}")));
    }
    if reads.harvest > 0 && horizon == 0 {
        let why =
            "--harvest needs rows of later mini-batches: give a --window of 1 or more".to_owned();
        return Err(Error::Arguments(why));
    }
    Ok(())
}

fn checked_slots(path: &Path, size: Size, sequence: &Sequence) -> Result<usize> {
    let (slots, most) = (size.slots(sequence.keys()), sequence.keys_of_a_batch_max());
    if slots >= most {
        return Ok(slots);
    }
    Err(Error::Arguments(format!(
        "{}: size {size} is {slots} slots, but a mini-batch has up to {most} distinct keys: give a \
         larger size or a smaller mini-batch",
        path.display()
    )))
}

#[cfg(test)]
mod tests;
