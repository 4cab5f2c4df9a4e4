//! `stepwell train`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use stepwell_base::counted;
use stepwell_base::stop::StopRequest;
use stepwell_disk::FileDisk;
use stepwell_engine::{Placement, list};
use stepwell_settings::{self as settings, Config};
use stepwell_train::{
    Error as TrainError, Limits, Machine, Observer, Observers, Ranks, Report, RowsAtStart, Silence,
    Surroundings, WarmStart,
};

use crate::cli::{Resume, TrainArgs};
use crate::curves::Curves;
use crate::ended::Ended;
use crate::failure::Failure;
use crate::outputs::are_one;
use crate::progress::Progress;
use crate::resolve;
use crate::say::{self, say, tell};
use crate::signals::Signals;
use crate::statistics::with_statistics;
use crate::surroundings::{data_files, surroundings};
use crate::warm_start::{self, FromCheckpoint, Warm};
use crate::{figures_text, outputs};

/// Trains alone or with ranks in this process.
pub(crate) fn run(args: &TrainArgs) -> Result<(), Failure> {
    // Before any output is tried, so that an interruption leaves no file.
    let signals = Signals::heed()?;
    let prepared = prepare(args, None).map_err(|failure| signals.or_interrupted(failure, EARLY))?;
    lead(args, prepared, &signals, None).map_err(Ended::into_failure)
}

/// Message of a run that is stopped before its first step.
pub(crate) const EARLY: &str = "interrupted before the first step: there is nothing to keep";

/// A run that is ready to start.
pub(crate) struct Prepared {
    pub(crate) config: Config,
    limits: Option<Limits>,
    /// The course of a warm start; `None` for other runs.
    pub(crate) warm: Option<Warm>,
}

/// Reads settings and limits, and checks the outputs. `launched` is the number of processes that
/// train together.
pub(crate) fn prepare(args: &TrainArgs, launched: Option<usize>) -> Result<Prepared, Failure> {
    args.check().map_err(Failure::Usage)?;
    let from = args.from.as_deref().map(FromCheckpoint::open).transpose()?;
    let base = from.as_ref().map(FromCheckpoint::base);
    let (mut config, chosen) = resolve::config(&args.settings, base).map_err(Failure::Usage)?;
    launched.map_or(Ok(()), |size| join(&mut config, &chosen, size)).map_err(Failure::Usage)?;
    if from.is_some() {
        warm_start::check_data(&config)?;
    }
    if from.is_some() && args.evaluate_first {
        warm_start::check_read_twice(&config)?;
    }
    let outputs = [
        ("--report", args.report.as_deref()),
        ("--metrics", args.metrics.as_deref()),
        ("--html", args.html.as_deref()),
    ];
    outputs::check(&outputs, &read_by(args, &config))?;
    args.tensorboard.as_deref().map_or(Ok(()), |directory| check_events(directory, &config))?;
    for (flag, path) in outputs {
        if let (Some(path), Some(cache)) = (path, &config.data.cache) {
            outputs::check_apart(flag, path, "data.cache", cache)?;
        }
    }
    check(&config, &chosen).map_err(Failure::Usage)?;
    resolve::check_data(&args.settings, &config, &chosen).map_err(Failure::Usage)?;
    resolve::check_files(&config)?;
    // A resumed run reads the same data as before; a warm start reads each file once.
    let goes_on = matches!(args.resume, Some(Resume::Always));
    if !goes_on && (from.is_none() || args.again) {
        resolve::check_repeats(&config).map_err(Failure::Usage)?;
    }
    let limits = args.limits.as_deref().map(Limits::read).transpose();
    let limits = limits.map_err(|error| Failure::Usage(error.to_string()))?;
    note_idle(args, &config, &chosen);
    if launched.is_none() && chosen.iter().any(|key| key == "ranks.timeout") {
        say::note("ranks.timeout has no effect, because ranks of one process end together");
    }
    if config.sync.dense.name() == "rna" && config.sync.age == 0 {
        say::note(
            "sync.age = 0 drops every gradient that any update overtakes, which may be nearly all \
             of them",
        );
    }
    let (config, warm) = match from {
        None => (with_statistics(&config)?, None),
        Some(from) => {
            let mut config = from.with_statistics(config)?;
            let warm = from.decide(args, &mut config, &chosen)?;
            (config, Some(warm))
        }
    };
    Ok(Prepared { config, limits, warm })
}

/// Refuses a directory that cannot have TensorBoard's events.
fn check_events(directory: &Path, config: &Config) -> Result<(), Failure> {
    let kept = [("checkpoint.dir", &config.checkpoint.dir), ("tiers.ssd", &config.tiers.ssd)];
    let is_own = |of: &Option<PathBuf>| of.as_ref().is_some_and(|of| are_one(directory, of));
    if let Some((key, _)) = kept.into_iter().find(|(_, of)| is_own(of)) {
        let directory = directory.display();
        let why = format!("--tensorboard {directory} is also {key}: name two directories");
        return Err(Failure::Usage(why));
    }
    outputs::check_directory("--tensorboard", directory)
}

/// Refuses wrong settings, by the names that the user has `chosen`.
pub(crate) fn check(config: &Config, chosen: &[String]) -> Result<(), String> {
    if !config.data.labels {
        return Err("data.labels = false: without labels there is nothing to learn; `stepwell \
                    predict` scores such data"
            .to_owned());
    }
    config.check()?;
    config.check_ranks(name_of_ranks(chosen))
}

/// Name of the setting that gave the number of ranks.
fn name_of_ranks(chosen: &[String]) -> &'static str {
    let is_whole = chosen.iter().rfind(|key| ["ranks", "ranks.count"].contains(&key.as_str()));
    if is_whole.is_some_and(|key| key == "ranks.count") { "ranks.count" } else { "ranks" }
}

/// Sets the number of ranks to the number of processes.
fn join(config: &mut Config, chosen: &[String], size: usize) -> Result<(), String> {
    let (given, name) = (config.ranks.count, name_of_ranks(chosen));
    if given != 1 && given != size {
        return Err(format!(
            "{name} = {given}, and {size} processes were launched: leave out {name}"
        ));
    }
    config.ranks.count = size;
    Ok(())
}

fn placement(args: &TrainArgs, warm: Option<&Warm>) -> Placement {
    if let Some(warm) = warm {
        return warm.placement;
    }
    match (args.resume, args.force) {
        (Some(Resume::Always), _) => Placement::Resume,
        (Some(Resume::Auto), _) => Placement::ResumeOrStart,
        (_, true) => Placement::SetAside,
        _ => Placement::Fresh,
    }
}

/// Trains, shows progress and reports: alone, with ranks in this process, or as the first of
/// `ranks`.
pub(crate) fn lead(
    args: &TrainArgs,
    prepared: Prepared,
    signals: &Signals,
    ranks: Option<Ranks>,
) -> Result<(), Ended> {
    let Prepared { config, limits, warm } = prepared;
    if args.json {
        say::aside();
    }
    if let Some(warm) = warm.as_ref().filter(|warm| warm.is_done) {
        return Ok(warm.tell_done(args)?);
    }
    let before = match &warm {
        Some(warm) if args.evaluate_first => warm.evaluate_first(&config, signals)?,
        _ => None,
    };
    say!("{}", headline(&config));
    if config.checkpoint.dir.is_none() {
        say!("without --checkpoint DIR, the model isn't kept");
    }
    let progress = Arc::new(Progress::of_training(&config));
    // Launched ranks agree on the step after which they stop.
    let stop = ranks.as_ref().map_or_else(|| signals.stop(), |_| StopRequest::new());
    let mut observers: Vec<Arc<dyn Observer>> = vec![Arc::<Progress>::clone(&progress)];
    let mut around = Surroundings {
        repaired_rows: args.repaired,
        digest: !args.no_digest,
        machine: Machine { ranks, ..Machine::default() },
        from: warm.as_ref().and_then(|warm| warm.start.clone()),
        ..surroundings(&config, placement(args, warm.as_ref()), Arc::clone(&progress), stop)
    };
    drop(warm);
    let curves = Curves::of(args, &config);
    if let Some(curves) = &curves {
        observers.push(Arc::<Curves>::clone(curves));
        around.machine.driver = Arc::new(curves.driver());
        let (told, on_plan) = (Arc::clone(curves), Arc::clone(&around.on_plan));
        around.on_plan = Arc::new(move |capacity| {
            on_plan(capacity);
            told.planned(&capacity.budget);
        });
    }
    around.observer = Arc::new(Observers(observers));
    let report = stepwell_train::train(&config, &around);
    progress.finish();
    if let Some(curves) = &curves {
        match &report {
            Ok(report) => curves.ended(Ok(report)),
            Err(error) => curves.ended(Err(&error.to_string())),
        }
    }
    let mut report = match report {
        Err(TrainError::Interrupted) => {
            return Err(signals.interrupted(interrupted_early(&config)).into());
        }
        other => other?,
    };
    if let Some(limits) = limits {
        limits.put_beside(&mut report.profile, &mut report.layers, config.model.precision);
    }
    report.before = before.map(|before| before.eval);
    say_report(args, &report)?;
    match report.interrupted {
        true => Err(signals.interrupted(ended_early(args, &config, &report)).into()),
        false => Ok(()),
    }
}

/// Prints the report of a run, and writes it if a file was named.
fn say_report(args: &TrainArgs, report: &Report) -> Result<(), Failure> {
    tell!("{}", figures_text::report(report).text().trim_end());
    outputs::write(args.report.as_deref(), report)?;
    if args.json {
        // After an interruption, the message on how to continue matters more than this error.
        match say::json(report) {
            Err(unheard) if !report.interrupted => return Err(unheard),
            _ => {}
        }
    }
    Ok(())
}

/// Trains as another of `ranks`, with the settings of rank 0, and prints nothing.
pub(crate) fn follow(
    args: &TrainArgs,
    config: &Config,
    from: Option<WarmStart>,
    signals: &Signals,
    ranks: Ranks,
) -> Result<(), Ended> {
    let around = Surroundings {
        from,
        observer: Arc::new(Silence),
        machine: Machine { ranks: Some(ranks), ..Machine::default() },
        stop: StopRequest::new(),
        rows: RowsAtStart::default(),
        repaired_rows: args.repaired,
        digest: !args.no_digest,
        placement: placement(args, None),
        settings: settings::to_json(config),
        on_plan: Arc::new(|_| {}),
        on_note: Arc::new(|_| {}),
        on_warning: Arc::new(|_| {}),
    };
    match stepwell_train::train(config, &around) {
        Err(TrainError::Interrupted) => Err(signals.interrupted(interrupted_early(config)).into()),
        Ok(report) if report.interrupted => {
            Err(signals.interrupted(ended_early(args, config, &report)).into())
        }
        other => other.map(|_| ()).map_err(Ended::from),
    }
}

/// Message of an interrupted run, which says so if only the digest is missing.
fn ended_early(args: &TrainArgs, config: &Config, report: &Report) -> String {
    let line = interrupted(args, config, report.steps);
    match report.through {
        true => format!("{line}; training and evaluation are complete, only the digest is missing"),
        false => line,
    }
}

/// Message of a run that was interrupted before its own first step.
fn interrupted_early(config: &Config) -> String {
    let newest = config.checkpoint.dir.as_ref().and_then(|directory| {
        Some((directory, list(&FileDisk::open(directory).ok()?).ok()?.pop()?.0))
    });
    match newest {
        None => EARLY.to_owned(),
        Some((directory, step)) => format!(
            "interrupted before its first step: {} holds the checkpoint of step {step} as before",
            directory.display()
        ),
    }
}

/// Message of a run that was interrupted after so many steps, with how to continue.
fn interrupted(args: &TrainArgs, config: &Config, steps: u64) -> String {
    match &config.checkpoint.dir {
        _ if steps == 0 => EARLY.to_owned(),
        Some(_) if args.from.is_some() => {
            format!("interrupted after step {steps}: run the same command again to continue")
        }
        Some(directory) => format!(
            "interrupted after step {steps}: continue with --checkpoint {} --resume",
            directory.display()
        ),
        None => format!(
            "interrupted after step {steps}: nothing is kept, because no --checkpoint was given"
        ),
    }
}

/// The paths that a run reads: settings, limits, data, data cache, the checkpoint of `--from`, and
/// directories of existing checkpoints and stores.
fn read_by(args: &TrainArgs, config: &Config) -> Vec<PathBuf> {
    let places = [&config.checkpoint.dir, &config.tiers.ssd].into_iter().flatten();
    let listed = places.flat_map(std::fs::read_dir).flatten().flatten();
    let kept = listed.map(|entry| entry.path()).filter(|path| path.is_dir());
    let named = [&args.settings.config, &args.limits, &config.data.cache, &args.from];
    let files = named.into_iter().flatten().cloned();
    data_files(config).chain(files).chain(kept).collect()
}

fn headline(config: &Config) -> String {
    let data = match config.data.paths.as_slice() {
        [] => format!("the built-in stream, {} examples", config.synth.examples),
        paths => paths.join(", "),
    };
    let kind = settings::find("model.kind").map(|setting| setting.get(config));
    let kind = kind.unwrap_or_default();
    let threads = match config.ranks.count {
        1 => counted(config.threads as u64, "thread"),
        ranks => format!("{ranks} ranks of {}", counted(config.threads as u64, "thread")),
    };
    format!(
        "training {} (dim {}) on {data}, {threads}",
        kind.as_str().unwrap_or_default(),
        config.model.dim,
    )
}

/// Prints notes on chosen settings and flags that have no effect.
fn note_idle(args: &TrainArgs, config: &Config, chosen: &[String]) {
    resolve::idle_notes(chosen, config).iter().for_each(say::note);
    if args.force && config.checkpoint.dir.is_none() && config.tiers.ssd.is_none() {
        say::note("--force has no effect, because neither --checkpoint nor tiers.ssd is given");
    }
}
