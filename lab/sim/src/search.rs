//! Runs many schedules on several threads; each simulation uses one.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use stepwell_base::rules::Rules;

use crate::case::{Case, Pools, SCHEDULES_PER_JOB, pools};
use crate::finding::Finding;
use crate::tally::Tally;

/// A schedule with a finding.
#[derive(Clone, Debug)]
pub struct Found {
    /// Seed of the schedule.
    pub seed: u64,
    /// The finding.
    pub finding: Finding,
}

impl std::fmt::Display for Found {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { seed, finding } = self;
        write!(
            f,
            "{finding}\nreproduce it: STEPWELL_SIM_SEED={seed} cargo test -p stepwell-sim --test \
             it schedules -- --nocapture"
        )
    }
}

/// Runs the schedules of `seeds` on `threads` threads, each until its first finding.
///
/// # Errors
/// The finding with the lowest seed; jobs after it are skipped.
pub fn search(seeds: Range<u64>, rules: Rules, threads: usize) -> Result<Tally, Found> {
    let next = AtomicU64::new(seeds.start / SCHEDULES_PER_JOB);
    let outcome = Mutex::new((Tally::default(), None::<Found>));
    let work = || -> Result<(), Found> {
        let pools = pools().map_err(|finding| Found { seed: seeds.start, finding })?;
        loop {
            let job = next.fetch_add(1, Ordering::Relaxed);
            let first = (job * SCHEDULES_PER_JOB).max(seeds.start);
            let end = ((job + 1) * SCHEDULES_PER_JOB).min(seeds.end);
            if first >= end {
                return Ok(());
            }
            let mut tally = Tally::default();
            run_job(first..end, rules, &pools, &mut tally)?;
            let mut outcome = outcome.lock().unwrap_or_else(PoisonError::into_inner);
            outcome.0 = outcome.0.join(tally);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let Err(found) = work() else { return };
                next.store(seeds.end.div_ceil(SCHEDULES_PER_JOB), Ordering::Relaxed);
                let mut outcome = outcome.lock().unwrap_or_else(PoisonError::into_inner);
                if outcome.1.as_ref().is_none_or(|other| other.seed > found.seed) {
                    outcome.1 = Some(found);
                }
            });
        }
    });
    let (tally, found) = outcome.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.map_or(Ok(tally), Err)
}

/// Runs schedules of one job.
///
/// # Errors
/// The first finding.
pub fn run_job(
    seeds: Range<u64>,
    rules: Rules,
    pools: &Pools,
    tally: &mut Tally,
) -> Result<(), Found> {
    let seed = seeds.start;
    let case = Case::of(seed, pools).map_err(|finding| Found { seed, finding })?;
    for seed in seeds {
        case.run(seed, rules, tally).map_err(|finding| Found { seed, finding })?;
    }
    Ok(())
}
