//! How the run goes, while it goes: a bar on a terminal, plain lines otherwise.

use std::io::IsTerminal;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use stepwell_engine::Purpose;
use stepwell_settings::Config;
use stepwell_train::{Metrics, Observer, Snapshot};

use crate::say::say;

/// Seconds between plain lines.
const LINE_SECONDS: u64 = 5;

/// Told by the training thread, shows people.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    state: Mutex<State>,
}

struct State {
    began: Option<Instant>,
    last_line: Instant,
    last_bar: Instant,
}

impl Progress {
    /// A bar where standard error is a terminal.
    pub(crate) fn new(config: &Config) -> Self {
        let known = config.data.paths.is_empty();
        let bar = std::io::stderr().is_terminal().then(|| make_bar(config, known));
        let now = Instant::now();
        Self { bar, state: Mutex::new(State { began: None, last_line: now, last_bar: now }) }
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

fn describe(snapshot: &Snapshot, seconds: f64) -> String {
    let rate = snapshot.examples as f64 / seconds.max(1e-9);
    let loss = snapshot.logloss.map_or_else(String::new, |loss| format!(", log loss {loss:.4}"));
    let (hits, misses) = (snapshot.hits as f64, snapshot.misses as f64);
    let hit = 100.0 * hits / (hits + misses).max(1.0);
    format!("{rate:.0} examples/s{loss}, {hit:.1} % hits, {} rows from disk", snapshot.refilled)
}

/// Counts examples while they go by: a bar on a terminal, plain lines otherwise.
pub(crate) struct Counting {
    bar: Option<ProgressBar>,
    began: Instant,
    shown: Instant,
}

impl Counting {
    /// Of `total` examples, where that is known.
    pub(crate) fn new(total: Option<u64>) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| bar_of(total));
        let now = Instant::now();
        Self { bar, began: now, shown: now }
    }

    /// So many are done.
    pub(crate) fn at(&mut self, examples: u64) {
        let rate = || examples as f64 / self.began.elapsed().as_secs_f64().max(1e-9);
        let since = self.shown.elapsed();
        if let Some(bar) = &self.bar {
            if since > Duration::from_millis(100) {
                bar.set_position(examples);
                bar.set_message(format!("{:.0} examples/s", rate()));
                self.shown = Instant::now();
            }
        } else if since > Duration::from_secs(LINE_SECONDS) {
            say!("{examples} examples, {:.0} examples/s", rate());
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
        let began = *state.began.get_or_insert_with(Instant::now);
        if snapshot.purpose == Purpose::Evaluate {
            return;
        }
        let seconds = began.elapsed().as_secs_f64();
        if let Some(bar) = &self.bar {
            if state.last_bar.elapsed() > Duration::from_millis(100) {
                state.last_bar = Instant::now();
                bar.set_position(snapshot.examples);
                bar.set_message(describe(snapshot, seconds));
            }
        } else if state.last_line.elapsed() > Duration::from_secs(LINE_SECONDS) {
            state.last_line = Instant::now();
            say!("{} examples, {}", snapshot.examples, describe(snapshot, seconds));
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
