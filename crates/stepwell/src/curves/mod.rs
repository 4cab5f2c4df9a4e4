//! Curves of a run, written while it runs: as lines of JSON for programs (`--metrics`), as events
//! for TensorBoard (`--tensorboard`), as an HTML page (`--html`).
//!
//! - **How.** [`Curves`] observes the run and keeps counts. At most every second, and at the end
//!   of each epoch, it takes a [`Sample`] of all counts. Samples and other events go to each
//!   [`Sink`], which only knows its format.
//! - **Failure.** If a sink cannot be written, that is reported once and the run continues without
//!   it.
//! - **Cost.** Bounded: scores of [`SCORES_MAX`] examples (256 KiB), two samples, and the cost that
//!   each sink documents; all of it within the plan's "code and allocator".

mod lines;
mod page;
mod sample;
mod sink;
mod stages;
mod tensorboard;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use stepwell_base::budget::Budget;
use stepwell_engine::Purpose;
use stepwell_settings::Config;
use stepwell_train::{
    Evaluation, Held, LossSums, Meter, Metrics, Observer, Report, Scored, Snapshot, peak_rss_bytes,
};

use self::lines::Lines;
use self::page::PageFile;
pub(crate) use self::sample::Sample;
use self::sink::{Event, Moment, Sink};
pub(crate) use self::stages::{StageClocks, Watched};
use self::tensorboard::EventFile;
use crate::cli::TrainArgs;
use crate::say;

/// Least time between two samples.
const EVERY: Duration = Duration::from_secs(1);

/// Least time between two looks at the tiers, which take the stores' locks.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Most scores for an AUC; of more examples between two samples, only the first ones count.
pub(crate) const SCORES_MAX: usize = 1 << 16;

/// Observes the training thread and passes events to all sinks.
pub(crate) struct Curves {
    began: Instant,
    clocks: Arc<StageClocks>,
    state: Mutex<State>,
}

struct State {
    /// The sinks that can still be written.
    sinks: Vec<Box<dyn Sink>>,
    /// Counts up to the last trained mini-batch.
    now: Sample,
    /// Time of the last look at the tiers.
    looked: Option<Instant>,
    /// The last sample and its time.
    taken: Option<(Instant, Sample)>,
    /// Scores since the last sample.
    scores: Meter,
    /// Sum of the losses of previous epochs.
    loss_before: f64,
    /// Time of the last trained mini-batch.
    trained_at: Option<Instant>,
    /// Whether there was an evaluation since then.
    evaluating: bool,
}

impl State {
    fn is_due(&self) -> bool {
        self.taken.as_ref().is_none_or(|(at, _)| at.elapsed() >= EVERY)
    }

    fn trained(&mut self, snapshot: &Snapshot, seconds: f64) {
        let (at, now) = (Instant::now(), &mut self.now);
        let since = self.trained_at.replace(at).map(|before| at - before);
        if !std::mem::take(&mut self.evaluating) {
            now.training_seconds += since.unwrap_or_default().as_secs_f64();
        }
        (now.seconds, now.step, now.examples) = (seconds, snapshot.step, snapshot.examples);
        (now.loss, now.is_log_loss) = (snapshot.loss, snapshot.is_log_loss);
        let of_epoch = snapshot.loss.unwrap_or(0.0) * snapshot.epoch_examples as f64;
        now.loss_sum = self.loss_before + of_epoch;
        (now.hits, now.misses, now.evictions) =
            (snapshot.hits, snapshot.misses, snapshot.evictions);
        (now.initialized, now.refilled) = (snapshot.initialized, snapshot.refilled);
        now.on_devices = snapshot.on_devices;
        (now.reads, now.pages_read) = (snapshot.reads, snapshot.pages_read);
    }
}

impl Curves {
    /// The curves that `args` name; `None` if they name none.
    pub(crate) fn of(args: &TrainArgs, config: &Config) -> Option<Arc<Self>> {
        let goes_on = args.resume.is_some();
        let mut sinks: Vec<Box<dyn Sink>> = Vec::new();
        if let Some(path) = &args.metrics {
            sinks.push(Box::new(Lines::new(path, goes_on)));
        }
        if let Some(directory) = &args.tensorboard {
            sinks.push(Box::new(EventFile::new(directory)));
        }
        if let Some(path) = &args.html {
            sinks.push(Box::new(PageFile::new(path, config)));
        }
        if sinks.is_empty() {
            return None;
        }
        let state = State {
            sinks,
            now: Sample::default(),
            looked: None,
            taken: None,
            scores: Meter::of_probabilities(SCORES_MAX),
            loss_before: 0.0,
            trained_at: None,
            evaluating: false,
        };
        let (began, clocks) = (Instant::now(), Arc::default());
        Some(Arc::new(Self { began, clocks, state: Mutex::new(state) }))
    }

    /// A driver that measures how busy the stages are.
    pub(crate) fn driver(&self) -> Watched {
        Watched(Arc::clone(&self.clocks))
    }

    /// Takes the plan's bounds on memory.
    pub(crate) fn planned(&self, budget: &Budget) {
        self.tell_now(&Event::Planned(budget));
    }

    /// Ends the curves with the run's report, or the reason why it has none.
    pub(crate) fn ended(&self, outcome: Result<&Report, &str>) {
        self.with(|state| {
            self.catch_up(state);
            self.tell(state, &Event::Ended(outcome));
        });
    }

    fn with(&self, work: impl FnOnce(&mut State)) {
        work(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn tell_now(&self, event: &Event<'_>) {
        self.with(|state| self.tell(state, event));
    }

    fn tell(&self, state: &mut State, event: &Event<'_>) {
        let at = Moment {
            seconds: self.began.elapsed().as_secs_f64(),
            step: state.now.step,
            examples: state.now.examples,
        };
        state.sinks.retain_mut(|sink| match sink.take(at, event) {
            Ok(()) => true,
            Err(why) => {
                say::warn(format_args!("cannot write {} ({why}): the run continues", sink.name()));
                false
            }
        });
    }

    /// Takes a sample and passes it to the sinks.
    fn sample(&self, state: &mut State) {
        state.now.auc = state.scores.take().auc;
        state.now.busy = self.clocks.busy();
        state.now.peak_bytes = peak_rss_bytes();
        let now = state.now.clone();
        let recent = state.taken.as_ref().map(|(_, before)| now.since(before));
        self.tell(state, &Event::Training { now: &now, recent });
        state.taken = Some((Instant::now(), now));
    }

    /// Takes a sample, unless nothing was trained since the last one.
    fn catch_up(&self, state: &mut State) {
        let last = state.taken.as_ref().map_or(0, |(_, sample)| sample.examples);
        if state.now.examples > last {
            self.sample(state);
        }
    }
}

impl Observer for Curves {
    fn tiers(&self, look: &dyn Fn() -> Held) {
        self.with(|state| {
            if state.looked.is_none_or(|at| at.elapsed() >= LOOK_EVERY) {
                state.now.held = look();
                state.looked = Some(Instant::now());
            }
        });
    }

    fn trained(&self, scored: Scored<'_>) {
        let Scored { logits, labels, .. } = scored;
        self.with(|state| {
            // Several labels, or numbers, have no single AUC.
            if !state.now.is_log_loss {
                return;
            }
            let room = SCORES_MAX.saturating_sub(state.scores.examples() as usize);
            let count = room.min(labels.len()).min(logits.len());
            let scored = Scored {
                logits: &logits[..count],
                labels: &labels[..count],
                weights: &[],
                layers: &[],
            };
            state.scores.add(scored, LossSums::default());
        });
    }

    fn progress(&self, snapshot: &Snapshot) {
        self.with(|state| {
            if snapshot.purpose == Purpose::Evaluate {
                state.evaluating = true;
                // A resumed run may evaluate first.
                state.now.step = snapshot.step;
                return;
            }
            state.trained(snapshot, self.began.elapsed().as_secs_f64());
            if state.is_due() {
                self.sample(state);
            }
        });
    }

    fn epoch_trained(&self, _epoch: u64, metrics: &Metrics) {
        self.with(|state| {
            self.catch_up(state);
            state.loss_before = state.now.loss_sum;
            self.tell(state, &Event::Epoch(metrics));
        });
    }

    fn evaluated(&self, evaluation: &Evaluation, best: Option<&Metrics>) {
        self.tell_now(&Event::Evaluation { metrics: &evaluation.metrics, best });
    }

    fn saved(&self, step: u64, path: &Path) {
        self.with(|state| {
            state.now.step = step;
            self.tell(state, &Event::Saved(path));
        });
    }
}
