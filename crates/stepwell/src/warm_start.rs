//! `stepwell train --from`: settings and course of a warm start.

use std::path::{Path, PathBuf};

use serde_json::json;
use stepwell_engine::{Checkpoint, Placement};
use stepwell_settings::{self as settings, ColumnConfig, Config, DataConfig, TransformKind};
use stepwell_train::{Course, Report, RunState, WarmPlan, WarmRequest, WarmStart};

use crate::cli::{ScoreArgs, TrainArgs};
use crate::failure::Failure;
use crate::outputs;
use crate::say::{self, tell};
use crate::score::Scoring;
use crate::signals::Signals;
use crate::statistics::with_statistics;

/// The checkpoint that a run begins with.
pub(crate) struct FromCheckpoint {
    checkpoint: Checkpoint,
    was: Config,
}

/// Refuses settings without data.
pub(crate) fn check_data(config: &Config) -> Result<(), Failure> {
    if config.data.paths.is_empty() {
        let why = "--from trains on other data, and none is given: name it with --data";
        return Err(Failure::Usage(why.to_owned()));
    }
    Ok(())
}

/// Refuses data from a stream, which `--evaluate-first` would read twice.
pub(crate) fn check_read_twice(config: &Config) -> Result<(), Failure> {
    let is_stream = |path: &&String| stepwell_data::is_stream(Path::new(path));
    if let Some(stream) = config.data.paths.iter().find(is_stream) {
        return Err(Failure::Usage(format!(
            "--evaluate-first reads the data twice, and {stream} can be read only once: leave it \
             out"
        )));
    }
    Ok(())
}

/// The course of the run.
pub(crate) struct Warm {
    pub(crate) start: Option<WarmStart>,
    pub(crate) placement: Placement,
    /// Whether all of the data was trained before, so nothing is left to do.
    pub(crate) is_done: bool,
    /// Step of the model.
    pub(crate) step: u64,
}

impl FromCheckpoint {
    /// Opens the checkpoint that `--from` names.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let checkpoint = Checkpoint::open(path)?;
        let was = settings::from_json(&RunState::read(&checkpoint)?.config)?;
        Ok(Self { checkpoint, was })
    }

    /// The checkpoint.
    pub(crate) fn checkpoint(&self) -> &Checkpoint {
        &self.checkpoint
    }

    /// The checkpoint's settings, without data files, evaluation part, directories and ranks.
    pub(crate) fn base(&self) -> Config {
        let mut base = self.was.clone();
        let by_default = Config::default();
        (base.data.paths, base.data.eval_paths) = (Vec::new(), Vec::new());
        (base.data.eval_fraction, base.data.cache) = (0.0, None);
        let data = &mut base.data;
        (data.eval_column, data.eval_values, data.eval_from) = (None, Vec::new(), None);
        (base.checkpoint.dir, base.checkpoint.initial) = (None, false);
        base.ranks.count = by_default.ranks.count;
        base
    }

    /// Fills in missing statistics of standardised columns: from the checkpoint for columns it has,
    /// from the data for the others.
    pub(crate) fn with_statistics(&self, mut config: Config) -> Result<Config, Failure> {
        let lacking = config.without_statistics().map_err(Failure::Usage)?;
        let fill = |column: &mut ColumnConfig, names: &[String]| {
            for (place, name) in names.iter().enumerate() {
                if let (Some((mean, deviation)), true) =
                    (self.statistics_of(name), place < column.mean.len())
                {
                    (column.mean[place], column.deviation[place]) = (mean, deviation);
                }
            }
        };
        for (number, names) in &lacking {
            if names.iter().all(|name| self.statistics_of(name).is_some()) {
                let column = &mut config.columns[number - 1];
                (column.mean, column.deviation) = (vec![0.0; names.len()], vec![1.0; names.len()]);
                fill(column, names);
            }
        }
        let mut config = with_statistics(&config)?;
        lacking.iter().for_each(|(number, names)| fill(&mut config.columns[number - 1], names));
        Ok(config)
    }

    /// Mean and deviation of column `name` in the checkpoint.
    fn statistics_of(&self, name: &str) -> Option<(f64, f64)> {
        let standardised =
            self.was.columns.iter().filter(|column| column.transform == TransformKind::Standardise);
        standardised.into_iter().find_map(|column| {
            let names = settings::expanded(&column.names).ok()?;
            let place = names.iter().position(|known| known == name)?;
            Some((*column.mean.get(place)?, *column.deviation.get(place)?))
        })
    }

    /// Decides the course of the run, and reduces `config` to the remaining data.
    pub(crate) fn decide(
        self,
        args: &TrainArgs,
        config: &mut Config,
        chosen: &[String],
    ) -> Result<Warm, Failure> {
        let from = args.from.clone().unwrap_or_else(|| self.checkpoint.path.clone());
        let layout =
            config.drafted().and_then(|drafted| drafted.layout()).map_err(Failure::Usage)?;
        let request = WarmRequest {
            from: &from,
            to: config.checkpoint.dir.as_deref(),
            paths: &config.data.paths,
            layout: layout.as_ref(),
            again: args.again,
            sets_aside: args.force,
        };
        let step = self.checkpoint.step;
        let plan = request.plan(self.checkpoint)?;
        let WarmPlan { course, paths, same_place, goes_on_as, notes } = plan;
        notes.iter().for_each(say::note);
        if args.force && same_place {
            return Err(Failure::Usage(format!(
                "--force would set aside {}, which --from reads: leave out --force",
                from.display()
            )));
        }
        let start = match course {
            Course::Nothing => {
                let warm = Warm { start: None, placement: Placement::Fresh, is_done: true, step };
                return Ok(warm);
            }
            Course::Resume => None,
            Course::Begin(start) => Some(*start),
        };
        if let Some(was) = goes_on_as {
            keep_evaluation(config, settings::from_json(&was)?.data, chosen);
        }
        if paths != stepwell_data::resolve(&config.data.paths)? {
            let text = |path: &PathBuf| {
                // An existing path is never read as a pattern.
                let text = path.to_str().map(str::to_owned);
                text.ok_or_else(|| {
                    format!("{}: the path is not UTF-8: rename the file", path.display())
                })
            };
            config.data.paths = paths.iter().map(text).collect::<Result<_, _>>()?;
        }
        let placement = match (&start, same_place) {
            (None, _) => Placement::Resume,
            (Some(_), true) => Placement::Append,
            (Some(_), false) if args.force => Placement::SetAside,
            (Some(_), false) => Placement::Fresh,
        };
        Ok(Warm { start, placement, is_done: false, step })
    }
}

/// Restores the evaluation part of a run that resumes, unless the user chose another.
fn keep_evaluation(config: &mut Config, was: DataConfig, chosen: &[String]) {
    let keeps = |key: &str| !chosen.iter().any(|chosen| chosen == key);
    let data = &mut config.data;
    if keeps("data.eval_fraction") {
        data.eval_fraction = was.eval_fraction;
    }
    if keeps("data.eval_paths") {
        data.eval_paths = was.eval_paths;
    }
    if keeps("data.eval_column") {
        data.eval_column = was.eval_column;
    }
    if keeps("data.eval_values") {
        data.eval_values = was.eval_values;
    }
    if keeps("data.eval_from") {
        data.eval_from = was.eval_from;
    }
}

impl Warm {
    /// Reports that nothing is left to do.
    pub(crate) fn tell_done(&self, args: &TrainArgs) -> Result<(), Failure> {
        let Self { step, .. } = self;
        let said = json!({ "trained_before": true, "steps": step });
        outputs::write(args.report.as_deref(), &said)?;
        if args.json {
            return say::json(&said);
        }
        tell!(
            "nothing to train: all of this data was trained before (step {step}); --again trains \
             on it again"
        );
        Ok(())
    }

    /// Evaluates the model that the run begins with on the data that it will train on.
    pub(crate) fn evaluate_first(
        &self,
        config: &Config,
        signals: &Signals,
    ) -> Result<Option<Report>, Failure> {
        let Some(start) = self.start.as_ref().filter(|start| !start.goes_on()) else {
            say::note(
                "--evaluate-first has no effect, because the run resumes in the middle of its data",
            );
            return Ok(None);
        };
        let Some(checkpoint) = start.checkpoint() else { return Ok(None) };
        let args = ScoreArgs {
            checkpoint: checkpoint.path.clone(),
            data: config.data.paths.clone(),
            set: Vec::new(),
            repaired: false,
            by_key: Vec::new(),
        };
        let mut scoring = Scoring::of(&args, &checkpoint)?;
        (scoring.config.threads, scoring.config.device) = (config.threads, config.device.clone());
        scoring.config.tiers = settings::TierConfig { ssd: None, ..config.tiers.clone() };
        scoring.announce("evaluating first, on the new data,");
        let mut around = scoring.surroundings(signals);
        around.on_plan = scoring.on_plan_unsaid();
        scoring.run(&around, signals).map(Some)
    }
}
