//! `stepwell predict`.

mod names;

use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufWriter, Stdout, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::json;
use stepwell_base::mend;
use stepwell_base::stop::StopRequest;
use stepwell_engine::Checkpoint;
use stepwell_train::{Observer, Observers, Report, Surroundings, probability};

use self::names::{Names, field};
use crate::cli::PredictArgs;
use crate::failure::Failure;
use crate::outputs::{self, Output};
use crate::say::{self, say};
use crate::score::{Scoring, with_newest};
use crate::signals::Signals;

/// Bytes of scores that are written at once.
const BUFFER_BYTES: usize = 256 << 10;

/// What a file of scores may not end in: it is text, as it is.
const OTHERS: [&str; 8] = ["gz", "zst", "zstd", "xz", "bz2", "zip", "parquet", "json"];

/// Scores data with the model of a checkpoint, and writes the scores.
pub(crate) fn run(args: &PredictArgs) -> Result<(), Failure> {
    let signals = Signals::heed()?;
    let out = (args.out != Path::new("-")).then_some(args.out.as_path());
    check_name(out)?;
    if args.json && out.is_none() {
        return Err("--json prints figures where the scores would go: name --out FILE.csv"
            .to_owned()
            .into());
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
    })?;
    let (scores, seconds) = (report.eval.examples, report.wall_seconds);
    let rate = scores as f64 / seconds.max(f64::MIN_POSITIVE);
    say!("{scores} scores in {seconds:.1} s, {rate:.0} a second");
    if !args.json {
        return Ok(());
    }
    say::json(&json!({ "out": args.out, "scores": scores, "seconds": seconds }))
}

fn check_name(out: Option<&Path>) -> Result<(), String> {
    let end = out.and_then(Path::extension).map(|end| end.to_string_lossy().to_lowercase());
    match (out, end) {
        (Some(out), Some(end)) if OTHERS.contains(&&*end) => {
            let out = out.display();
            Err(format!("--out {out}: scores are written as plain CSV: name it .csv, or - to pipe"))
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
        return Err(Failure::from(
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
    let scores = Arc::new(Scores {
        stop: around.stop.clone(),
        file: Mutex::new(ScoreFile::begin(out, names)?),
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

/// Scores as a file, or as what somebody reads.
struct ScoreFile {
    to: BufWriter<Target>,
    /// What stands before each score.
    names: Option<Names>,
    /// Why no more is written.
    failed: Option<Failed>,
}

/// Why no more is written.
enum Failed {
    /// The file takes no more.
    Writing(io::Error),
    /// The names of records cannot be read.
    Names(String),
}

impl From<io::Error> for Failed {
    fn from(why: io::Error) -> Self {
        Self::Writing(why)
    }
}

enum Target {
    Said(Stdout),
    Kept(Output, String),
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Said(out) => out.write(bytes),
            Self::Kept(Output { file, .. }, _) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Said(out) => out.flush(),
            Self::Kept(Output { file, .. }, _) => File::flush(file),
        }
    }
}

impl ScoreFile {
    /// Begins the file `out`, with its header.
    fn begin(out: Option<&Path>, names: Option<Names>) -> Result<Self, Failure> {
        let target = match out {
            None => Target::Said(io::stdout()),
            Some(path) => {
                let name = path.display().to_string();
                let made = Output::begin(path);
                Target::Kept(made.map_err(|error| cannot_write(&name, &error))?, name)
            }
        };
        let to = BufWriter::with_capacity(BUFFER_BYTES, target);
        let mut file = Self { to, names, failed: None };
        let name = file.names.as_ref().map(|names| field(names.column.clone()) + ",");
        let header = format!("{}score\n", name.unwrap_or_default());
        file.failed = file.to.write_all(header.as_bytes()).err().map(Failed::Writing);
        Ok(file)
    }

    /// Adds the scores of a mini-batch: the shortest numbers that are read as the same bits.
    fn put(&mut self, logits: &[f32]) -> Result<(), Failed> {
        let mut text = zmij::Buffer::new();
        for logit in logits {
            if let Some(names) = &mut self.names {
                let name = names.next().map_err(Failed::Names)?;
                self.to.write_all(name.as_bytes())?;
                self.to.write_all(b",")?;
            }
            self.to.write_all(text.format(probability(*logit)).as_bytes())?;
            self.to.write_all(b"\n")?;
        }
        Ok(())
    }

    /// Gives the file its name, once all is in it.
    fn finish(&mut self) -> Result<(), Failure> {
        if let Err(why) = self.to.flush() {
            return Err(self.cannot_write(why));
        }
        match self.to.get_mut() {
            Target::Said(_) => Ok(()),
            Target::Kept(output, name) => {
                output.finish().map_err(|error| cannot_write(name, &error).into())
            }
        }
    }

    fn cannot_write(&self, why: io::Error) -> Failure {
        match self.to.get_ref() {
            Target::Said(_) => say::written(Err(why)).err().unwrap_or(Failure::Unheard),
            Target::Kept(_, name) => cannot_write(name, &why).into(),
        }
    }
}

fn cannot_write(name: &str, why: &io::Error) -> String {
    format!("cannot write {name}: {why}{}", mend(why))
}
