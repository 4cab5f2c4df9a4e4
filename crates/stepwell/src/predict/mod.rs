//! `stepwell predict`.

mod file;

use std::cell::Cell;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::json;
use stepwell_base::stop::StopRequest;
use stepwell_engine::Checkpoint;
use stepwell_train::{Observer, Observers, Report, Scored, Surroundings, labels, layer_columns};

use self::file::{Columns, Failed, ScoreFile};
use crate::cli::PredictArgs;
use crate::failure::Failure;
use crate::figures_text::lacking;
use crate::outputs;
use crate::record_file::check_name;
use crate::say::{self, say};
use crate::score::{Scoring, UNSCORED, with_newest};
use crate::score_texts::Names;
use crate::signals::Signals;

/// Scores data with the model of a checkpoint, and writes the scores.
pub(crate) fn run(args: &PredictArgs) -> Result<(), Failure> {
    let signals = Signals::heed()?;
    let out = (args.out != Path::new("-")).then_some(args.out.as_path());
    out.map_or(Ok(()), |out| check_name("--out", out)).map_err(Failure::Usage)?;
    if args.json && out.is_none() {
        let why = "--json prints figures where the scores would go: name --out FILE.csv";
        return Err(Failure::Usage(why.to_owned()));
    }
    say::aside();
    // Scores on standard output cannot be taken back, so a second try must not repeat them.
    let begun = Cell::new(false);
    let report = with_newest(&args.score.checkpoint, |checkpoint| {
        if out.is_none() && begun.get() {
            return Err(Failure::from("a part of the scores was written".to_owned()));
        }
        let outcome = predict(args, checkpoint, out, &signals);
        begun.set(true);
        outcome
    });
    let report = report.map_err(|failure| signals.or_interrupted(failure, UNSCORED))?;
    let (scores, seconds) = (report.eval.examples, report.wall_seconds);
    let rate = scores as f64 / seconds.max(f64::MIN_POSITIVE);
    say!("{scores} scores in {seconds:.1} s, {rate:.0} a second");
    lacking(&report).iter().for_each(|line| say!("without a row: {line}"));
    if !args.json {
        return Ok(());
    }
    say::json(&json!({
        "out": say::path(&args.out),
        "scores": scores,
        "seconds": seconds,
        "ids_by_column": report.ids_by_column,
    }))
}

fn predict(
    args: &PredictArgs,
    checkpoint: &Checkpoint,
    out: Option<&Path>,
    signals: &Signals,
) -> Result<Report, Failure> {
    let mut scoring = Scoring::of(&args.score, checkpoint)?;
    if scoring.chose("data.skip_max") {
        return Err(Failure::Usage(
            "data.skip_max: every line needs a score, so malformed ones cannot be skipped; fix or \
             remove them"
                .to_owned(),
        ));
    }
    scoring.config.data.skip_max = 0;
    scoring.config.data.labels = !args.unlabelled;
    let learned = labels(&scoring.config).map_err(|error| error.to_string())?;
    Columns::check((&args.id, &args.layer), &learned, args.label).map_err(Failure::Usage)?;
    let widths = layer_columns(&scoring.config, &args.layer)?;
    let ids = Some(&args.id).filter(|ids| !ids.is_empty());
    let names = ids.map(|ids| Names::open(&scoring.config, "--id", ids)).transpose()?;
    outputs::check(&[("--out", out)], &scoring.inputs())?;
    scoring.announce("scoring with");
    let around = scoring.surroundings(signals);
    let layers = args.layer.iter().cloned().zip(widths).collect();
    let columns = Columns { names, labels: learned.to_vec(), with_labels: args.label, layers };
    let scores = Arc::new(Scores {
        stop: around.stop.clone(),
        layers: args.layer.clone(),
        file: Mutex::new(ScoreFile::begin(out, columns)?),
    });
    let told = Arc::<Scores>::clone(&scores);
    let observer: Arc<dyn Observer> = match args.unlabelled {
        // Without labels, there are no metrics.
        true => told,
        false => Arc::new(Observers(vec![Arc::clone(&around.observer), told])),
    };
    let on_plan = scoring.on_plan_unsaid();
    let outcome = scoring.run(&Surroundings { observer, on_plan, ..around }, signals);
    let mut file = scores.file.lock().unwrap_or_else(PoisonError::into_inner);
    match file.failed.take() {
        // This error stopped the run.
        Some(Failed::Writing(why)) => Err(file.cannot_write(why)),
        Some(Failed::Names(why)) => Err(why.into()),
        None => outcome.and_then(|report| file.finish().map(|()| report)),
    }
}

/// Writes scores as they are computed.
struct Scores {
    /// Stops the run if scores cannot be written.
    stop: StopRequest,
    /// Layers whose outputs are written, too.
    layers: Vec<String>,
    file: Mutex<ScoreFile>,
}

impl Observer for Scores {
    fn layers(&self) -> Vec<String> {
        self.layers.clone()
    }

    fn scored(&self, scored: Scored<'_>) {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if file.failed.is_none()
            && let Err(why) = file.put(scored)
        {
            file.failed = Some(why);
            self.stop.make();
        }
    }
}
