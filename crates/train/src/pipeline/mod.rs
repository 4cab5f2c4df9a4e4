//! The pipeline: stages joined by bounded queues, with several batches in flight and the same
//! result as with one.
//!
//! ```text
//!            blocks            in order        batches        units          units
//!   read ──────────► parse ×n ─────────► batch ────────► plan ────────► pull ────────► train
//!                                                         ▲               │ victims      │
//!                                                         │               ▼              │
//!                                                         │             write            │
//!                                                         └──────────── retired ─────────┘
//! ```
//!
//! With several ranks, stage `ask` runs between `batch` and `plan`, and `train` exchanges weights
//! and gradients with the other ranks. If they are out of step, `learn` computes the gradients that
//! `train` needs.
//!
//! Ownership: `plan` alone touches metadata; `pull` alone touches rows that are filled or evicted;
//! `train` alone touches pinned, filled rows and the dense part; `write` alone writes to the store.

mod ask;
mod batch;
mod counters;
mod cut;
mod feed;
mod fill;
mod handoff;
mod learn;
mod lend;
mod measured;
mod negatives;
mod observer;
mod patience;
mod plateau;
mod save;
mod shared_pass;
mod shuffle;
mod train;
mod word;

use std::sync::Arc;

use stepwell_base::NO_THREAD;
use stepwell_base::queue::{Events, bounded};
use stepwell_base::stage::{BoxedStage, Driver, Ended, Rhythm, StageTimes, Stop, among};
use stepwell_data::{CacheFate, CacheMaking, OnFate, Ordered, ReadOptions, Recorder, Schema};
use stepwell_engine::{BATCHES_QUEUED, Finished, Group, Planner, PrefetchDepth, Times, rules_of};
use tracing::error;

use self::ask::{AskStage, Timer};
use self::batch::BatchStage;
pub(crate) use self::counters::{Counters, Passes};
use self::cut::{BatchEnds, Cut, Parsed, cut};
use self::handoff::{Handoff, take};
use self::learn::LearnStage;
use self::lend::Lending;
use self::shuffle::Shuffle;
use self::train::{Reporting, TrainEnds, TrainStage, Trained};
use crate::batch::RunPosition;
use crate::features::Features;
use crate::run_plan::{Batching, RunPlan};
use crate::step::{Agreement, FinishedSteps, Mode, OutOfStep, Stepping};
use crate::{Error, Result};

pub use self::measured::Measured;
pub use self::observer::{Held, Observer, Observers, Silence, Snapshot};
pub(crate) use self::patience::Patience;
pub(crate) use self::plateau::Plateaus;
pub(crate) use self::save::Saver;

/// Inputs of all stages.
pub(crate) struct Parts {
    pub(crate) block_bytes: usize,
    pub(crate) passes: Passes,
    /// Evaluations within epochs, without an end, if there are any.
    pub(crate) evaluations: Option<Passes>,
    /// Whether such an evaluation comes before the first step.
    pub(crate) evaluates_first: bool,
    pub(crate) patience: Patience,
    pub(crate) plateaus: Plateaus,
    /// Whether the run that is resumed had ended early.
    pub(crate) ended_early: bool,
    pub(crate) start: RunPosition,
    pub(crate) cache: Option<CacheMaking>,
    pub(crate) groups: Vec<Arc<Group>>,
    pub(crate) planners: Vec<Planner>,
    pub(crate) mode: Mode,
    pub(crate) saver: Option<Saver>,
    pub(crate) times: Times,
    pub(crate) observer: Arc<dyn Observer>,
    pub(crate) exact_scores: usize,
    pub(crate) counters: Arc<Counters>,
    /// Whether nothing is trained; ids without a row are then counted.
    pub(crate) only_scores: bool,
}

/// The most bytes of shuffle windows of `room` examples of `schema`, with at most as many ids as
/// `features` take or the given number.
pub(crate) fn shuffle_bytes_max(room: usize, schema: Schema, ids: (&Features, u64)) -> u64 {
    Shuffle::bytes_max(room, schema, ids)
}

/// Results of the stages, after all of them have ended.
pub(crate) struct Outcome {
    pub(crate) steps: FinishedSteps,
    pub(crate) measured: Measured,
    pub(crate) planners: Vec<Planner>,
    pub(crate) times: Vec<StageTimes>,
}

/// Runs all stages until they end.
pub(crate) fn run(
    plan: &RunPlan<'_>,
    parts: Parts,
    driver: &dyn Driver<Error>,
    rhythm: &Rhythm,
) -> Result<Outcome> {
    let trained_done = Handoff::default();
    parts.times.stop.notifies(&rhythm.events);
    let (stages, finished) = wire(plan, parts, rhythm, &trained_done)?;
    let times = outcome(driver.drive(stages, rhythm))?;
    let missing = || Error::Panicked("pipeline");
    let Trained { steps, measured, failed } = take(&trained_done).ok_or_else(missing)?;
    failed.map_or(Ok(()), Err)?;
    let planners = finished.take().ok_or_else(missing)?;
    Ok(Outcome { steps, measured, planners, times: merge(times) })
}

fn wire(
    plan: &RunPlan<'_>,
    parts: Parts,
    rhythm: &Rhythm,
    trained_done: &Handoff<Trained>,
) -> Result<(Vec<BoxedStage<Error>>, Finished)> {
    let events = &rhythm.events;
    let rules = rules_of(&parts.groups);
    let (fabric, model) = (parts.mode.fabric().cloned(), parts.mode.model());
    let cut = Cut {
        rank: fabric.as_ref().map(|fabric| fabric.place()),
        servers: plan.ranks.servers,
        evaluate_every: if parts.evaluations.is_some() { plan.evaluate_every } else { 0 },
        evaluates_first: parts.evaluates_first,
        ..cut(plan, parts.saver.is_some(), model, rules)
    };
    let (stop, mut times) = (parts.times.stop.clone(), parts.times);
    // Planners of several ranks would read different times; rank 0 decides, in its requests.
    let is_asked = fabric.is_some();
    let every = if is_asked { times.seconds.take().filter(|_| times.saves) } else { None };
    let Batching { lookahead, horizon, .. } = plan.batching;
    let rows = stepwell_engine::stages(
        (&parts.groups, parts.planners),
        PrefetchDepth { lookahead, horizon },
        (times, &rhythm.clock),
        &parts.counters.rows,
        events,
    )?;
    let (moving, write, ends, finished) = rows.in_order::<Error>();
    let options = model.features().read_options(parts.block_bytes);
    let cache = parts.cache.map(|making| (making, tells(&parts.observer)));
    let passes = (parts.passes, parts.evaluations);
    let reading = Reading::of(passes, options, plan.threads, cache, events);
    let train_ends = TrainEnds {
        patience: parts.patience,
        plateaus: parts.plateaus,
        ended_early: parts.ended_early,
        fabric: fabric.clone(),
        reads_evaluations: reading.evaluations.is_some(),
        input: ends.ready,
        retired: ends.retired,
        events: Arc::clone(events),
        finished: Arc::clone(trained_done),
    };
    let watch = Reporting {
        observer: parts.observer,
        clock: Arc::clone(&rhythm.clock),
        exact_scores: parts.exact_scores,
        counters: Arc::clone(&parts.counters),
        stop,
        only_scores: parts.only_scores && !is_asked,
    };
    let Reading { mut stages, parsed: input, evaluations, recorder } = reading;
    let (mut feed, mut ask) = (ends.feed, None);
    if let Some(fabric) = fabric {
        fabric.wakes(events);
        let (own, shared) = bounded(events, BATCHES_QUEUED);
        let lending = Lending::of(plan, model, fabric.rank());
        let output = std::mem::replace(&mut feed, own);
        let timer = every.filter(|_| fabric.rank() == 0);
        let timer = timer.map(|seconds| Timer::new(Arc::clone(&rhythm.clock), seconds));
        let counters = Arc::clone(&parts.counters);
        ask = Some(AskStage::new(fabric, lending, timer, counters, shared, output));
    }
    let batch_ends = BatchEnds { input, evaluations, output: feed, spares: ends.spares };
    stages.push(Box::new(BatchStage::new(cut, parts.start, parts.counters, recorder, batch_ends)));
    stages.extend(ask.map(|ask| Box::new(ask) as BoxedStage<Error>));
    stages.extend(moving);
    let (steps, learn) = steps(plan, parts.mode, &parts.groups, rhythm)?;
    stages.extend(learn.map(|learn| Box::new(learn) as BoxedStage<Error>));
    let train = TrainStage::new(steps, parts.start, parts.groups, parts.saver, watch, train_ends);
    stages.push(Box::new(train));
    stages.push(write);
    Ok((stages, finished))
}

/// The stages that read, and their output.
struct Reading {
    stages: Vec<BoxedStage<Error>>,
    parsed: Arc<Ordered<Parsed>>,
    /// Evaluations within epochs, if there are any.
    evaluations: Option<Arc<Ordered<Parsed>>>,
    recorder: Option<Recorder>,
}

impl Reading {
    fn of(
        (passes, evaluations): (Passes, Option<Passes>),
        options: ReadOptions,
        threads: usize,
        cache: Option<(CacheMaking, OnFate)>,
        events: &Arc<Events>,
    ) -> Self {
        let read = stepwell_data::stages(passes, options, threads, cache, events);
        let mut stages = vec![among(read.read)];
        stages.extend(read.parse.into_iter().map(among));
        let evaluations = evaluations.map(|passes| {
            let read = stepwell_data::stages(passes, options, threads, None, events);
            stages.push(among(read.read));
            stages.extend(read.parse.into_iter().map(among));
            read.parsed
        });
        Self { stages, parsed: read.parsed, evaluations, recorder: read.recorder }
    }
}

/// Returns the steps of `mode`, and stage `learn` if ranks are out of step.
fn steps(
    plan: &RunPlan<'_>,
    mode: Mode,
    groups: &[Arc<Group>],
    rhythm: &Rhythm,
) -> Result<(Box<dyn Stepping>, Option<LearnStage>)> {
    match mode {
        Mode::Alone(alone) => Ok((alone, None)),
        Mode::InStep(in_step) => Ok((in_step, None)),
        Mode::OutOfStep(owner, learner) => {
            let parameters = owner.model().model().graph().parameters();
            let agreement = Agreement::new(plan, parameters, &rhythm.clock)?;
            let (jobs, to_learn) = bounded(&rhythm.events, 1);
            let (learned, results) = bounded(&rhythm.events, 1);
            let steps =
                OutOfStep::new(plan.ranks, groups, *owner, &learner, agreement, jobs, results);
            Ok((Box::new(steps), Some(LearnStage::new(*learner, to_learn, learned))))
        }
    }
}

/// Returns a callback that reports a cache's fate to `observer`.
fn tells(observer: &Arc<dyn Observer>) -> OnFate {
    let observer = Arc::clone(observer);
    Box::new(move |fate| match fate {
        CacheFate::Made { examples, path } => observer.cached(examples, path),
        CacheFate::GivenUp(why) => observer.cache_given_up(&why.to_string()),
    })
}

/// Returns the times of all stages, or the first error, which is the run's.
fn outcome(ended: Vec<Ended<Error>>) -> Result<Vec<StageTimes>> {
    let (mut times, mut first) = (Vec::new(), None);
    for Ended { name, outcome } in ended {
        match outcome {
            Ok(stage) => times.push(stage),
            Err(Stop::Failed(error)) => {
                error!(stage = name, %error, "stage failed");
                first = first.or(Some(error));
            }
            Err(Stop::Panicked) => {
                error!(stage = name, "stage panicked");
                first = first.or(Some(Error::Panicked(name)));
            }
            Err(Stop::NoThread(error)) => {
                let why = format!("cannot start stage {name}: {error}{NO_THREAD}");
                first = first.or(Some(Error::Config(why)));
            }
        }
    }
    first.map_or(Ok(times), Err)
}

/// Adds up the workers of each stage.
fn merge(times: Vec<StageTimes>) -> Vec<StageTimes> {
    let mut merged: Vec<StageTimes> = Vec::new();
    for stage in times {
        match merged.iter_mut().find(|known| known.name == stage.name) {
            Some(known) => {
                known.busy_seconds += stage.busy_seconds;
                known.wait_seconds += stage.wait_seconds;
                known.cpu_seconds += stage.cpu_seconds;
            }
            None => merged.push(stage),
        }
    }
    merged
}
