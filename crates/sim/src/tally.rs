//! How much was simulated, so that a test can see that it met what it should meet.

use crate::life::Life;

/// Counts over many schedules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Runs of the pipeline, each under a schedule of its own.
    pub runs: u64,
    /// Polls.
    pub turns: u64,
    /// Schedules of jobs whose slots have bags of any number of ids.
    pub bags: u64,
    /// Runs on a disk that failed.
    pub disturbed: u64,
    /// Those of them in which something did fail before they ended.
    pub fired: u64,
    /// Times that the power went.
    pub cuts: u64,
    /// Runs that were asked to stop before they were through.
    pub stopped: u64,
    /// Runs that went on from a checkpoint.
    pub resumed: u64,
    /// Runs that ended with an error.
    pub errors: u64,
    /// Checkpoints written.
    pub checkpoints: u64,
    /// Steps of runs that came to their end.
    pub steps: u64,
    /// Rows that left their slot.
    pub evictions: u64,
    /// Rows served on their way down.
    pub forwarded: u64,
    /// Rows read from the store.
    pub refilled: u64,
    /// Merges of segments.
    pub compactions: u64,
    /// A hash of all traces.
    pub trace: u64,
}

impl Tally {
    /// Counts one life.
    pub fn add(&mut self, life: &Life) {
        self.runs += 1;
        self.turns += life.log.turns;
        self.trace = self.trace.wrapping_mul(31) ^ life.log.trace;
        self.checkpoints += life.vault.kept().digests.len() as u64;
        let Ok(report) = &life.result else {
            self.errors += 1;
            return;
        };
        let (host, disk) = (&report.tiers.host, &report.tiers.disk);
        if report.interrupted {
            self.stopped += 1;
            return;
        }
        self.steps += report.steps;
        self.evictions += host.evictions;
        self.forwarded += host.forwarded;
        self.refilled += host.refilled;
        self.compactions += disk.compactions;
    }

    /// The counts of both.
    pub fn join(self, other: Self) -> Self {
        Self {
            runs: self.runs + other.runs,
            turns: self.turns + other.turns,
            bags: self.bags + other.bags,
            disturbed: self.disturbed + other.disturbed,
            fired: self.fired + other.fired,
            cuts: self.cuts + other.cuts,
            stopped: self.stopped + other.stopped,
            resumed: self.resumed + other.resumed,
            errors: self.errors + other.errors,
            checkpoints: self.checkpoints + other.checkpoints,
            steps: self.steps + other.steps,
            evictions: self.evictions + other.evictions,
            forwarded: self.forwarded + other.forwarded,
            refilled: self.refilled + other.refilled,
            compactions: self.compactions + other.compactions,
            trace: self.trace ^ other.trace,
        }
    }
}
