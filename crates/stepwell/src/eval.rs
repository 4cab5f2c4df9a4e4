//! `stepwell eval`.

use std::path::Path;
use std::sync::Arc;

use stepwell_server::{Checkpoint, Placement, list};
use stepwell_train::{Config, Report, RunState, Surroundings};

use crate::cli::EvalArgs;
use crate::progress::Progress;
use crate::train::{data_files, set_all, surroundings};
use crate::{outputs, settings, table};

/// How often the newest of several checkpoints is looked for, while a run replaces them.
const TRIES: usize = 5;

/// Scores data with the model of a checkpoint.
pub(crate) fn run(args: &EvalArgs) -> Result<(), String> {
    let report = with_newest(&args.checkpoint, |checkpoint| score(args, checkpoint))?;
    table::print_metrics(&report);
    outputs::write(args.report.as_deref(), &report)
}

/// Does `work` with the checkpoint in `path`, or with the newest in it: again where it was removed
/// meanwhile, as a run does with old ones.
fn with_newest<T>(
    path: &Path,
    work: impl Fn(&Checkpoint) -> Result<T, String>,
) -> Result<T, String> {
    let newest = || list(path).ok().and_then(|mut found| found.pop()).map(|(_, path)| path);
    for _ in 0..TRIES {
        let before = newest();
        let outcome = Checkpoint::open(path)
            .map_err(|error| error.to_string())
            .and_then(|checkpoint| work(&checkpoint));
        match (outcome, before) {
            (Err(_), Some(before)) if !before.exists() => {}
            (Err(error), None) if !path.exists() => {
                return Err(format!("{error} ({} is there no more)", path.display()));
            }
            (outcome, _) => return outcome,
        }
    }
    Err(format!(
        "a run removed the newest checkpoint of {} while it was being read, {TRIES} times; name one \
         that stays, or raise checkpoint.keep",
        path.display()
    ))
}

fn score(args: &EvalArgs, checkpoint: &Checkpoint) -> Result<Report, String> {
    let state = RunState::read(checkpoint).map_err(|error| error.to_string())?;
    let mut config = settings::from_json(&state.config)?;
    if !args.data.is_empty() {
        config.data.paths.clone_from(&args.data);
        config.data.eval_paths.clone_from(&args.data);
    }
    set_all(&mut config, &args.set)?;
    for (key, value) in &args.by_key {
        settings::find(key)?.set(&mut config, value)?;
    }
    has_evaluation(&config, checkpoint)?;
    // Nothing of an evaluation is kept, so nothing that lies in a directory is in its way.
    (config.tiers.ssd, config.checkpoint.dir, config.data.cache) = (None, None, None);
    state.check_model(&config, checkpoint).map_err(|error| error.to_string())?;
    let inputs: Vec<_> = data_files(&config).chain([checkpoint.path.clone()]).collect();
    outputs::check(&[("--report", args.report.as_deref())], &inputs)?;
    println!("evaluating {} after step {}", checkpoint.path.display(), checkpoint.step);
    let progress = Arc::new(Progress::new(&config));
    let around = Surroundings {
        repaired_rows: args.repaired,
        ..surroundings(&config, Placement::Fresh, Arc::clone(&progress))
    };
    let report = stepwell_train::evaluate(&config, &around, checkpoint);
    progress.finish();
    report.map_err(|error| error.to_string())
}

/// Refuses to score the data that a model was trained on unasked.
fn has_evaluation(config: &Config, checkpoint: &Checkpoint) -> Result<(), String> {
    if !config.data.eval_paths.is_empty() || config.data.eval_fraction > 0.0 {
        return Ok(());
    }
    Err(format!(
        "checkpoint {} was trained on all of its data, without an evaluation part; name data to score \
         with --data",
        checkpoint.path.display()
    ))
}
