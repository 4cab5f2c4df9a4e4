//! Scoring data with a checkpoint's model, for `eval` and `predict`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use stepwell_data::DataError;
use stepwell_device::Choice;
use stepwell_disk::FileDisk;
use stepwell_engine::{Best, Checkpoint, Figure, Placement, best, list};
use stepwell_settings::{self as settings, Config, DataConfig, DensePlace};
use stepwell_train::{Capacity, Error as TrainError, Report, RunState, Surroundings};

use crate::cli::ScoreArgs;
use crate::failure::Failure;
use crate::progress::Progress;
use crate::resolve::{check_files, give, idle_notes, set_all};
use crate::say::{self, say};
use crate::signals::Signals;
use crate::surroundings::{data_files, surroundings};

/// Message of scoring that is interrupted.
pub(crate) const UNSCORED: &str = "interrupted: a part of the data was not scored";

/// Number of tries to read the newest checkpoint while a run replaces them.
const TRIES: usize = 5;

/// Settings that only training uses; a key that ends in a point means all that begin with it.
const IDLE: [&str; 8] = [
    "data.epochs",
    "data.cache",
    "tiers.ssd",
    "tiers.space",
    "tiers.index",
    "checkpoint.",
    "ranks",
    "ranks.",
];

/// Does `work` with the checkpoint at `path`, or with the best one in that directory if it is
/// known, otherwise with the newest. Tries again if a run removed the checkpoint in the meantime.
pub(crate) fn with_newest<T>(
    path: &Path,
    work: impl Fn(&Checkpoint) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let newest = || list(&FileDisk::open(path).ok()?).ok()?.pop().map(|(_, path)| path);
    let best = || best(&FileDisk::open(path).ok()?).ok()?;
    for _ in 0..TRIES {
        let best = best();
        if let Some((Best { step, figure, .. }, _)) = &best {
            let Figure { by, value, .. } = figure;
            say!("step {step} is the best evaluated one ({by} {value:.5})");
        }
        let of_best = best.map(|(_, path)| path);
        let before = of_best.clone().or_else(newest);
        let opened = Checkpoint::open(of_best.as_deref().unwrap_or(path)).map_err(Failure::from);
        let outcome = opened.and_then(|checkpoint| work(&checkpoint));
        if outcome.is_ok() || before.is_none_or(|before| before.exists()) {
            return outcome;
        }
    }
    Err(Failure::from(format!(
        "a run removed the newest checkpoint of {} while it was being read, {TRIES} times; name \
         one that stays, or raise checkpoint.keep",
        path.display()
    )))
}

/// Data to score with a checkpoint's model.
pub(crate) struct Scoring<'a> {
    checkpoint: &'a Checkpoint,
    repaired: bool,
    chosen: Vec<String>,
    pub(crate) config: Config,
    progress: Arc<Progress>,
}

impl<'a> Scoring<'a> {
    /// Takes the settings of the run that wrote `checkpoint`, changed by `args`.
    pub(crate) fn of(args: &ScoreArgs, checkpoint: &'a Checkpoint) -> Result<Self, Failure> {
        let state = RunState::read(checkpoint)?;
        let mut config = settings::from_json(&state.config)?;
        // Scoring has its own devices, and the digest does not depend on them.
        (config.device, config.train.dense) = (Choice::default(), DensePlace::default());
        config.tiers.hbm = None;
        set_all(&mut config, &args.set).map_err(Failure::Usage)?;
        if !args.data.is_empty() {
            config.data.paths.clone_from(&args.data);
            config.data.eval_paths.clone_from(&args.data);
        }
        for (key, value) in &args.by_key {
            give(&mut config, key, value).map_err(Failure::Usage)?;
        }
        let chosen = chosen(args);
        note_idle(&chosen, &config);
        // Nothing is kept, so existing files in these directories don't matter.
        (config.tiers.ssd, config.checkpoint.dir, config.data.cache) = (None, None, None);
        state.check_model(&config, checkpoint)?;
        let on_tail = config.data.eval_paths.is_empty() && !config.data.paths.is_empty();
        let is_trained = args.data.is_empty() && !chosen.iter().any(|key| key == "data.paths");
        if let Some(why) = (on_tail && is_trained).then(|| state.other_data(&config)).flatten() {
            say::warn(format_args!(
                "checkpoint {} {why}: the scored data may not be the part kept for evaluation; \
                 name data with --data",
                checkpoint.path.display()
            ));
        }
        if is_trained && !chosen.iter().any(|key| key == "data.eval_paths") {
            find_data(&config)?;
        } else {
            check_files(&config)?;
        }
        let progress = Arc::new(Progress::of_scoring(&config));
        Ok(Self { checkpoint, repaired: args.repaired, chosen, config, progress })
    }

    /// Whether the user chose the setting with this key.
    pub(crate) fn chose(&self, key: &str) -> bool {
        self.chosen.iter().any(|chosen| chosen == key)
    }

    /// Refuses to score the data that a model was trained on, unless the user names it.
    pub(crate) fn has_evaluation(&self) -> Result<(), String> {
        let data = &self.config.data;
        let splits = self.config.layout()?.is_some_and(|layout| layout.splits());
        if !data.eval_paths.is_empty() || data.eval_fraction > 0.0 || splits {
            return Ok(());
        }
        Err(format!(
            "checkpoint {} was trained on all of its data, without an evaluation part; name data \
             to score with --data",
            self.checkpoint.path.display()
        ))
    }

    /// The paths that are read.
    pub(crate) fn inputs(&self) -> Vec<PathBuf> {
        data_files(&self.config).chain([self.checkpoint.path.clone()]).collect()
    }

    /// Prints `doing`, with the checkpoint's path and step.
    pub(crate) fn announce(&self, doing: &str) {
        let Checkpoint { path, step, .. } = self.checkpoint;
        say!("{doing} {} after step {step}", path.display());
    }

    pub(crate) fn surroundings(&self, signals: &Signals) -> Surroundings {
        let progress = Arc::clone(&self.progress);
        Surroundings {
            repaired_rows: self.repaired,
            digest: false,
            ..surroundings(&self.config, Placement::Fresh, progress, signals.stop())
        }
    }

    /// A listener that takes the plan without printing it.
    pub(crate) fn on_plan_unsaid(&self) -> Arc<dyn Fn(&Capacity) + Send + Sync> {
        let (progress, config) = (Arc::clone(&self.progress), self.config.clone());
        Arc::new(move |capacity| progress.planned(&config, capacity))
    }

    /// Scores all of the data.
    pub(crate) fn run(&self, around: &Surroundings, signals: &Signals) -> Result<Report, Failure> {
        let report = stepwell_train::evaluate(&self.config, around, self.checkpoint);
        self.progress.finish();
        match report {
            Err(TrainError::Interrupted) => Err(signals.interrupted(UNSCORED.to_owned())),
            other => Ok(other?),
        }
    }
}

/// Fails if data named by the checkpoint is missing; suggests that the current directory is wrong.
fn find_data(config: &Config) -> Result<(), Failure> {
    let DataConfig { paths, eval_paths, .. } = &config.data;
    for of in [paths, eval_paths].into_iter().filter(|of| !of.is_empty()) {
        let Err(error) = stepwell_data::resolve(of) else { continue };
        let relative = of.iter().any(|path| Path::new(path).is_relative());
        let here = std::env::current_dir().ok().filter(|_| relative);
        let is_of_path = matches!(error, DataError::Path { .. } | DataError::Missing { .. });
        let Some(here) = here.filter(|_| is_of_path) else { return Err(error.into()) };
        let line = format!(
            "{error}: this name is from the checkpoint, and it was looked up in {}; name the data \
             with --data, or run where the model was trained",
            here.display()
        );
        return Err(match error.into() {
            Failure::Usage(_) => Failure::Usage(line),
            _ => Failure::Error(line),
        });
    }
    Ok(())
}

/// The keys that the user chose.
fn chosen(args: &ScoreArgs) -> Vec<String> {
    let pairs = args.set.iter().filter_map(|pair| Some(pair.split_once('=')?.0.trim().to_owned()));
    pairs.chain(args.by_key.iter().map(|(key, _)| key.clone())).collect()
}

/// Prints notes on `chosen` settings that have no effect on scoring.
fn note_idle(chosen: &[String], config: &Config) {
    let of_training = |key: &String| {
        IDLE.iter().any(|idle| key == idle || (idle.ends_with('.') && key.starts_with(idle)))
    };
    let (idle, other): (Vec<_>, Vec<_>) = chosen.iter().cloned().partition(of_training);
    for key in idle {
        say::note(format_args!("{key} has no effect, because nothing is trained or kept"));
    }
    idle_notes(&other, config).iter().for_each(say::note);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_idle_are_settings() {
        for idle in IDLE {
            let known = settings::SETTINGS.iter().any(|setting| setting.key.starts_with(idle));
            assert!(known, "{idle}");
        }
    }
}
