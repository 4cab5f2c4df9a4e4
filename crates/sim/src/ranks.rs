//! A job that several ranks train together, over a network whose delays and order a seed chooses.

use std::sync::Arc;

use serde_json::Value;
use stepwell_base::clock::ManualClock;
use stepwell_base::rules::Rules;
use stepwell_base::stage::FullSpeed;
use stepwell_base::stop::StopRequest;
use stepwell_disk::MemDisk;
use stepwell_engine::Placement;
use stepwell_fabric::{Fabric, Post};
use stepwell_ssd::Compaction;
use stepwell_train::{Machine, Ranks, Report, RowsAtStart, Silence, Surroundings, train};

use crate::case::Case;
use crate::conductor::{Conducted, Conductor};
use crate::finding::{Finding, compare};
use crate::places::Simulated;
use crate::shape::Shape;

/// Turns of all ranks together at most.
const TURNS_MAX: u64 = 4_000_000;

/// What schedules of several ranks came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RanksTally {
    /// Runs.
    pub runs: u64,
    /// Polls and parcels.
    pub turns: u64,
    /// Rows that left memory, of all ranks.
    pub evictions: u64,
    /// Rows that came up again.
    pub refilled: u64,
    /// Runs that were asked to stop, and did before their end.
    pub stopped: u64,
}

impl Case {
    /// A run of so many ranks, each with the tiers of `shape`, in which nothing fails. It gives how
    /// many turns it took; after so many as `stop_after`, all are asked to stop.
    ///
    /// # Errors
    /// What a checker found.
    pub fn with_ranks(
        &self,
        shape: &Shape,
        (ranks, seed, stop_after): (usize, u64, Option<u64>),
        rules: Rules,
        tally: &mut RanksTally,
    ) -> Result<u64, Finding> {
        let stop = StopRequest::new();
        let stopping = stop_after.map(|turns| (stop.clone(), turns));
        let (post, fabrics) = Post::new(ranks);
        let clock = Arc::new(ManualClock::default());
        let choices = (ranks, seed, TURNS_MAX);
        let conductor = Conductor::new(post, Arc::clone(&clock), choices, stopping);
        let outcomes: Vec<Result<Report, String>> = std::thread::scope(|scope| {
            let run = |fabric: Fabric| {
                let (conductor, clock) = (Arc::clone(&conductor), Arc::clone(&clock));
                let ranks = Ranks { fabric, stop: stop.clone() };
                scope.spawn(move || self.rank(shape, (ranks, conductor, clock), rules))
            };
            let threads: Vec<_> = fabrics.into_iter().map(run).collect();
            let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
                thread.join().unwrap_or_else(|_| Err("a rank panicked".to_owned()))
            };
            threads.into_iter().map(join).collect()
        });
        tally.runs += 1;
        tally.turns += conductor.turns_together();
        if let Some(trouble) = conductor.trouble() {
            return Err(trouble.into());
        }
        let mut reports = Vec::new();
        for outcome in outcomes {
            reports.push(outcome.map_err(Finding::Failed)?);
        }
        if reports.iter().any(|report| report.interrupted) {
            tally.stopped += 1;
            return judge_stopped(&reports).map(|()| conductor.turns_together());
        }
        let uses = reports.iter().map(|report| report.tiers.host.uses).sum();
        for report in &mut reports {
            tally.evictions += report.tiers.host.evictions;
            tally.refilled += report.tiers.host.refilled;
            // The policies of all owners together are told what one is.
            report.tiers.host.uses = uses;
            compare(report, self.oracle(), false)?;
        }
        Ok(conductor.turns_together())
    }

    /// One of the ranks, until it ends.
    fn rank(
        &self,
        shape: &Shape,
        (ranks, conductor, clock): (Ranks, Arc<Conductor>, Arc<ManualClock>),
        rules: Rules,
    ) -> Result<Report, String> {
        let rank = ranks.fabric.rank();
        let places = Simulated { disk: Arc::new(MemDisk::new()), from: None, vault: None };
        let driver = Conducted { conductor: Arc::clone(&conductor), rank };
        let machine = Machine {
            clock,
            pace: Arc::new(FullSpeed),
            driver: Arc::new(driver),
            ranks: Some(ranks),
            pool: Some(Arc::clone(self.pool(shape.config.threads))),
            places: Arc::new(places),
            compaction: Compaction::Inline,
            index_seed: Some(0),
            witness: None,
            rules,
            sizes: Some(shape.sizes),
        };
        let around = Surroundings {
            observer: Arc::new(Silence),
            machine,
            stop: StopRequest::new(),
            placement: Placement::Fresh,
            rows: RowsAtStart::default(),
            repaired_rows: false,
            digest: true,
            settings: Value::Null,
            on_plan: Arc::new(|_| {}),
            on_note: Arc::new(|_| {}),
        };
        let outcome = train(&shape.config, &around);
        conductor.leaves(rank);
        outcome.map_err(|error| format!("rank {rank}: {error}"))
    }
}

/// Whether ranks that were asked to stop did so after the same step.
fn judge_stopped(reports: &[Report]) -> Result<(), Finding> {
    let ends = reports.iter().map(|report| (report.interrupted, report.steps));
    let ends: Vec<(bool, u64)> = ends.collect();
    match ends.iter().all(|end| *end == ends[0]) {
        true => Ok(()),
        false => Err(Finding::WrongEnd(format!("ranks stopped after other steps: {ends:?}"))),
    }
}
