//! How a run went, as lines of JSON while it goes: `--metrics FILE`.
//!
//! A line at most every second, and one for each epoch, evaluation and checkpoint. A line is
//! written at once and whole, so that who follows the file sees no half of one. Where no more can
//! be written, that is said once and the run goes on.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use stepwell_engine::Purpose;
use stepwell_train::{Metrics, Observer, Snapshot};

use crate::outputs::open_special;
use crate::say;

/// Least time between two lines about training.
const EVERY: Duration = Duration::from_secs(1);

/// A file that is opened when something is written to it.
struct LazyFile(Option<File>);

impl LazyFile {
    fn write_line(
        &mut self,
        line: &Value,
        open: impl FnOnce() -> io::Result<File>,
    ) -> io::Result<()> {
        let file = match &mut self.0 {
            Some(file) => file,
            none => none.insert(open()?),
        };
        file.write_all(format!("{line}\n").as_bytes())
    }
}

/// Told by the training thread, writes what programs read.
pub(crate) struct Curves {
    began: Instant,
    path: PathBuf,
    goes_on: bool,
    state: Mutex<State>,
}

struct State {
    /// None once it could not be written; not opened before the first line, so that a run which
    /// is refused leaves an older file as it was.
    file: Option<LazyFile>,
    /// When a line about training was written, and what it said.
    last: Option<(Instant, u64)>,
    /// Of the last mini-batch that was trained.
    step: u64,
    examples: u64,
}

impl Curves {
    /// Lines that go to `path`; behind those that are there where a run `goes_on`.
    pub(crate) fn new(path: &Path, goes_on: bool) -> Self {
        let file = Some(LazyFile(None));
        let state = State { file, last: None, step: 0, examples: 0 };
        let (began, path) = (Instant::now(), path.to_owned());
        Self { began, path, goes_on, state: Mutex::new(state) }
    }

    /// Writes a line, with the time and the place that it is about.
    fn put(&self, state: &mut State, event: &str, figures: Value) {
        let Some(file) = &mut state.file else { return };
        let mut line = json!({
            "event": event,
            "seconds": (self.began.elapsed().as_secs_f64() * 1e3).round() / 1e3,
            "step": state.step,
            "examples": state.examples,
        });
        if let (Value::Object(line), Value::Object(figures)) = (&mut line, figures) {
            // What an evaluation counts is not what was trained on.
            line.extend(figures.into_iter().filter(|(name, _)| name != "examples"));
        }
        let is_special = || fs::metadata(&self.path).is_ok_and(|about| !about.is_file());
        let open = || match self.goes_on {
            _ if is_special() => open_special(&self.path),
            true => File::options().create(true).append(true).open(&self.path),
            false => File::create(&self.path),
        };
        if let Err(why) = file.write_line(&line, open) {
            state.file = None;
            let path = self.path.display();
            say::note(format_args!("cannot write {path} ({why}): the run goes on"));
        }
    }

    fn put_now(&self, event: &str, figures: Value) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        self.put(&mut state, event, figures);
    }
}

fn figures_of(metrics: &Metrics) -> Value {
    let mut figures = serde_json::to_value(metrics).unwrap_or_default();
    figures["scored"] = metrics.examples.into();
    figures
}

impl Observer for Curves {
    fn progress(&self, snapshot: &Snapshot) {
        if snapshot.purpose == Purpose::Evaluate {
            return;
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        (state.step, state.examples) = (snapshot.step, snapshot.examples);
        let now = Instant::now();
        let since = state.last.map(|(at, examples)| (now - at, snapshot.examples - examples));
        if since.is_some_and(|(time, _)| time < EVERY) {
            return;
        }
        state.last = Some((now, snapshot.examples));
        let rate = since.map(|(time, examples)| examples as f64 / time.as_secs_f64());
        let planned = (snapshot.hits + snapshot.misses).max(1) as f64;
        let figures = json!({
            "examples_per_second": rate.map(f64::round),
            "logloss": snapshot.logloss,
            "hit_rate": snapshot.hits as f64 / planned,
            "rows_from_disk": snapshot.refilled,
            "reads": snapshot.reads,
            "pages_read": snapshot.pages_read,
        });
        self.put(&mut state, "training", figures);
    }

    fn epoch_trained(&self, metrics: &Metrics) {
        self.put_now("epoch", figures_of(metrics));
    }

    fn evaluated(&self, metrics: &Metrics, _best: Option<&Metrics>) {
        self.put_now("evaluation", figures_of(metrics));
    }

    fn saved(&self, _step: u64, path: &Path) {
        self.put_now("checkpoint", json!({ "path": path }));
    }
}
