//! Runs the pipeline of a built run to its end and assembles its report.

use std::sync::Arc;

use stepwell_base::queue::Events;
use stepwell_base::stage::Rhythm;
use stepwell_base::stop::StopRequest;
use stepwell_data::{CacheMaking, DataError};
use stepwell_engine::{Error as EngineError, Times};
use stepwell_ssd::Error as StoreError;

use super::build::Built;
use super::digest::digest;
use super::figures::assemble;
use super::full_index;
use super::surroundings::Surroundings;
use crate::batch::RunPosition;
use crate::pipeline::{self, Counters, Parts, Passes, Patience, Plateaus, Saver};
use crate::report::{self, Processor, Report};
use crate::resume::{FallenRates, Waited};
use crate::run_plan::RunPlan;
use crate::{Error, Result};

/// Passes of a pipeline, their start position, and the cache that is made of their data.
pub(super) struct Reads {
    pub(super) passes: Passes,
    /// Evaluations within epochs, without an end, if there are any.
    pub(super) evaluations: Option<Passes>,
    /// Hash of the identity of the evaluation data.
    pub(super) evaluated_on: u64,
    /// The evaluations of the run that is resumed.
    pub(super) waited: Option<Waited>,
    /// The learning rates that fell at plateaus.
    pub(super) plateaus: FallenRates,
    /// Whether that run ended with its data.
    pub(super) is_complete: bool,
    pub(super) start: RunPosition,
    pub(super) cache: Option<CacheMaking>,
    /// Whether nothing is trained.
    pub(super) only_scores: bool,
}

/// Trains, or scores, and reports.
pub(super) fn execute(
    plan: &RunPlan<'_>,
    around: &Surroundings,
    built: Built,
    (reads, saver, initial): (Reads, Option<Saver>, bool),
    begin: f64,
) -> Result<Report> {
    let counters = Arc::new(Counters::default());
    let rhythm = Rhythm {
        events: Events::new(),
        clock: Arc::clone(&around.machine.clock),
        pace: Arc::clone(&around.machine.pace),
    };
    full_index::watch(around, &built.groups, saver.is_some());
    // Created first and dropped last: merging stores write there until they end.
    let Built { mut place, capacity, groups, planners, mode } = built;
    let (every, step) = (plan.evaluate_every, reads.start.step);
    let is_due = every > 0 && step > 0 && step.is_multiple_of(every);
    let best = plan.storage.checkpoints.best;
    let patience = Patience::new(plan.patience, best, reads.evaluated_on, reads.waited);
    let plateaus = Plateaus::new(&plan.config.optim, best, reads.evaluated_on, reads.plateaus);
    let ended_early = patience.over().is_some() && !reads.is_complete;
    // It says that the run is over.
    let initial = initial || ended_early;
    let end = around.stop.of_part();
    let parts = Parts {
        evaluations: reads.evaluations,
        evaluates_first: is_due && reads.waited.is_none_or(|waited| waited.evaluated < step),
        patience,
        plateaus,
        ended_early,
        block_bytes: capacity.block_bytes,
        passes: reads.passes,
        start: reads.start,
        cache: reads.cache,
        groups: groups.clone(),
        planners,
        mode,
        times: times(plan.storage.checkpoints.minutes, around, (end, saver.is_some()), initial),
        saver,
        observer: Arc::clone(&around.observer),
        exact_scores: capacity.exact_scores,
        counters: Arc::clone(&counters),
        only_scores: reads.only_scores,
    };
    let clock = &around.machine.clock;
    let before = clock.process_seconds();
    let outcome = pipeline::run(plan, parts, &*around.machine.driver, &rhythm);
    // A user will want to inspect a store that failed.
    if outcome.as_ref().err().is_none_or(Error::is_of_store) {
        place.keep();
    }
    let seconds = clock.process_seconds() - before;
    let outcome = outcome.map_err(full_index::not_kept)?;
    full_index::check(&groups, outcome.measured.saved)?;
    if let Some(last) = outcome.measured.last_step {
        return Err(Error::LastStep { step: last, last });
    }
    let ended = clock.seconds();
    let stopped = around.stop.is_made() || outcome.measured.ranks_stopped;
    let planners = &outcome.planners;
    let digest = if stopped { None } else { digest(around, &groups, planners)? };
    let digest_seconds = if around.digest { clock.seconds() - ended } else { 0.0 };
    let digest = digest.as_ref();
    let mut report = assemble(around, &capacity, &groups, &counters, outcome, digest, plan)?;
    if let Some(layout) = &plan.layout {
        report.cut_lists = counters.cut_lists().of(layout);
    }
    report.tiers.disk.set_aside = place.aside();
    report.processor = Processor::of(seconds);
    report.interrupted = stopped || (around.digest && digest.is_none());
    report.wall_seconds = ended - begin;
    report.digest_seconds = digest_seconds;
    report.train_seconds = report.train_seconds.max(f64::MIN_POSITIVE) - begin;
    report.examples_per_second = report.examples as f64 / report.train_seconds;
    report.peak_rss_bytes = report::peak_rss_bytes();
    Ok(report)
}

/// Returns when to write checkpoints, if the run `saves` any: every `minutes`, if there are any,
/// and when `stop` is requested.
fn times(
    minutes: f64,
    around: &Surroundings,
    (stop, saves): (StopRequest, bool),
    initial: bool,
) -> Times {
    let seconds = minutes * 60.0;
    let seconds = (seconds > 0.0).then_some(seconds);
    let shared = around.machine.ranks.is_some();
    Times { saves, seconds, initial, shared, stop }
}

/// Converts the errors of parts that were stopped early into an interruption; streams and objects
/// are read until a stop is requested.
pub(super) fn stopped(error: Error, stop: &StopRequest) -> Error {
    match error {
        Error::Data(DataError::Stopped)
        | Error::Store(StoreError::Stopped)
        | Error::Engine(EngineError::Store(StoreError::Stopped)) => Error::Interrupted,
        Error::Data(_) if stop.is_made() => Error::Interrupted,
        other => other,
    }
}

/// Adds to a device's failure whether the run `saves` checkpoints, which then remain.
pub(super) fn add_saves(error: Error, saves: bool) -> Error {
    match error {
        Error::Engine(EngineError::Device(source)) => Error::Device { source, saves },
        other => other,
    }
}
