//! `stepwell eval`.

use std::sync::Arc;

use stepwell_server::{Checkpoint, Placement};
use stepwell_train::RunState;

use crate::cli::EvalArgs;
use crate::progress::Progress;
use crate::train::{data_files, set_all, surroundings};
use crate::{outputs, settings, table};

/// Scores data with the model of a checkpoint.
pub(crate) fn run(args: &EvalArgs) -> Result<(), String> {
    let checkpoint = Checkpoint::open(&args.checkpoint).map_err(|error| error.to_string())?;
    let state = RunState::read(&checkpoint).map_err(|error| error.to_string())?;
    let mut config = settings::from_json(&state.config)?;
    if let Some(threads) = args.threads {
        config.threads = threads;
    }
    if !args.data.is_empty() {
        config.data.paths.clone_from(&args.data);
        config.data.eval_paths.clone_from(&args.data);
    }
    set_all(&mut config, &args.set)?;
    // Nothing of an evaluation is kept, so nothing that lies in a directory is in its way.
    (config.tiers.ssd, config.checkpoint.dir, config.data.cache) = (None, None, None);
    state.check_model(&config, &checkpoint).map_err(|error| error.to_string())?;
    let inputs: Vec<_> = data_files(&config).chain([checkpoint.path.clone()]).collect();
    outputs::check(&[("--report", args.report.as_deref())], &inputs)?;
    println!("evaluating {} after step {}", checkpoint.path.display(), checkpoint.step);
    let progress = Arc::new(Progress::new(&config));
    let around = surroundings(&config, Placement::Fresh, Arc::clone(&progress));
    let report = stepwell_train::evaluate(&config, &around, &checkpoint);
    progress.finish();
    let report = report.map_err(|error| error.to_string())?;
    table::print_metrics(&report);
    outputs::write(args.report.as_deref(), &report)
}
