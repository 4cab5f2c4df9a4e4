//! A trial: its settings, evaluations and state, and a part of its training.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use serde::{Deserialize, Serialize};
use stepwell_base::stop::StopRequest;
use stepwell_engine::Placement;
use stepwell_settings::{BestKind, Config};
use stepwell_train::{
    Capacity, Error as TrainError, Evaluation, Metrics, Observer, Report, Snapshot, Surroundings,
};

use super::directory::{Directory, remove};
use super::notes::Notes;
use super::space::Drawn;
use crate::failure::Failure;
use crate::planned::memory_note;
use crate::progress::Progress;
use crate::surroundings::surroundings;

/// What is known of a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Trial {
    pub(super) trial: u64,
    /// The drawn settings.
    pub(super) settings: Vec<Drawn>,
    #[serde(flatten)]
    pub(super) state: State,
    /// Rungs at which it has stopped.
    pub(super) rungs: u32,
    /// Steps of the model.
    pub(super) steps: u64,
    /// Seconds of training and evaluation, without those that a kill cut short.
    pub(super) seconds: f64,
    /// Evaluations, by step.
    pub(super) evaluations: Vec<Figures>,
}

/// How far a trial is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub(super) enum State {
    /// It can be trained further.
    Open,
    /// It is trained.
    Done,
    /// Its settings are refused, or training diverged.
    Failed { reason: String },
    /// It has the settings of an earlier trial.
    Same { same_as: u64 },
}

/// Figures of an evaluation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Figures {
    /// Steps of the model.
    pub(super) step: u64,
    pub(super) examples: u64,
    pub(super) logloss: Option<f64>,
    pub(super) rmse: Option<f64>,
    pub(super) auc: Option<f64>,
    pub(super) auc_interval: Option<[f64; 2]>,
}

impl Figures {
    fn of(evaluation: &Evaluation) -> Self {
        let Metrics { examples, logloss, rmse, auc, auc_interval, .. } = evaluation.metrics;
        Self { step: evaluation.step, examples, logloss, rmse, auc, auc_interval }
    }

    /// The metric by which evaluations are compared.
    pub(super) fn value(&self, by: BestKind) -> Option<f64> {
        match by {
            BestKind::Auc => self.auc,
            BestKind::None | BestKind::Logloss => self.logloss.or(self.rmse),
        }
    }
}

impl Trial {
    pub(super) fn new(trial: u64, settings: Vec<Drawn>) -> Self {
        let (state, evaluations) = (State::Open, Vec::new());
        Self { trial, settings, state, rungs: 0, steps: 0, seconds: 0.0, evaluations }
    }

    /// The best evaluation, as `checkpoint.best` chooses it, up to step `until`.
    pub(super) fn best(&self, by: BestKind, until: Option<u64>) -> Option<&Figures> {
        let reached = |of: &&Figures| until.is_none_or(|until| of.step <= until);
        let known = self.evaluations.iter().filter(reached);
        let known = known.filter_map(|of| Some((of, loss(of, by)?)));
        known.min_by(|(_, one), (_, other)| one.total_cmp(other)).map(|(of, _)| of)
    }

    /// What the trial is ranked by in the end, the smaller the better; `None` for one that failed
    /// or repeats another.
    pub(super) fn rank(&self, by: BestKind) -> Option<f64> {
        match self.state {
            State::Open | State::Done => loss(self.best(by, None)?, by),
            State::Failed { .. } | State::Same { .. } => None,
        }
    }

    /// The same at a rung at step `until`, whatever became of the trial after it.
    pub(super) fn rank_at(&self, rung: u32, until: Option<u64>, by: BestKind) -> Option<f64> {
        let reached = self.state == State::Done || self.rungs >= rung;
        reached.then(|| loss(self.best(by, until)?, by)).flatten()
    }

    /// The drawn settings as `KEY=VALUE`.
    pub(super) fn pairs(&self) -> Vec<String> {
        self.settings.iter().map(|of| format!("{}={}", of.key, of.value)).collect()
    }
}

/// The metric, the smaller the better.
fn loss(of: &Figures, by: BestKind) -> Option<f64> {
    of.value(by).map(|value| if by == BestKind::Auc { -value } else { value })
}

/// How a part of a training ended.
pub(super) enum Leg {
    /// At its end, at its rung, or with a failure of its settings.
    Over,
    /// A signal stopped it.
    Interrupted,
}

/// A part of a trial's training.
pub(super) struct Training<'a> {
    pub(super) directory: &'a Arc<Directory>,
    pub(super) config: Config,
    /// The rung at which it stops, and the step of that.
    pub(super) stop_at: Option<(u32, u64)>,
    /// The request that signals make.
    pub(super) signals: StopRequest,
    pub(super) notes: &'a Arc<Notes>,
}

impl Training<'_> {
    /// Trains `trial` from where it stopped, and writes what becomes of it.
    pub(super) fn run(mut self, trial: &mut Trial) -> Result<Leg, Failure> {
        let rows = self.config.tiers.ssd.clone();
        // A killed process leaves its rows; the checkpoint has all that counts.
        let clear = || rows.as_ref().map_or(Ok(()), |rows| remove(rows));
        clear()?;
        if let Some((_, step)) = self.stop_at
            && self.config.train.evaluate_every == 0
        {
            self.config.train.evaluate_every = step;
        }
        self.directory.save(trial.trial, trial)?;
        let begun = Instant::now();
        let (report, known) = self.train(trial)?;
        *trial = known;
        trial.seconds += begun.elapsed().as_secs_f64();
        let leg = self.conclude(trial, report)?;
        self.directory.save(trial.trial, trial)?;
        clear()?;
        Ok(leg)
    }

    /// Trains; returns the report, and the trial with its evaluations.
    ///
    /// # Errors
    /// If an evaluation cannot be written.
    fn train(&self, trial: &Trial) -> Result<(Trained, Trial), Failure> {
        let progress = Arc::new(Progress::of_training(&self.config));
        let stop = self.signals.of_part();
        let watch = Arc::new(Watch {
            progress: Arc::clone(&progress),
            directory: Arc::clone(self.directory),
            kept: Mutex::new(Kept { trial: trial.clone(), written: Ok(()) }),
            stop_at: self.stop_at.map(|(_, step)| step),
            stop: stop.clone(),
        });
        let (told, run) = (Arc::clone(&progress), self.config.clone());
        let [plan, note] = [(); 2].map(|()| self.notes.of(&progress));
        let is_begun = self.directory.saved(trial.trial).exists();
        let placement = if is_begun { Placement::ResumeOrStart } else { Placement::Fresh };
        let of_run = surroundings(&self.config, placement, progress, stop);
        let around = Surroundings {
            observer: Arc::<Watch>::clone(&watch),
            digest: false,
            on_plan: Arc::new(move |capacity: &Capacity| {
                let notes = capacity.tight.iter().chain(&capacity.notes).cloned();
                notes.chain(memory_note(&run)).for_each(|of| plan(&of));
                told.planned(&run, capacity);
            }),
            on_note: Arc::new(note),
            ..of_run
        };
        let report = stepwell_train::train(&self.config, &around);
        watch.progress.finish();
        let mut kept = watch.kept.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut kept.written, Ok(()))?;
        Ok((report, kept.trial.clone()))
    }

    /// Notes in `trial` how its training ended.
    fn conclude(&self, trial: &mut Trial, trained: Trained) -> Result<Leg, Failure> {
        let report = match trained {
            Err(TrainError::Interrupted) => return Ok(Leg::Interrupted),
            Err(error) if is_of_trial(&error) => {
                trial.state = State::Failed { reason: error.to_string() };
                return Ok(Leg::Over);
            }
            trained => trained?,
        };
        trial.steps = report.steps;
        // A signal may come between the step and its evaluation.
        let has = |step| trial.evaluations.iter().any(|of| of.step == step);
        match self.stop_at {
            _ if report.through => trial.state = State::Done,
            Some((rung, step)) if report.steps >= step && has(step) => trial.rungs = rung,
            _ => return Ok(Leg::Interrupted),
        }
        Ok(Leg::Over)
    }
}

/// The report of a part of a training, or why it failed.
type Trained = Result<Report, TrainError>;

/// Whether an error comes from the settings of a trial, so that others may succeed.
fn is_of_trial(error: &TrainError) -> bool {
    let is_too_much = matches!(
        error,
        TrainError::Diverged { .. }
            | TrainError::HugeGradient { .. }
            | TrainError::IndexFull { .. }
    );
    is_too_much || (error.is_of_settings() && !matches!(error, TrainError::Resume { .. }))
}

/// Shows progress, keeps evaluations, and stops at a rung.
struct Watch {
    progress: Arc<Progress>,
    directory: Arc<Directory>,
    kept: Mutex<Kept>,
    stop_at: Option<u64>,
    stop: StopRequest,
}

/// A trial with its evaluations so far, and whether they could be written.
struct Kept {
    trial: Trial,
    written: Result<(), Failure>,
}

impl Observer for Watch {
    fn progress(&self, snapshot: &Snapshot) {
        self.progress.progress(snapshot);
    }

    fn evaluated(&self, evaluation: &Evaluation, _best: Option<&Metrics>) {
        let figures = Figures::of(evaluation);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let Kept { trial, written } = &mut *kept;
        // A resumed run evaluates again where it was stopped.
        trial.evaluations.retain(|of| of.step != figures.step);
        trial.evaluations.push(figures);
        // Before the checkpoint, from which a resumed run doesn't evaluate again.
        *written = self.directory.save(trial.trial, trial);
        if self.stop_at == Some(evaluation.step) || written.is_err() {
            self.stop.make();
        }
    }

    fn cache_given_up(&self, why: &str) {
        self.progress.cache_given_up(why);
    }
}
