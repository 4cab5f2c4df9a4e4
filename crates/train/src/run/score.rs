//! Scores data with the model of a checkpoint.

use stepwell_engine::{Checkpoint, Purpose};
use stepwell_settings::{Config, RanksConfig};

use super::build::{Beginning, Built, build};
use super::execute::{Reads, add_saves, execute, stopped};
use super::reading::sources;
use super::surroundings::Surroundings;
use super::{checkpoints, last_step};
use crate::batch::RunPosition;
use crate::pipeline::Passes;
use crate::report::Report;
use crate::resume::FallenRates;
use crate::run_plan::RunPlan;
use crate::{Error, Result};

/// Scores the data of `config` with the model of a checkpoint; nothing is trained or written.
///
/// # Errors
/// Everything that the user can fix, and I/O errors.
pub fn evaluate(config: &Config, around: &Surroundings, checkpoint: &Checkpoint) -> Result<Report> {
    // One rank scores, however many trained.
    let ranks = RanksConfig { count: 1, ..config.ranks };
    let config = Config { ranks, ..config.clone() };
    let saves = config.checkpoint.dir.is_some();
    score(&config, around, checkpoint).map_err(|error| add_saves(error, saves))
}

fn score(config: &Config, around: &Surroundings, checkpoint: &Checkpoint) -> Result<Report> {
    let plan = &RunPlan::of(config)?;
    let begin = around.machine.clock.seconds();
    let ready = get_ready_to_score(plan, around, checkpoint);
    let (built, reads) = ready.map_err(|error| stopped(error, &around.stop))?;
    let report = execute(plan, around, built, (reads, None, false), begin);
    let report = report.map_err(|error| error.of_rows_from(Some(&checkpoint.path)))?;
    if report.interrupted {
        // A part of the data has no figures.
        return Err(Error::Interrupted);
    }
    if report.eval.examples == 0 {
        return Err(Error::NothingToEvaluate { skipped: report.skipped_lines });
    }
    report.cut_lists.iter().for_each(|column| (around.on_note)(&column.note()));
    Ok(report)
}

/// Does everything that precedes the first scored mini-batch.
fn get_ready_to_score(
    plan: &RunPlan<'_>,
    around: &Surroundings,
    checkpoint: &Checkpoint,
) -> Result<(Built, Reads)> {
    let sources = sources(plan, &around.stop)?;
    sources.notes.iter().for_each(|note| (around.on_note)(note));
    sources.warnings.iter().for_each(|warning| (around.on_warning)(warning));
    let pass = sources.evaluation(Purpose::Evaluate, 0);
    let pass = pass.unwrap_or_else(|| sources.whole(Purpose::Evaluate));
    checkpoints::accept_rows(checkpoint, around)?;
    last_step::check_counts(plan.config, checkpoint)?;
    let built = build(plan, around, &sources, Beginning::Scored(checkpoint))?;
    let passes = Box::new(std::iter::once(pass)) as Passes;
    let start = RunPosition::default();
    let reads = Reads {
        passes,
        evaluations: None,
        evaluated_on: 0,
        waited: None,
        plateaus: FallenRates::default(),
        is_complete: false,
        start,
        cache: None,
        only_scores: true,
    };
    Ok((built, reads))
}
