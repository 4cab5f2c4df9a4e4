//! Counts of simulated runs and features, so that a test can verify its coverage.

use crate::job_properties::Traits;
use crate::process::Exit;

/// Counts over many schedules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Runs of the pipeline, each with a separate schedule.
    pub runs: u64,
    /// Polls.
    pub turns: u64,
    /// Properties of the schedules' jobs.
    pub tables: TableTally,
    /// Runs on a failing disk.
    pub disturbed: u64,
    /// Runs on a failing disk in which something failed before they ended.
    pub fired: u64,
    /// Power failures.
    pub cuts: u64,
    /// Runs that stopped early on request.
    pub stopped: u64,
    /// Runs that resumed from a checkpoint.
    pub resumed: u64,
    /// Runs that ended with an error.
    pub errors: u64,
    /// Checkpoints written.
    pub checkpoints: u64,
    /// Steps of finished runs.
    pub steps: u64,
    /// Evicted rows.
    pub evictions: u64,
    /// Rows served from staging.
    pub forwarded: u64,
    /// Rows read from the store.
    pub refilled: u64,
    /// Rows read from the store that were harvested.
    pub harvested: u64,
    /// Merges of segments.
    pub compactions: u64,
    /// Rows lifted to devices.
    pub lifted: u64,
    /// Rows that were on their device when they were planned.
    pub on_devices: u64,
    /// Runs that ended because their device failed.
    pub device_faults: u64,
    /// Hash of all traces.
    pub trace: u64,
}

/// Counts of schedules by properties of their jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableTally {
    /// Slots with bags of any number of ids.
    pub bags: u64,
    /// Empty bags of named features.
    pub empty: u64,
    /// Bags of more than 20 ids.
    pub large: u64,
    /// Weighted bags.
    pub weighed: u64,
    /// Several table groups.
    pub groups: u64,
    /// A group of several tables.
    pub shared: u64,
    /// A table that stays in memory.
    pub whole: u64,
    /// A table that must stay in memory but doesn't fit.
    pub full: u64,
    /// A table with delayed admission, and another one with expiry.
    pub lives: u64,
    /// A group of several tables evicted rows.
    pub shared_left: u64,
}

impl TableTally {
    /// Counts a schedule of a job with `traits`.
    pub(crate) fn met(&mut self, traits: &Traits) {
        self.bags += u64::from(traits.bags);
        self.empty += u64::from(traits.empty);
        self.large += u64::from(traits.large);
        self.weighed += u64::from(traits.weighed);
        self.groups += u64::from(traits.groups);
        self.shared += u64::from(traits.shared);
        self.whole += u64::from(traits.whole);
        self.full += u64::from(traits.full);
        self.lives += u64::from(traits.lives);
    }

    /// Counts a run in which the groups marked in `left` evicted rows.
    pub(crate) fn evicted(&mut self, traits: &Traits, left: &[bool]) {
        let shared = traits.group_sizes.iter().map(|tables| *tables > 1);
        self.shared_left += u64::from(shared.zip(left).any(|(shared, left)| shared && *left));
    }

    /// All counts.
    pub fn all(&self) -> [u64; 10] {
        let Self { bags, empty, large, weighed, groups, .. } = *self;
        let Self { shared, whole, full, lives, shared_left, .. } = *self;
        [bags, empty, large, weighed, groups, shared, whole, full, lives, shared_left]
    }

    fn join(self, other: Self) -> Self {
        Self {
            bags: self.bags + other.bags,
            empty: self.empty + other.empty,
            large: self.large + other.large,
            weighed: self.weighed + other.weighed,
            groups: self.groups + other.groups,
            shared: self.shared + other.shared,
            whole: self.whole + other.whole,
            full: self.full + other.full,
            lives: self.lives + other.lives,
            shared_left: self.shared_left + other.shared_left,
        }
    }
}

impl Tally {
    /// Counts one process.
    pub fn add(&mut self, exit: &Exit) {
        self.runs += 1;
        self.turns += exit.log.turns;
        self.trace = self.trace.wrapping_mul(31) ^ exit.log.trace;
        self.checkpoints += exit.vault.kept().digests.len() as u64;
        let Ok(report) = &exit.result else {
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
        self.harvested += disk.harvest_used;
        self.compactions += disk.compactions;
        if let Some(device) = &report.tiers.device {
            self.lifted += device.count.fills;
            self.on_devices += device.count.hits;
        }
    }

    /// Combines both counts.
    pub fn join(self, other: Self) -> Self {
        Self {
            runs: self.runs + other.runs,
            turns: self.turns + other.turns,
            tables: self.tables.join(other.tables),
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
            harvested: self.harvested + other.harvested,
            compactions: self.compactions + other.compactions,
            lifted: self.lifted + other.lifted,
            on_devices: self.on_devices + other.on_devices,
            device_faults: self.device_faults + other.device_faults,
            trace: self.trace ^ other.trace,
        }
    }
}

/// Counts over schedules of several ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RanksTally {
    /// Number of runs.
    pub runs: u64,
    /// Polls and parcels.
    pub turns: u64,
    /// Evicted rows of all ranks.
    pub evictions: u64,
    /// Refilled rows.
    pub refilled: u64,
    /// Runs that stopped early on request.
    pub stopped: u64,
    /// Checkpoints that equal the model after their step.
    pub checkpoints: u64,
    /// Runs that resumed from a checkpoint.
    pub resumed: u64,
    /// Rows that ranks lent each other, in finished runs.
    pub lent: u64,
    /// Runs that lent rows.
    pub lending: u64,
    /// Rows sent before the step that needs them, in these runs.
    pub early: u64,
    /// Rows lifted to devices.
    pub lifted: u64,
    /// Most steps missing from a row when it was read, in ranks out of step.
    pub lacked: u64,
    /// Gradients of the dense part that a protocol dropped.
    pub dropped: u64,
    /// Number of ranks that finished with the dense part in tables.
    pub in_tables: u64,
    /// Most clocks missing from a read of one of these with a bound.
    pub missed: u64,
}

impl RanksTally {
    /// Combines both counts.
    pub fn join(self, other: Self) -> Self {
        Self {
            runs: self.runs + other.runs,
            turns: self.turns + other.turns,
            evictions: self.evictions + other.evictions,
            refilled: self.refilled + other.refilled,
            stopped: self.stopped + other.stopped,
            checkpoints: self.checkpoints + other.checkpoints,
            resumed: self.resumed + other.resumed,
            lent: self.lent + other.lent,
            lending: self.lending + other.lending,
            early: self.early + other.early,
            lifted: self.lifted + other.lifted,
            lacked: self.lacked.max(other.lacked),
            dropped: self.dropped + other.dropped,
            in_tables: self.in_tables + other.in_tables,
            missed: self.missed.max(other.missed),
        }
    }
}
