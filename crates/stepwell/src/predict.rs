//! `stepwell predict`.

mod file;
mod names;
mod records;

use std::cell::Cell;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::json;
use stepwell_base::stop::StopRequest;
use stepwell_engine::Checkpoint;
use stepwell_train::{Observer, Observers, Report, Surroundings, labels};

use self::file::{Failed, ScoreFile};
use self::names::Names;
use crate::cli::PredictArgs;
use crate::failure::Failure;
use crate::outputs;
use crate::say::{self, say};
use crate::score::{Scoring, UNSCORED, with_newest};
use crate::signals::Signals;

/// What a file of scores may not end in: it is text, as it is.
const OTHERS: [&str; 8] = ["gz", "zst", "zstd", "xz", "bz2", "zip", "json", "npy"];

/// Scores data with the model of a checkpoint, and writes the scores.
pub(crate) fn run(args: &PredictArgs) -> Result<(), Failure> {
    let signals = Signals::heed()?;
    let out = (args.out != Path::new("-")).then_some(args.out.as_path());
    check_name(out).map_err(Failure::Usage)?;
    if args.json && out.is_none() {
        let why = "--json prints figures where the scores would go: name --out FILE.csv";
        return Err(Failure::Usage(why.to_owned()));
    }
    say::aside();
    // What went to standard output cannot be taken back, and is not said twice.
    let begun = Cell::new(false);
    let report = with_newest(&args.score.checkpoint, |checkpoint| {
        if out.is_none() && begun.get() {
            return Err(Failure::from("a part of the scores was written".to_owned()));
        }
        let outcome = predict(args, (checkpoint, out), &signals);
        begun.set(true);
        outcome
    });
    let report = report.map_err(|failure| signals.or_interrupted(failure, UNSCORED))?;
    let (scores, seconds) = (report.eval.examples, report.wall_seconds);
    let rate = scores as f64 / seconds.max(f64::MIN_POSITIVE);
    say!("{scores} scores in {seconds:.1} s, {rate:.0} a second");
    if !args.json {
        return Ok(());
    }
    say::json(&json!({ "out": say::path(&args.out), "scores": scores, "seconds": seconds }))
}

fn check_name(out: Option<&Path>) -> Result<(), String> {
    let end = out.and_then(Path::extension).map(|end| end.to_string_lossy().to_lowercase());
    match (out, end) {
        (Some(out), Some(end)) if OTHERS.contains(&&*end) => {
            let out = out.display();
            Err(format!(
                "--out {out}: scores are written as plain CSV or as Parquet: name it .csv or \
                 .parquet, or - to pipe"
            ))
        }
        _ => Ok(()),
    }
}

fn predict(
    args: &PredictArgs,
    (checkpoint, out): (&Checkpoint, Option<&Path>),
    signals: &Signals,
) -> Result<Report, Failure> {
    let mut scoring = Scoring::of(&args.score, checkpoint)?;
    if scoring.chose("data.skip_max") {
        return Err(Failure::Usage(
            "data.skip_max: every line is to have its score, so that malformed ones cannot be \
             skipped; mend or remove them"
                .to_owned(),
        ));
    }
    scoring.config.data.skip_max = 0;
    scoring.config.data.labels = !args.unlabelled;
    let names = args.id.as_deref().map(|id| Names::open(&scoring.config, id)).transpose()?;
    outputs::check(&[("--out", out)], &scoring.inputs())?;
    scoring.announce("scoring with");
    let around = scoring.surroundings(signals);
    let learned = labels(&scoring.config).map_err(|error| error.to_string())?;
    let scores = Arc::new(Scores {
        stop: around.stop.clone(),
        file: Mutex::new(ScoreFile::begin(out, names, &learned)?),
    });
    let told = Arc::<Scores>::clone(&scores);
    let observer: Arc<dyn Observer> = match args.unlabelled {
        // Figures of labels that are not there say nothing.
        true => told,
        false => Arc::new(Observers(vec![Arc::clone(&around.observer), told])),
    };
    let on_plan = scoring.on_plan_unsaid();
    let outcome = scoring.run(&Surroundings { observer, on_plan, ..around }, signals);
    let mut file = scores.file.lock().unwrap_or_else(PoisonError::into_inner);
    match file.failed.take() {
        // It stopped for that.
        Some(Failed::Writing(why)) => Err(file.cannot_write(why)),
        Some(Failed::Names(why)) => Err(why.into()),
        None => outcome.and_then(|report| file.finish().map(|()| report)),
    }
}

/// Writes scores as they come.
struct Scores {
    /// Made where scores cannot be written.
    stop: StopRequest,
    file: Mutex<ScoreFile>,
}

impl Observer for Scores {
    fn scored(&self, logits: &[f32]) {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if file.failed.is_none()
            && let Err(why) = file.put(logits)
        {
            file.failed = Some(why);
            self.stop.make();
        }
    }
}
