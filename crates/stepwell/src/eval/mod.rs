//! `stepwell eval`.

mod beside;
mod groups;
mod recall;
mod values;

use std::sync::Arc;

use stepwell_engine::Checkpoint;
use stepwell_train::{Observer, Observers, Report, Surroundings};

use self::groups::Groups;
use self::recall::Recall;
use self::values::Values;
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
    let stop = signals.stop();
    let groups = args
        .group
        .as_deref()
        .map(|column| Groups::open(&mut scoring, (column, args.at), &stop).map(Arc::new));
    let groups = groups.transpose()?;
    let recall = args.at.filter(|_| args.group.is_none());
    let recall = recall.map(|k| Recall::new(&scoring.config, k).map(Arc::new)).transpose()?;
    let values = args
        .by
        .as_deref()
        .map(|column| Values::open(&mut scoring, (column, args.top), &stop).map(Arc::new));
    let values = values.transpose()?;
    scoring.announce("evaluating");
    let mut around = scoring.surroundings(signals);
    around.digest = args.digest;
    let mut observers = vec![Arc::clone(&around.observer)];
    observers.extend(groups.clone().map(|groups| groups as Arc<dyn Observer>));
    observers.extend(values.clone().map(|values| values as Arc<dyn Observer>));
    observers.extend(recall.clone().map(|recall| recall as Arc<dyn Observer>));
    let observer = Arc::new(Observers(observers));
    let outcome = scoring.run(&Surroundings { observer, ..around }, signals);
    // Texts that cannot be read stop the evaluation, and are the reason.
    let by_group = groups.map(|groups| groups.report()).transpose()?;
    let by_value = values.map(|values| values.report()).transpose()?;
    let report = outcome?;
    let recall = recall.map(|recall| recall.metrics());
    Ok(Report { by_group, by_value, recall, ..report })
}
