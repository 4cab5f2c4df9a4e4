//! A run from settings to report: files, capacity, tiers, pipeline, digest.

mod agree;
mod build;
mod checkpoints;
mod digest;
mod figures;
mod full_index;
mod groups;
mod last_step;
mod one_class;
mod ranks;
mod reading;
mod score;
mod space;
mod surroundings;
mod warm_up;

use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::Arc;

use stepwell_base::queue::Events;
use stepwell_base::stage::Rhythm;
use stepwell_base::stop::StopRequest;
use stepwell_data::{CacheMaking, DataError, Sources};
use stepwell_engine::process_limits::{self, FilesWanted};
use stepwell_engine::{Checkpoint, Error as EngineError, TableSpec, Times};
use stepwell_nn::ParameterSpec;
use stepwell_settings::Config;
use stepwell_ssd::Error as StoreError;
use tracing::info;

use self::agree::agree;
use self::build::{Beginning, Built, StartWith, build, capacity, ranks_here};
use self::digest::digest;
use self::figures::assemble;
use self::one_class::one_class_notes;
pub use self::reading::synth_options;
use self::reading::{PURPOSES, check_evaluation, nothing_chosen, share, sources};
pub use self::score::evaluate;
pub use self::surroundings::{RowsAtStart, Surroundings};
use crate::batch::RunPosition;
use crate::capacity::{Capacity, Expected};
use crate::forecast::{Forecast, Known};
use crate::machine::Machine;
use crate::models::Model;
use crate::pipeline::{self, Counters, Parts, Passes, Saver};
use crate::report::{self, Processor, Report};
use crate::run_plan::{RunPlan, schema};
use crate::warm_start::WarmStart;
use crate::{Error, Result};

/// Trains and evaluates as `config` says: runs all ranks as threads of this process, or only the
/// rank of `around.machine`.
///
/// # Errors
/// Everything that the user can fix, and I/O errors.
pub fn train(config: &Config, around: &Surroundings) -> Result<Report> {
    let saves = config.checkpoint.dir.is_some();
    let ranks = ranks_here(config.ranks.count, around.machine.ranks.as_ref()).threads;
    // Checked before any file is opened; there is at least one store.
    build::check_files(&FilesWanted { ranks, stores: 1, checkpoints: saves })?;
    let report = match &around.machine.ranks {
        Some(ranks) if ranks.processes.is_some() => ranks::run_process(config, around, ranks),
        Some(ranks) => ranks::run_rank(config, around, &ranks.fabric),
        None if config.ranks.count > 1 => ranks::train(config, around),
        None => run(config, around),
    };
    let report = report.map_err(|error| reading::name_columns(told(error, saves), config))?;
    report.cut_lists.iter().for_each(|column| (around.on_note)(&column.note()));
    Ok(report)
}

/// Adds to a device's failure whether the run `saves` checkpoints, which then remain.
fn told(error: Error, saves: bool) -> Error {
    match error {
        Error::Engine(EngineError::Device(source)) => Error::Device { source, saves },
        other => other,
    }
}

/// Converts the errors of parts that were stopped early into an interruption; streams and objects
/// are read until a stop is requested.
fn stopped(error: Error, stop: &StopRequest) -> Error {
    match error {
        Error::Data(DataError::Stopped)
        | Error::Store(StoreError::Stopped)
        | Error::Engine(EngineError::Store(StoreError::Stopped)) => Error::Interrupted,
        Error::Data(_) if stop.is_made() => Error::Interrupted,
        other => other,
    }
}

fn run(config: &Config, around: &Surroundings) -> Result<Report> {
    let plan = &RunPlan::of(config)?;
    let begin = around.machine.clock.seconds();
    // Before the first step, any rank may stop alone: its error ends all.
    let stop = around.machine.ranks.as_ref().map_or(&around.stop, |ranks| &ranks.stop);
    let begun = get_ready(plan, around, stop).map_err(|error| stopped(error, stop))?;
    let Ready { built, reads, saver, from, resumes, counts, told_ahead, unscaled } = begun;
    let rank = around.machine.ranks.as_ref().map_or(0, |ranks| ranks.fabric.rank());
    let after_step = from.as_ref().map_or(0, |from| from.step);
    info!(rank, after_step, seed = config.seed, model = config.model.kind.name(), "run begins");
    let initial = plan.storage.checkpoints.initial && from.is_none();
    let report = finish(plan, around, built, (reads, saver, initial), begin);
    let rows_from = from.as_ref().map(|from| &*from.path);
    let mut report = report.map_err(|error| error.naming(&unscaled).of_rows_from(rows_from))?;
    let from = from.as_ref().map(|from| from.step);
    report.steps_before = from.unwrap_or(0);
    let Report { steps, examples, wall_seconds, interrupted, .. } = report;
    info!(rank, steps, examples, seconds = wall_seconds, interrupted, "run ended");
    if resumes && from == Some(report.steps) && !report.interrupted {
        (around.on_note)(&format!(
            "nothing was left to train: the run with data.epochs = {} ended at step {}; raise \
             data.epochs to continue",
            plan.data.epochs, report.steps
        ));
    }
    if counts && !told_ahead && !report.interrupted {
        let note = warm_up::after(plan, &report);
        note.iter().for_each(|note| (around.on_note)(note));
    }
    one_class_notes(&report).iter().for_each(|note| (around.on_note)(note));
    Ok(report)
}

/// A run before its first step.
struct Ready {
    built: Built,
    reads: Reads,
    saver: Option<Saver>,
    from: Option<BegunWith>,
    /// Whether this run continues an earlier run.
    resumes: bool,
    /// Whether a warm-up counts keys, and whether its outcome was already noted.
    counts: bool,
    told_ahead: bool,
    /// Dense columns with large numbers, and the largest of each.
    unscaled: Vec<(String, f32)>,
}

/// The checkpoint whose model a run begins with.
struct BegunWith {
    step: u64,
    path: PathBuf,
}

/// Does everything that precedes the first step.
fn get_ready(plan: &RunPlan<'_>, around: &Surroundings, stop: &StopRequest) -> Result<Ready> {
    let sources = sources(plan, stop)?;
    let fabric = around.machine.ranks.as_ref().map(|ranks| &ranks.fabric);
    let sources = share(plan, sources, fabric, stop)?;
    sources.check_read_once()?;
    if check_evaluation(plan.config, &sources, stop)? == Some(0) {
        nothing_chosen(plan.data)?;
        (around.on_note)("the evaluation part has no example: nothing will be evaluated");
    }
    agree(plan, around, &sources)?;
    // Precedes setting checkpoints aside: an impossible cache must leave everything unchanged.
    let begun = sources.begin_cache()?;
    let start = checkpoints::start(plan, around, &sources)?;
    start.from.as_ref().map_or(Ok(()), |from| last_step::check(plan.config, from))?;
    let place = start.position.read_from();
    let notes = sources.notes.iter().cloned();
    let notes = notes.chain(sources.cache_note(place));
    let begun_from = start.from.as_deref().filter(|_| plan.storage.checkpoints.initial);
    let notes = notes.chain(begun_from.map(initial_note));
    let unscaled = sources.unscaled();
    let notes = notes.chain(unscaled_note(&unscaled));
    notes.for_each(|note| (around.on_note)(&note));
    sources.warnings.iter().for_each(|warning| (around.on_warning)(warning));
    let cache = sources.cache_making(begun, place);
    let begin_with = match start.from.as_deref() {
        None => Beginning::Anew,
        Some(from) if start.resumes => Beginning::Resumed(from),
        Some(from) => Beginning::Warm(from),
    };
    let built = build(plan, around, &sources, begin_with)?;
    let counts = built.capacity.devices.is_some() && warm_up::is_wanted(plan);
    let ahead = counts.then(|| warm_up::ahead(plan, &sources)).flatten();
    ahead.iter().for_each(|note| (around.on_note)(note));
    let begun_with = |from: &Checkpoint| BegunWith { step: from.step, path: from.path.clone() };
    let from = start.from.as_deref().map(begun_with);
    // The dense part has been copied, and is large if it has stale rows or a sketch.
    drop(start.from);
    around.from.iter().for_each(WarmStart::release);
    let passes = sources.passes(place, PURPOSES);
    let reads = Reads { passes, start: start.position, cache, only_scores: false };
    let (saver, told_ahead) = (start.saver, ahead.is_some());
    let resumes = start.resumes;
    Ok(Ready { built, reads, saver, from, resumes, counts, told_ahead, unscaled })
}

/// Names the dense columns with large, unscaled numbers.
fn unscaled_note(columns: &[(String, f32)]) -> Option<String> {
    let of = |(name, largest): &(String, f32)| format!("{name} (up to {largest:.1e})");
    let listed = columns.iter().map(of).collect::<Vec<_>>().join(", ");
    (!columns.is_empty()).then(|| {
        format!(
            "dense columns have large unscaled values: {listed}; training may diverge: give them \
             transform = \"standardise\" or \"log1p\""
        )
    })
}

fn initial_note(resumed: &Checkpoint) -> String {
    let step = resumed.step;
    format!("checkpoint.initial has no effect: the run continues after step {step}")
}

/// Returns the capacity plan of a run without running it.
///
/// # Errors
/// Invalid settings, or unreadable data.
pub fn plan(config: &Config, expected: &Expected<'_>) -> Result<Capacity> {
    let plan = checked(config)?;
    planned(&plan, expected).map(|(capacity, ..)| capacity)
}

/// Returns the capacity plan and a forecast of several ranks' traffic and speed, as far as `known`
/// determines it.
///
/// # Errors
/// The errors of [`plan`], and data without an example.
pub fn forecast(
    config: &Config,
    expected: &Expected<'_>,
    known: &Known,
) -> Result<(Capacity, Forecast)> {
    let plan = checked(config)?;
    let (capacity, sources, model) = planned(&plan, expected)?;
    let forecast = Forecast::of(&plan, &sources, &model, known)?;
    Ok((capacity, forecast))
}

/// Resolves the settings of a run that may have several ranks.
fn checked(config: &Config) -> Result<RunPlan<'_>> {
    let checked = config.check().and_then(|()| config.check_ranks(ranks::COUNT));
    checked.map_err(Error::Config)?;
    RunPlan::of(config)
}

fn planned(plan: &RunPlan<'_>, expected: &Expected<'_>) -> Result<(Capacity, Sources, Model)> {
    let sources = sources(plan, &StopRequest::new())?;
    sources.check_streams(plan.data.streams)?;
    let model = build::model(plan.config, &sources)?;
    let notes = RefCell::new(Vec::new());
    let note = |note| notes.borrow_mut().push(note);
    let offer = build::offer(plan, &Machine::default(), &note)?;
    let begin = expected.from.map_or(Beginning::Anew, Beginning::Warm);
    let start = StartWith { begin, has_rows: false, rows: expected.rows };
    let mut capacity = capacity(plan, &sources, &model, start, (None, offer))?;
    capacity.notes.splice(0..0, notes.take());
    if capacity.devices.is_some() {
        capacity.notes.extend(warm_up::ahead(plan, &sources));
    }
    // The run may be meant for another machine.
    let files = process_limits::lacks_files(&FilesWanted {
        ranks: plan.ranks.count,
        stores: capacity.tiers.groups.len(),
        checkpoints: plan.storage.saves(),
    });
    for why in capacity.lacks.clone().into_iter().chain(files) {
        capacity.notes.push(format!("this machine would refuse the run: {why}"));
    }
    Ok((capacity, sources, model))
}

/// Returns the tables of the model that `config` names.
///
/// # Errors
/// Settings from which no model can be built.
pub fn tables(config: &Config) -> Result<Vec<TableSpec>> {
    Ok(Model::build(config, schema(config)?)?.tables().to_vec())
}

/// Returns the dense parameters of the model that `config` names, with their places in the flat
/// vector.
///
/// # Errors
/// Settings from which no model can be built.
pub fn dense_parameters(config: &Config) -> Result<Vec<ParameterSpec>> {
    Ok(Model::build(config, schema(config)?)?.graph().parameters().to_vec())
}

/// Passes of a pipeline, their start position, and the cache that is made of their data.
struct Reads {
    passes: Passes,
    start: RunPosition,
    cache: Option<CacheMaking>,
    /// Whether nothing is trained.
    only_scores: bool,
}

fn finish(
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
    let parts = Parts {
        block_bytes: capacity.block_bytes,
        passes: reads.passes,
        start: reads.start,
        cache: reads.cache,
        groups: groups.clone(),
        planners,
        mode,
        times: times(plan.storage.checkpoints.minutes, around, saver.is_some(), initial),
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
    let stopped = around.stop.is_made();
    let digest = digest(around, &groups, &outcome.planners)?;
    let digest_seconds = if around.digest { clock.seconds() - ended } else { 0.0 };
    let precision = plan.dense.precision;
    let digest = digest.as_ref();
    let mut report = assemble(around, &capacity, &groups, &counters, outcome, digest, precision)?;
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

/// Returns when to write checkpoints, if the run `saves` any: every `minutes`, if there are any.
fn times(minutes: f64, around: &Surroundings, saves: bool, initial: bool) -> Times {
    let seconds = minutes * 60.0;
    let seconds = (seconds > 0.0).then_some(seconds);
    let shared = around.machine.ranks.is_some();
    Times { saves, seconds, initial, shared, stop: around.stop.clone() }
}
