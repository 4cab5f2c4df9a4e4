//! The run of one rank: what precedes its first step, its steps, and its notes.

use std::path::PathBuf;

use stepwell_base::hash;
use stepwell_base::stop::StopRequest;
use stepwell_data::Sources;
use stepwell_engine::{Checkpoint, Purpose};
use stepwell_settings::Config;
use tracing::info;

use super::agree::agree;
use super::build::{Beginning, Built, build};
use super::execute::{Reads, execute, stopped};
use super::one_class::one_class_notes;
use super::reading::{PURPOSES, check_evaluation, nothing_chosen, share, sources};
use super::surroundings::Surroundings;
use super::{checkpoints, last_step, warm_up};
use crate::Result;
use crate::data_file::{DataFile, identify};
use crate::pipeline::Saver;
use crate::report::Report;
use crate::run_plan::RunPlan;
use crate::warm_start::WarmStart;

/// Trains as one rank: alone, or with the others of `around.machine`.
pub(super) fn run(config: &Config, around: &Surroundings) -> Result<Report> {
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
    let report = execute(plan, around, built, (reads, saver, initial), begin);
    let rows_from = from.as_ref().map(|from| &*from.path);
    let mut report = report.map_err(|error| error.naming(&unscaled).of_rows_from(rows_from))?;
    let from = from.as_ref().map(|from| from.step);
    report.steps_before = from.unwrap_or(0);
    let Report { steps, examples, wall_seconds, interrupted, .. } = report;
    info!(rank, steps, examples, seconds = wall_seconds, interrupted, "run ended");
    if let Some(early) = &report.stopped_early {
        (around.on_note)(&early.note());
    } else if resumes && from == Some(report.steps) && !report.interrupted {
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
    // Where positives alone are trained on, their labels say nothing.
    let notes = match config.trains_on_positives() {
        true => Vec::new(),
        false => one_class_notes(&report, config.data.negative_rate),
    };
    notes.iter().for_each(|note| (around.on_note)(note));
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
    let within = plan.evaluate_every > 0;
    let reads = Reads {
        passes: sources.passes(place, PURPOSES),
        evaluations: within.then(|| sources.evaluations(Purpose::Evaluate)).flatten(),
        evaluated_on: evaluated_on(&sources)?,
        waited: start.waited,
        plateaus: start.plateaus,
        is_complete: start.is_complete,
        start: start.position,
        cache,
        only_scores: false,
    };
    let (saver, told_ahead) = (start.saver, ahead.is_some());
    let resumes = start.resumes;
    Ok(Ready { built, reads, saver, from, resumes, counts, told_ahead, unscaled })
}

/// Hash of the identity of the evaluation data: its files, or where the tail begins.
fn evaluated_on(sources: &Sources) -> Result<u64> {
    let files = sources.eval_input.as_ref().map_or(&[][..], |input| input.files());
    let mut text = format!("{:?}", sources.boundary.map(|place| (place.file, place.line)));
    for DataFile { name, bytes, content, .. } in identify(files, sources.input.layout())? {
        text += &format!("\n{name}\t{bytes}\t{content}");
    }
    Ok(hash::digest128(text.as_bytes()) as u64)
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
