//! A job trained by several ranks, over a network with random delays and order.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use stepwell_base::clock::ManualClock;
use stepwell_base::rules::Rules;
use stepwell_base::stage::FullSpeed;
use stepwell_base::stop::StopRequest;
use stepwell_disk::{Disk, MemDisk};
use stepwell_engine::Checkpoint;
use stepwell_fabric::{Fabric, Post};
use stepwell_settings::ExchangeKind;
use stepwell_ssd::Compaction;
use stepwell_train::{Machine, Ranks, Report, train};

use crate::case::{Case, Pools, pools};
use crate::checkpoints::Vault;
use crate::conductor::{Conducted, Conductor};
use crate::devices::Stepped;
use crate::dice::Dice;
use crate::finding::Finding;
use crate::oracle::Oracle;
use crate::out_of_step::{is_exact, judge_apart};
use crate::places::Simulated;
use crate::process::surroundings;
use crate::shape::Shape;
use crate::tally::RanksTally;

/// Checkpoints to keep.
const CHECKPOINTS: usize = 2;
/// Most turns of all ranks together.
const TURNS_MAX: u64 = 4_000_000;

/// Runs `jobs` jobs on all cores, each with its number; returns the combined counts.
///
/// # Panics
/// If a job panics, or threads can't be started.
pub fn over_jobs(jobs: u64, job: impl Fn(u64, &Pools, &mut RanksTally) + Sync) -> RanksTally {
    let next = AtomicU64::new(0);
    let work = || {
        let mut tally = RanksTally::default();
        let pools = pools().unwrap_or_else(|why| panic!("{why}"));
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= jobs {
                return tally;
            }
            job(number, &pools, &mut tally);
        }
    };
    let threads = stepwell_base::cores();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, RanksTally>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().map(join).fold(RanksTally::default(), RanksTally::join)
    })
}

/// A process of several ranks.
#[derive(Debug)]
pub struct Ranked<'a> {
    /// Tiers of each rank.
    pub shape: &'a Shape,
    /// Number of ranks.
    pub ranks: usize,
    /// Seed of the schedule.
    pub seed: u64,
    /// Turns after which all ranks are asked to stop.
    pub stop_after: Option<u64>,
    /// Storage, possibly with files of earlier processes.
    pub world: &'a MemDisk,
    /// Checkpoint to resume from.
    pub from: Option<Checkpoint>,
}

impl Shape {
    /// Draws how rows travel between ranks. Uses separate dice, so that the rest of a schedule
    /// doesn't depend on them.
    pub fn exchange_by(&mut self, seed: u64, oracle: &Oracle) {
        let mut dice = Dice::new(seed, "exchange");
        if self.config.pipeline.staleness == 0 && !dice.once_in(4) {
            self.config.ranks.exchange = ExchangeKind::WorkingSet;
            self.config.data.batch = self.config.data.mini_batch * dice.pick(&[2, 4, 8, 32]);
            // A longer batch needs more memory for the same slots.
            self.give(self.slots.clone(), oracle);
        }
    }
}

/// How a process of several ranks ended.
#[derive(Debug)]
pub struct RanksEnd {
    /// Turns before the first rank left.
    pub turns: u64,
    /// Whether it stopped early.
    pub interrupted: bool,
    /// The last checkpoint written.
    pub kept: Option<Checkpoint>,
}

impl Case {
    /// A run of several ranks without failures.
    ///
    /// # Errors
    /// The finding of a checker.
    pub fn with_ranks(
        &self,
        process: Ranked<'_>,
        rules: Rules,
        tally: &mut RanksTally,
    ) -> Result<RanksEnd, Finding> {
        let Ranked { shape, ranks, seed, stop_after, world, from } = process;
        let steps = from.as_ref().map(|from| from.step);
        let name = format!("process-{}", tally.runs);
        let disk: Arc<dyn Disk> = Arc::new(world.clone());
        let vault = Vault::new(Arc::clone(&disk), disk, &name, CHECKPOINTS);
        let stop = StopRequest::new();
        let stopping = stop_after.map(|turns| (stop.clone(), turns));
        let (post, fabrics) = Post::new(ranks);
        let clock = Arc::new(ManualClock::default());
        let conductor = Conductor::new(post, Arc::clone(&clock), ranks, seed, TURNS_MAX, stopping);
        let outcomes: Vec<Result<Report, String>> = std::thread::scope(|scope| {
            let run = |fabric: Fabric| {
                let (conductor, clock) = (Arc::clone(&conductor), Arc::clone(&clock));
                let path = world.path().join(format!("{name}-rank-{}", fabric.rank()));
                let places = world.create_directory(&path).map(|disk| Simulated {
                    disk,
                    from: from.clone(),
                    vault: shape.checkpoints.then(|| vault.clone()),
                });
                let ranks = Ranks { fabric, stop: stop.clone(), processes: None };
                scope.spawn(move || {
                    let places = places.map_err(|error| error.to_string())?;
                    self.rank(shape, ranks, conductor, clock, places, rules)
                })
            };
            let threads: Vec<_> = fabrics.into_iter().map(run).collect();
            let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
                thread.join().unwrap_or_else(|_| Err("a rank panicked".to_owned()))
            };
            threads.into_iter().map(join).collect()
        });
        tally.runs += 1;
        tally.turns += conductor.turns_together();
        tally.resumed += u64::from(steps.is_some());
        if let Some(trouble) = conductor.trouble() {
            return Err(trouble.into());
        }
        let mut reports = Vec::new();
        for outcome in outcomes {
            reports.push(outcome.map_err(Finding::Failed)?);
        }
        let exact = is_exact(&shape.config, ranks);
        let kept = self.judge_vault(&vault, exact, tally)?;
        let interrupted = reports.iter().any(|report| report.interrupted);
        if interrupted {
            tally.stopped += 1;
            judge_stopped(&reports, shape, kept.as_ref().map(|kept| kept.step).or(steps))?;
        } else if exact {
            self.judge_ranks(&mut reports, steps, tally)?;
        } else {
            judge_heard(&mut reports)?;
            judge_apart(&reports, shape, self.oracle(), steps, tally)?;
        }
        Ok(RanksEnd { turns: conductor.turns_together(), interrupted, kept })
    }

    /// Checks that all checkpoints are readable and, if `exact`, equal the model after their step;
    /// returns the last one.
    fn judge_vault(
        &self,
        vault: &Vault,
        exact: bool,
        tally: &mut RanksTally,
    ) -> Result<Option<Checkpoint>, Finding> {
        let kept = vault.kept();
        if let Some(why) = kept.unreadable.first() {
            return Err(Finding::LostCheckpoint(why.clone()));
        }
        if exact {
            self.judge_checkpoints(&kept)?;
        }
        tally.checkpoints += kept.digests.len() as u64;
        Ok(kept.checkpoints.last().cloned())
    }

    fn judge_ranks(
        &self,
        reports: &mut [Report],
        resumed: Option<u64>,
        tally: &mut RanksTally,
    ) -> Result<(), Finding> {
        let uses = reports.iter().map(|report| report.tiers.host.uses).sum();
        judge_heard(reports)?;
        let exchanged: Vec<_> = reports.iter().filter_map(|report| report.ranks).collect();
        let lent: u64 = exchanged.iter().map(|ranks| ranks.rows_borrowed).sum();
        tally.early += exchanged.iter().map(|ranks| ranks.rows_early).sum::<u64>();
        (tally.lent, tally.lending) = (tally.lent + lent, tally.lending + u64::from(lent > 0));
        for report in reports {
            tally.evictions += report.tiers.host.evictions;
            tally.refilled += report.tiers.host.refilled;
            tally.lifted += report.tiers.device.as_ref().map_or(0, |device| device.count.fills);
            // The policies of all owners together have the counts of a single rank's policy.
            report.tiers.host.uses = uses;
            self.oracle().compare(report, resumed)?;
        }
        Ok(())
    }

    /// Runs one of the ranks until it ends.
    fn rank(
        &self,
        shape: &Shape,
        ranks: Ranks,
        conductor: Arc<Conductor>,
        clock: Arc<ManualClock>,
        places: Simulated,
        rules: Rules,
    ) -> Result<Report, String> {
        let rank = ranks.fabric.rank();
        let mut config = shape.config.clone();
        config.ranks.count = ranks.fabric.size();
        let driver = Conducted { conductor: Arc::clone(&conductor), rank };
        let machine = Machine {
            clock,
            pace: Arc::new(FullSpeed),
            driver: Arc::new(driver),
            ranks: Some(ranks),
            network: None,
            late: None,
            pool: Some(Arc::clone(self.pool(shape.config.threads))),
            places: Arc::new(places),
            devices: Arc::new(Stepped { seed: rank as u64, fault: None }),
            compaction: Compaction::Inline,
            index_seed: Some(0),
            witness: None,
            rules,
            sizes: Some(shape.sizes.clone()),
        };
        let around = surroundings(machine, StopRequest::new(), shape);
        let outcome = train(&config, &around);
        conductor.leaves(rank);
        outcome.map_err(|error| format!("rank {rank}: {error}"))
    }
}

/// Checks that all ranks received the same losses. Only rank 0 measures more, which is then copied
/// to the others.
fn judge_heard(reports: &mut [Report]) -> Result<(), Finding> {
    let heard = |report: &Report| {
        let all = report.eval_by_epoch.iter().chain(&report.progressive_by_epoch);
        all.map(|of| (of.examples, of.logloss)).collect::<Vec<_>>()
    };
    let Some((first, others)) = reports.split_first_mut() else { return Ok(()) };
    for other in others {
        if heard(other) != heard(first) {
            let (heard, right) = (heard(other), heard(first));
            return Err(Finding::WrongFigures(format!(
                "heard {heard:?}, but rank 0 heard {right:?}"
            )));
        }
        other.eval.clone_from(&first.eval);
        other.eval_by_epoch.clone_from(&first.eval_by_epoch);
        other.progressive_by_epoch.clone_from(&first.progressive_by_epoch);
    }
    Ok(())
}

/// Checks that ranks that were asked to stop did so after the same step, and saved it: the last
/// checkpoint is of step `kept`.
fn judge_stopped(reports: &[Report], shape: &Shape, kept: Option<u64>) -> Result<(), Finding> {
    let ends = reports.iter().map(|report| (report.interrupted, report.steps));
    let ends: Vec<(bool, u64)> = ends.collect();
    if ends.iter().any(|end| *end != ends[0]) {
        return Err(Finding::WrongEnd(format!("ranks stopped after different steps: {ends:?}")));
    }
    let (trained, kept) = (ends[0].1, kept.unwrap_or(0));
    if shape.checkpoints && trained != kept {
        let why =
            format!("{trained} steps were trained, but the last checkpoint is of step {kept}");
        return Err(Finding::LostCheckpoint(why));
    }
    Ok(())
}
