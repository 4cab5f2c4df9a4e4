//! `stepwell eval`.

use std::path::Path;
use std::sync::Arc;

use stepwell_disk::FileDisk;
use stepwell_engine::{Checkpoint, Placement, list};
use stepwell_settings::{self as settings, Config};
use stepwell_train::{Error as TrainError, Report, RunState, Surroundings};

use crate::cli::EvalArgs;
use crate::failure::Failure;
use crate::progress::Progress;
use crate::say::{self, say};
use crate::signals::Signals;
use crate::train::{data_files, give, set_all, surroundings};
use crate::{outputs, table};

/// How often the newest of several checkpoints is looked for, while a run replaces them.
const TRIES: usize = 5;

/// Settings of training alone; a key that ends in a point stands for all that begin with it.
const IDLE: [&str; 7] =
    ["data.epochs", "data.cache", "tiers.ssd", "tiers.space", "checkpoint.", "ranks", "ranks."];

/// The keys that somebody chose.
fn chosen(args: &EvalArgs) -> Vec<String> {
    let pairs = args.set.iter().filter_map(|pair| Some(pair.split_once('=')?.0.trim().to_owned()));
    pairs.chain(args.by_key.iter().map(|(key, _)| key.clone())).collect()
}

/// Says which of the keys that were `chosen` change nothing in an evaluation.
fn note_idle(chosen: Vec<String>, config: &Config) {
    let of_training = |key: &String| {
        IDLE.iter().any(|idle| key == idle || (idle.ends_with('.') && key.starts_with(idle)))
    };
    let (idle, other): (Vec<_>, Vec<_>) = chosen.into_iter().partition(of_training);
    for key in idle {
        let why = "an evaluation trains and keeps nothing";
        say::note(format_args!("{key} has no effect, because {why}"));
    }
    settings::idle_notes(&other, config).iter().for_each(say::note);
}

/// Scores data with the model of a checkpoint.
pub(crate) fn run(args: &EvalArgs) -> Result<(), Failure> {
    let signals = Signals::heed()?;
    let report = with_newest(&args.checkpoint, |checkpoint| score(args, checkpoint, &signals))?;
    outputs::write(args.report.as_deref(), &report)?;
    table::metrics(&report).say()
}

/// Does `work` with the checkpoint in `path`, or with the newest in it: again where it was removed
/// meanwhile, as a run does with old ones.
fn with_newest<T>(
    path: &Path,
    work: impl Fn(&Checkpoint) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let newest = || list(&FileDisk::open(path).ok()?).ok()?.pop().map(|(_, path)| path);
    for _ in 0..TRIES {
        let before = newest();
        let opened = Checkpoint::open(path).map_err(|error| Failure::from(error.to_string()));
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

fn score(args: &EvalArgs, checkpoint: &Checkpoint, signals: &Signals) -> Result<Report, Failure> {
    let state = RunState::read(checkpoint).map_err(|error| error.to_string())?;
    let mut config = settings::from_json(&state.config)?;
    if !args.data.is_empty() {
        config.data.paths.clone_from(&args.data);
        config.data.eval_paths.clone_from(&args.data);
    }
    set_all(&mut config, &args.set)?;
    for (key, value) in &args.by_key {
        give(&mut config, key, value)?;
    }
    has_evaluation(&config, checkpoint)?;
    note_idle(chosen(args), &config);
    // Nothing of an evaluation is kept, so nothing that lies in a directory is in its way.
    (config.tiers.ssd, config.checkpoint.dir, config.data.cache) = (None, None, None);
    state.check_model(&config, checkpoint).map_err(|error| error.to_string())?;
    let inputs: Vec<_> = data_files(&config).chain([checkpoint.path.clone()]).collect();
    outputs::check(&[("--report", args.report.as_deref())], &inputs)?;
    say!("evaluating {} after step {}", checkpoint.path.display(), checkpoint.step);
    let progress = Arc::new(Progress::new(&config));
    let around = Surroundings {
        repaired_rows: args.repaired,
        ..surroundings(&config, Placement::Fresh, Arc::clone(&progress), signals.stop())
    };
    let report = stepwell_train::evaluate(&config, &around, checkpoint);
    progress.finish();
    match report {
        Err(TrainError::Interrupted) => {
            let line = "interrupted: a part of the data has no figures";
            Err(signals.interrupted(line.to_owned()))
        }
        other => Ok(other.map_err(|error| error.to_string())?),
    }
}

/// Refuses to score the data that a model was trained on unasked.
fn has_evaluation(config: &Config, checkpoint: &Checkpoint) -> Result<(), String> {
    if !config.data.eval_paths.is_empty() || config.data.eval_fraction > 0.0 {
        return Ok(());
    }
    Err(format!(
        "checkpoint {} was trained on all of its data, without an evaluation part; name data to \
         score with --data",
        checkpoint.path.display()
    ))
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
