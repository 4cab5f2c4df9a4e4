//! How the run goes, while it goes: a bar on a terminal, plain lines otherwise.

use std::io::IsTerminal;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use stepwell_base::counted;
use stepwell_engine::Purpose;
use stepwell_settings::Config;
use stepwell_train::{Metrics, Observer, Snapshot};

use crate::say::{self, say};

/// Seconds between plain lines.
const LINE_SECONDS: u64 = 5;

/// Told by the training thread, shows people.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    mini_batch: u64,
    state: Mutex<State>,
}

struct State {
    /// When a training part or an evaluation was first heard of, and how far it was then.
    began: Option<Part>,
    /// Examples that were trained on before this process was.
    before: Option<u64>,
    shown: Instant,
}

/// A training part or an evaluation.
#[derive(Clone, Copy)]
struct Part {
    purpose: Purpose,
    at: Instant,
    examples: u64,
}

impl Part {
    /// Examples a second since it was heard of; none with its first mini-batch alone.
    fn rate(&self, examples: u64) -> Option<f64> {
        let seconds = self.at.elapsed().as_secs_f64();
        (examples > self.examples && seconds > 0.0)
            .then(|| (examples - self.examples) as f64 / seconds)
    }
}

impl Progress {
    /// A bar where standard error is a terminal.
    pub(crate) fn new(config: &Config) -> Self {
        let known = config.data.paths.is_empty();
        let bar = shows_bars().then(|| make_bar(config, known));
        let mini_batch = config.data.mini_batch as u64;
        let state = State { began: None, before: None, shown: Instant::now() };
        Self { bar, mini_batch, state: Mutex::new(state) }
    }

    /// Takes the bar away.
    pub(crate) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    fn line(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| say!("{text}")),
            None => say!("{text}"),
        }
    }
}

/// Whether somebody watches.
fn shows_bars() -> bool {
    std::io::stderr().is_terminal() && !say::is_quiet()
}

fn make_bar(config: &Config, known: bool) -> ProgressBar {
    let train = 1.0 - config.data.eval_fraction;
    let total = (config.synth.examples as f64 * train) as u64 * config.data.epochs;
    bar_of(known.then_some(total))
}

fn bar_of(total: Option<u64>) -> ProgressBar {
    let (bar, template) = match total {
        Some(total) => (ProgressBar::new(total), "{bar:30} {pos}/{len} {eta} left | {msg}"),
        None => (ProgressBar::no_length(), "{spinner} {pos} examples in {elapsed} | {msg}"),
    };
    let style = ProgressStyle::with_template(template);
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

fn describe(snapshot: &Snapshot, rate: Option<f64>) -> String {
    let rate = rate.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.0}"));
    let rate = format!("{rate} examples/s");
    if snapshot.purpose == Purpose::Evaluate {
        return format!("{rate}, {} scored", counted(snapshot.evaluated, "example"));
    }
    let loss = snapshot.logloss.map_or_else(String::new, |loss| format!(", log loss {loss:.4}"));
    let (hits, misses) = (snapshot.hits as f64, snapshot.misses as f64);
    let hit = 100.0 * hits / (hits + misses).max(1.0);
    format!("{rate}{loss}, {hit:.1} % hits, {} rows from disk", snapshot.refilled)
}

/// Counts examples or rows while they go by: a bar on a terminal, plain lines otherwise.
pub(crate) struct Counting {
    what: &'static str,
    bar: Option<ProgressBar>,
    began: Instant,
    shown: Instant,
}

impl Counting {
    /// Of `total` of `what`, where that is known.
    pub(crate) fn new(what: &'static str, total: Option<u64>) -> Self {
        let bar = shows_bars().then(|| bar_of(total));
        let now = Instant::now();
        Self { what, bar, began: now, shown: now }
    }

    /// So many are done.
    pub(crate) fn at(&mut self, done: u64) {
        let rate = || done as f64 / self.began.elapsed().as_secs_f64().max(1e-9);
        let since = self.shown.elapsed();
        if let Some(bar) = &self.bar {
            if since > Duration::from_millis(100) {
                bar.set_position(done);
                bar.set_message(format!("{:.0} {}/s", rate(), self.what));
                self.shown = Instant::now();
            }
        } else if since > Duration::from_secs(LINE_SECONDS) {
            say!("{done} {}, {:.0} {}/s", self.what, rate(), self.what);
            self.shown = Instant::now();
        }
    }

    /// Takes the bar away.
    pub(crate) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl Observer for Progress {
    fn progress(&self, snapshot: &Snapshot) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (purpose, at) = (snapshot.purpose, Instant::now());
        let examples = match purpose {
            Purpose::Train => snapshot.examples,
            Purpose::Evaluate => snapshot.evaluated,
        };
        let part = state.began.filter(|part| part.purpose == purpose);
        let part = part.unwrap_or(Part { purpose, at, examples });
        state.began = Some(part);
        // Steps before a resume had whole mini-batches, but for the last of an epoch.
        let of_steps = snapshot.step * self.mini_batch;
        let before = *state.before.get_or_insert(of_steps.saturating_sub(snapshot.examples));
        let every = match &self.bar {
            Some(_) => Duration::from_millis(100),
            None => Duration::from_secs(LINE_SECONDS),
        };
        if state.shown.elapsed() < every {
            return;
        }
        state.shown = at;
        let described = describe(snapshot, part.rate(examples));
        match (&self.bar, purpose) {
            (Some(bar), _) => {
                let done = before + snapshot.examples;
                bar.set_position(bar.length().map_or(done, |length| done.min(length)));
                bar.set_message(described);
            }
            (None, Purpose::Train) => say!("{examples} examples, {described}"),
            (None, Purpose::Evaluate) => say!("evaluating: {described}"),
        }
    }

    fn epoch_trained(&self, metrics: &Metrics) {
        self.line(&format!("epoch trained, progressive: {}", crate::table::metrics_line(metrics)));
    }

    fn evaluated(&self, metrics: &Metrics, best: Option<&Metrics>) {
        self.line(&format!("evaluation:                 {}", crate::table::metrics_line(metrics)));
        if let Some(best) = best {
            self.line(&format!("best reachable:             {}", crate::table::metrics_line(best)));
        }
    }

    fn digesting(&self) {
        if let Some(bar) = &self.bar {
            bar.set_message("computing the digest of the model");
        }
    }

    fn cached(&self, examples: u64, path: &Path) {
        self.line(&format!("data cache of {examples} examples in {}", path.display()));
    }

    fn cache_given_up(&self, why: &str) {
        self.line(&format!("{why}: data.cache is given up, training goes on with the text"));
    }

    fn saved(&self, step: u64, path: &Path) {
        self.line(&format!("checkpoint of step {step} in {}", path.display()));
    }
}
