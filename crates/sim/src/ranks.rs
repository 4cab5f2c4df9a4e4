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
}

impl Case {
    /// A run of so many ranks, each with the tiers of `shape`, in which nothing fails.
    ///
    /// # Errors
    /// What a checker found.
    pub fn with_ranks(
        &self,
        shape: &Shape,
        (ranks, seed): (usize, u64),
        rules: Rules,
        tally: &mut RanksTally,
    ) -> Result<(), Finding> {
        let (post, fabrics) = Post::new(ranks);
        let clock = Arc::new(ManualClock::default());
        let conductor = Conductor::new(post, Arc::clone(&clock), (ranks, seed, TURNS_MAX));
        let outcomes: Vec<Result<Report, String>> = std::thread::scope(|scope| {
            let run = |fabric: Fabric| {
                let (conductor, clock) = (Arc::clone(&conductor), Arc::clone(&clock));
                scope.spawn(move || self.rank(shape, (fabric, conductor, clock), rules))
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
        let uses = reports.iter().map(|report| report.tiers.host.uses).sum();
        for report in &mut reports {
            tally.evictions += report.tiers.host.evictions;
            tally.refilled += report.tiers.host.refilled;
            // The policies of all owners together are told what one is.
            report.tiers.host.uses = uses;
            compare(report, self.oracle(), false)?;
        }
        Ok(())
    }

    /// One of the ranks, until it ends.
    fn rank(
        &self,
        shape: &Shape,
        (fabric, conductor, clock): (Fabric, Arc<Conductor>, Arc<ManualClock>),
        rules: Rules,
    ) -> Result<Report, String> {
        let rank = fabric.rank();
        let places = Simulated { disk: Arc::new(MemDisk::new()), from: None, vault: None };
        let driver = Conducted { conductor: Arc::clone(&conductor), rank };
        let machine = Machine {
            clock,
            pace: Arc::new(FullSpeed),
            driver: Arc::new(driver),
            ranks: Some(Ranks { fabric, stop: StopRequest::new() }),
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
