//! The pipeline: stages joined by bounded queues, several batches in flight, and a result as if
//! they were not.
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
//! Who may touch what: `plan` alone the metadata; `pull` alone rows that come or go; `train` alone
//! rows that are pinned and filled, and the dense part; `write` alone writes to the store.

mod batch;
mod cache;
mod due;
mod ordered;
mod parse;
mod plan;
mod pull;
mod read;
mod spares;
mod train;

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use stepwell_base::queue::{Receiver, bounded};
use stepwell_base::rules::Rules;
use stepwell_base::stage::{BoxedStage, Driver, Ended, Rhythm, StageTimes, Stop};
use stepwell_data::Schema;
use stepwell_engine::{Group, GroupUnit, Planner};

use self::batch::{BatchEnds, BatchStage, Cut};
use self::cache::{Cached, Recorder};
use self::due::Due;
use self::ordered::Ordered;
use self::parse::ParseStage;
use self::plan::{PlanEnds, PlanStage, handoff};
use self::pull::{PullStage, WriteStage};
use self::read::{Parsed, Raw, ReadStage};
use self::spares::Spares;
use self::train::{TrainEnds, TrainStage, Trained, Watch};
use crate::batch::{Position, Purpose};
use crate::config::Config;
use crate::metrics::Metrics;
use crate::step::Trainer;
use crate::{Error, Result};

pub(crate) use self::cache::CacheMaking;
pub(crate) use self::due::Times;
pub(crate) use self::pull::UNITS_PULLED;
pub(crate) use self::read::{Pass, Passes};
pub(crate) use self::spares::SPARES;
pub use self::train::Measured;
pub(crate) use self::train::Saver;

type Handoff<T> = Arc<Mutex<Option<T>>>;

/// How far the run is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Snapshot {
    /// What the last mini-batch was for.
    pub purpose: Purpose,
    /// Examples trained on by this process.
    pub examples: u64,
    /// Steps of the model.
    pub step: u64,
    /// Mean log loss of this epoch's training examples before they were trained on.
    pub logloss: Option<f64>,
    /// Distinct keys per planned unit that were in memory.
    pub hits: u64,
    /// Those that were not.
    pub misses: u64,
    /// Rows read from the store.
    pub refilled: u64,
    /// Pages read for them.
    pub pages_read: u64,
}

/// Somebody who is told how the run goes; called from the training thread, so it must be quick.
pub trait Observer: Send + Sync {
    /// After every mini-batch.
    fn progress(&self, _snapshot: &Snapshot) {}

    /// After the training part of an epoch.
    fn epoch_trained(&self, _metrics: &Metrics) {}

    /// After an evaluation; `best` is what the true probabilities reach.
    fn evaluated(&self, _metrics: &Metrics, _best: Option<&Metrics>) {}

    /// After a checkpoint was completed.
    fn saved(&self, _step: u64, _path: &Path) {}

    /// After the cache of the data was completed; from another thread than the rest.
    fn cached(&self, _examples: u64, _path: &Path) {}

    /// After the cache of the data was given up, and why; from another thread than the rest.
    fn cache_given_up(&self, _why: &str) {}
}

/// Nobody.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silence;

impl Observer for Silence {}

/// Counts of the planner.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    hits: AtomicU64,
    misses: AtomicU64,
    evictions: AtomicU64,
    units: AtomicU64,
    in_flight: AtomicU64,
    skipped: AtomicU64,
}

/// [`Counters`] at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Planned {
    /// Distinct keys per planned unit that were in the slab.
    pub hits: u64,
    /// Those that were not.
    pub misses: u64,
    /// Rows that left their slot.
    pub evictions: u64,
    /// Units planned.
    pub units: u64,
    /// Sum over them of the units in flight once each was planned.
    pub in_flight: u64,
    /// Malformed lines that were skipped.
    pub skipped: u64,
}

impl Counters {
    fn planned(&self, part: &GroupUnit) {
        self.hits.fetch_add(part.hits, Ordering::Relaxed);
        self.misses.fetch_add(part.fills.len() as u64, Ordering::Relaxed);
        self.evictions.fetch_add(part.evictions, Ordering::Relaxed);
        self.units.fetch_add(1, Ordering::Relaxed);
    }

    fn in_flight(&self, units: usize) {
        self.in_flight.fetch_add(units as u64, Ordering::Relaxed);
    }

    fn skipped(&self, lines: u64) {
        self.skipped.fetch_add(lines, Ordering::Relaxed);
    }

    /// The counts so far.
    pub(crate) fn count(&self) -> Planned {
        Planned {
            hits: self.hits.load(Ordering::Relaxed),
            misses: self.misses.load(Ordering::Relaxed),
            evictions: self.evictions.load(Ordering::Relaxed),
            units: self.units.load(Ordering::Relaxed),
            in_flight: self.in_flight.load(Ordering::Relaxed),
            skipped: self.skipped.load(Ordering::Relaxed),
        }
    }
}

/// Everything that the stages are made of.
pub(crate) struct Parts {
    pub(crate) schema: Schema,
    pub(crate) block_bytes: usize,
    pub(crate) passes: Passes,
    pub(crate) start: Position,
    pub(crate) cache: Option<CacheMaking>,
    pub(crate) group_fields: Vec<Vec<usize>>,
    pub(crate) groups: Vec<Arc<Group>>,
    pub(crate) planners: Vec<Planner>,
    pub(crate) trainer: Trainer,
    pub(crate) saver: Option<Saver>,
    pub(crate) times: Times,
    pub(crate) observer: Arc<dyn Observer>,
    pub(crate) exact_scores: usize,
    pub(crate) counters: Arc<Counters>,
}

/// What is left when the pipeline has run dry.
pub(crate) struct Outcome {
    pub(crate) trainer: Trainer,
    pub(crate) measured: Measured,
    pub(crate) planners: Vec<Planner>,
    pub(crate) times: Vec<StageTimes>,
}

/// Blocks and chunks between `read` and `batch` for each parsing thread.
pub(crate) const BLOCKS_PER_PARSER: usize = 2;
/// Batches between `batch` and `plan`.
pub(crate) const BATCHES_QUEUED: usize = 1;

/// Runs all stages to their end.
pub(crate) fn run(
    config: &Config,
    parts: Parts,
    driver: &dyn Driver<Error>,
    rhythm: &Rhythm,
) -> Result<Outcome> {
    let (planners_done, trained_done) = (handoff(), handoff());
    parts.times.stop.rings(&rhythm.bell);
    let stages = wire(config, parts, rhythm, (&planners_done, &trained_done));
    let times = outcome(driver.drive(stages, rhythm))?;
    let missing = || Error::Panicked("pipeline");
    let Trained { trainer, measured } = take(&trained_done).ok_or_else(missing)?;
    let planners = take(&planners_done).ok_or_else(missing)?;
    for planner in &planners {
        assert_eq!(planner.pinned(), 0, "rows are pinned although nothing is in flight");
    }
    Ok(Outcome { trainer, measured, planners, times: merge(times) })
}

fn wire(
    config: &Config,
    parts: Parts,
    rhythm: &Rhythm,
    (planners_done, trained_done): (&Handoff<Vec<Planner>>, &Handoff<Trained>),
) -> Vec<BoxedStage<Error>> {
    let bell = &rhythm.bell;
    let window = config.pipeline.lookahead + 1;
    let ordered = Ordered::new(bell, BLOCKS_PER_PARSER * config.threads);
    let (blocks_in, blocks_out) = bounded(bell, config.threads);
    let (items_in, items_out) = bounded(bell, BATCHES_QUEUED);
    let (planned_in, planned_out) = bounded(bell, window + 1);
    let (pulled_in, pulled_out) = bounded(bell, window + 1);
    let (retired_in, retired_out) = bounded(bell, window + 1);
    let chunks = parts.groups.iter().map(|group| group.staging.chunks()).sum();
    let (down_in, down_out) = bounded(bell, chunks);

    let spares = Arc::new(Spares::default());
    let cut = cut(config, parts.saver.is_some(), parts.group_fields);
    let stop = parts.times.stop.clone();
    let due = Due::new(parts.times, Arc::clone(&rhythm.clock));
    let plan_ends = PlanEnds {
        due,
        input: items_out,
        output: planned_in,
        retired: retired_out,
        spares: Arc::clone(&spares),
        finished: Arc::clone(planners_done),
    };
    let train_ends = TrainEnds {
        input: pulled_out,
        retired: retired_in,
        bell: Arc::clone(bell),
        finished: Arc::clone(trained_done),
    };
    let cached = Cached::default();
    let recorder = |making| Recorder::new(making, &cached, &parts.observer, bell);
    let recorder = parts.cache.map(recorder);
    let watch = Watch {
        observer: parts.observer,
        clock: Arc::clone(&rhythm.clock),
        exact_scores: parts.exact_scores,
        counters: Arc::clone(&parts.counters),
        stop,
    };
    let distances = (config.pipeline.lookahead, config.pipeline.horizon);
    let (groups, reading) = (parts.groups, (parts.schema, parts.block_bytes));
    let rules = rules_of(&groups);
    let read = ReadStage::new(parts.passes, reading, cached, blocks_in, Arc::clone(&ordered));
    let mut stages: Vec<BoxedStage<Error>> = vec![Box::new(read)];
    for stage in parse_stages(config.threads, blocks_out, &ordered) {
        stages.push(Box::new(stage));
    }
    let counters = Arc::clone(&parts.counters);
    let batch_ends = BatchEnds { input: ordered, output: items_in, spares };
    stages.push(Box::new(BatchStage::new(cut, parts.start, counters, recorder, batch_ends)));
    let (planners, counters) = (parts.planners, parts.counters);
    let plan = PlanStage::new(planners, groups.clone(), distances, counters, plan_ends);
    stages.push(Box::new(plan));
    stages.push(Box::new(PullStage::new(&groups, planned_out, pulled_in, down_in)));
    let trainer = (parts.trainer, parts.start);
    let train = TrainStage::new(trainer, groups.clone(), parts.saver, watch, train_ends);
    stages.push(Box::new(train));
    let bell = Arc::clone(bell);
    stages.push(Box::new(WriteStage { groups, input: down_out, bell, rules, late: None }));
    stages
}

/// The rules that hold, the same in every table group.
fn rules_of(groups: &[Arc<Group>]) -> Rules {
    groups.first().map(|group| group.rules).unwrap_or_default()
}

fn parse_stages(
    threads: usize,
    blocks: Receiver<Raw>,
    ordered: &Arc<Ordered<Parsed>>,
) -> Vec<ParseStage> {
    let blocks = Arc::new(blocks);
    let stage =
        |_| ParseStage { blocks: Arc::clone(&blocks), ordered: Arc::clone(ordered), held: None };
    (0..threads).map(stage).collect()
}

fn cut(config: &Config, checkpoints: bool, group_fields: Vec<Vec<usize>>) -> Cut {
    Cut {
        mini_batch: config.data.mini_batch,
        mini_batches: config.mini_batches_per_batch(),
        checkpoint_every: if checkpoints { config.checkpoint.every } else { 0 },
        checkpoint_at_end: checkpoints,
        epochs: config.data.epochs,
        skip_max: config.data.skip_max,
        group_fields,
    }
}

/// The times of all stages; the first error, if any, is the run's.
fn outcome(ended: Vec<Ended<Error>>) -> Result<Vec<StageTimes>> {
    let (mut times, mut first) = (Vec::new(), None);
    for Ended { name, outcome } in ended {
        match outcome {
            Ok(stage) => times.push(stage),
            Err(Stop::Failed(error)) => first = first.or(Some(error)),
            Err(Stop::Panicked) => first = first.or(Some(Error::Panicked(name))),
            Err(Stop::NoThread(error)) => {
                first =
                    first.or(Some(Error::Config(format!("cannot start stage {name}: {error}"))));
            }
        }
    }
    first.map_or(Ok(times), Err)
}

fn take<T>(place: &Handoff<T>) -> Option<T> {
    place.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// Several workers of one stage count as one.
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
