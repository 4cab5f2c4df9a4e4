//! `stepwell eval`.

mod groups;

use std::sync::Arc;

use stepwell_engine::Checkpoint;
use stepwell_train::{Observers, Report, Surroundings};

use self::groups::Groups;
use crate::cli::EvalArgs;
use crate::failure::Failure;
use crate::score::{Scoring, UNSCORED, with_newest};
use crate::signals::Signals;
use crate::{figures_text, outputs, say};

/// Scores data with the model of a checkpoint, and prints metrics of the scores.
pub(crate) fn run(args: &EvalArgs) -> Result<(), Failure> {
    let signals = Signals::heed()?;
    if args.json {
        say::aside();
    }
    let path = &args.score.checkpoint;
    let report = with_newest(path, |checkpoint| evaluate(args, checkpoint, &signals));
    let report = report.map_err(|failure| signals.or_interrupted(failure, UNSCORED))?;
    outputs::write(args.report.as_deref(), &report)?;
    if args.json {
        return say::json(&report);
    }
    figures_text::metrics(&report).say()
}

fn evaluate(
    args: &EvalArgs,
    checkpoint: &Checkpoint,
    signals: &Signals,
) -> Result<Report, Failure> {
    let mut scoring = Scoring::of(&args.score, checkpoint)?;
    scoring.has_evaluation().map_err(Failure::Usage)?;
    if !scoring.config.data.labels {
        let why = "data.labels = false: without labels there is nothing to compare with; \
                   `stepwell predict` scores such data";
        return Err(Failure::Usage(why.to_owned()));
    }
    outputs::check(&[("--report", args.report.as_deref())], &scoring.inputs())?;
    let groups = args.group.as_deref().map(|column| Groups::open(&mut scoring, column));
    let groups = groups.transpose()?;
    scoring.announce("evaluating");
    let mut around = scoring.surroundings(signals);
    around.digest = args.digest;
    let Some(groups) = groups else { return scoring.run(&around, signals) };
    let groups = Arc::new(groups.stopped_by(&around.stop));
    let told = Arc::<Groups>::clone(&groups);
    let observer = Arc::new(Observers(vec![Arc::clone(&around.observer), told]));
    let outcome = scoring.run(&Surroundings { observer, ..around }, signals);
    groups.report(outcome)
}
