//! Progress of a run: a bar on a terminal, plain lines otherwise.

mod counting;
mod recent;
mod screen;
mod waiting;

use std::io::IsTerminal;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use console::Term;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use stepwell_base::counted;
use stepwell_engine::Purpose;
use stepwell_settings::Config;
use stepwell_train::{Capacity, Evaluation, Metrics, Observer, Snapshot};

pub(crate) use self::counting::Counting;
use self::recent::Recent;
use self::screen::{ECHO, Screen};
use self::waiting::{FIRST_LINE, Waiting};
use crate::say::{self, say};
use crate::width::columns;

/// Seconds between plain lines.
const LINE_SECONDS: u64 = 5;
/// Time between updates of a bar.
const BAR_EVERY: Duration = Duration::from_millis(100);

/// First work before the first step.
const LOOKING: &str = "checking data and checkpoints";
/// Last work before the first step.
const OPENING: &str = "opening the tiers";
/// Work at the end.
const DIGESTING: &str = "computing the digest of the model";

/// Shows progress as an observer of the training thread.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    mini_batch: u64,
    /// Epochs of the run.
    epochs: u64,
    /// Whether nothing is trained, so that scored examples are counted.
    only_scores: bool,
    waiting: Waiting,
    state: Mutex<State>,
}

struct State {
    /// Whether no mini-batch is done yet.
    waits: bool,
    /// Total number of examples to train on, if known.
    total: Option<u64>,
    /// Purpose of the last mini-batch.
    purpose: Option<Purpose>,
    /// Rate of training, including evaluations in between.
    trained: Recent,
    /// Rate of scoring in the current evaluation.
    scored: Recent,
    /// Examples trained on before this process started.
    before: Option<u64>,
    /// Number of trained epochs; `None` before the first one that ends in this process.
    epochs: Option<u64>,
    shown: Option<Instant>,
}

impl Progress {
    /// Progress of a run that trains.
    pub(crate) fn of_training(config: &Config) -> Self {
        let lines = config.data.paths.is_empty().then_some(config.synth.examples);
        Self::new(config, lines.map(|lines| trained_of(config, lines)))
    }

    /// Progress of a run that only scores.
    pub(crate) fn of_scoring(config: &Config) -> Self {
        Self { only_scores: true, ..Self::new(config, None) }
    }

    fn new(config: &Config, total: Option<u64>) -> Self {
        let bar = shows_bars().then(|| bar_of(total));
        let mini_batch = config.data.mini_batch as u64;
        let (trained, scored) = (Recent::default(), Recent::default());
        let (purpose, before, shown, epochs) = (None, None, None, None);
        let state = State { waits: true, total, purpose, trained, scored, before, epochs, shown };
        let (told, seconds) = (bar.clone(), if bar.is_some() { 1 } else { LINE_SECONDS });
        let waiting =
            Waiting::new(LOOKING, Duration::from_secs(seconds), move |line| match &told {
                Some(bar) => bar.set_message(line.to_owned()),
                None => say!("{line}"),
            });
        let (only_scores, epochs) = (false, config.data.epochs);
        Self { bar, mini_batch, epochs, only_scores, waiting, state: Mutex::new(state) }
    }

    /// Takes the number of lines from the plan, if they were counted.
    pub(crate) fn planned(&self, config: &Config, capacity: &Capacity) {
        let lines = Some(capacity.exact_scores).filter(|lines| *lines < usize::MAX);
        let of_training = config.data.eval_paths.is_empty() && !self.only_scores;
        if let Some(lines) = lines.filter(|_| of_training) {
            let total = trained_of(config, lines as u64);
            self.state.lock().unwrap_or_else(PoisonError::into_inner).total = Some(total);
            if let Some(bar) = &self.bar {
                bar.set_style(style_of(true));
                bar.set_length(total);
            }
        }
        self.waiting.begin(Some(OPENING));
    }

    /// Removes the bar.
    pub(crate) fn finish(&self) {
        self.waiting.begin(None);
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    /// The current epoch after `done` examples; `None` if there is only one, or if a resumed run
    /// doesn't know how many came before.
    fn epoch(&self, state: &State, done: u64) -> Option<String> {
        let of_epoch = |total: u64| (total / self.epochs).max(1);
        let number = match state.total {
            Some(total) => done.saturating_sub(1) / of_epoch(total) + 1,
            None => state.epochs.or((state.before == Some(0)).then_some(0))? + 1,
        };
        (self.epochs > 1).then(|| format!("epoch {}/{}", number.min(self.epochs), self.epochs))
    }

    /// Prints the figures of an epoch, unless it is the only one: then the final table has them. A
    /// resumed run may have none of its first epoch left to train.
    fn figures(&self, what: &str, metrics: &Metrics) {
        if self.epochs > 1 && !self.only_scores {
            self.figures_of_part(what, metrics);
        }
    }

    /// Prints figures that the end of the run doesn't repeat.
    fn figures_of_part(&self, what: &str, metrics: &Metrics) {
        if metrics.examples > 0 {
            self.line(&format!("{what:<23} {}", crate::figures_text::metrics_line(metrics)));
        }
    }

    /// Prints a note on the run.
    pub(crate) fn note(&self, note: &str) {
        self.beside_bar(|| say::note(note));
    }

    /// Prints a problem that does not end the run.
    pub(crate) fn warn(&self, warning: &str) {
        self.beside_bar(|| say::warn(warning));
    }

    fn line(&self, text: &str) {
        self.beside_bar(|| say!("{text}"));
    }

    /// Prints lines while the bar is hidden.
    fn beside_bar(&self, print: impl FnOnce()) {
        match &self.bar {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }
}

/// Whether to show bars: on a terminal, unless quiet.
fn shows_bars() -> bool {
    std::io::stderr().is_terminal() && !say::is_quiet()
}

/// Number of examples to train on in all epochs, of `lines` lines.
fn trained_of(config: &Config, lines: u64) -> u64 {
    let of_epoch = lines as f64 * (1.0 - config.data.eval_fraction);
    (of_epoch.round() as u64).saturating_mul(config.data.epochs)
}

fn bar_of(total: Option<u64>) -> ProgressBar {
    let target = ProgressDrawTarget::term_like(Box::new(Screen::new()));
    let bar = ProgressBar::with_draw_target(total, target);
    bar.with_style(style_of(total.is_some()))
}

fn style_of(known: bool) -> ProgressStyle {
    let template = match known {
        true => "{bar:16} {percent:>3} % {msg}",
        false => "{spinner} {pos} examples in {elapsed} {msg}",
    };
    let style = ProgressStyle::with_template(template);
    style.unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// Columns that a bar's message must leave free, for the bar before it, after `position` examples,
/// and for the free columns at the end.
fn columns_beside(position: u64, is_known: bool) -> usize {
    let before = match is_known {
        true => "################ 100 % ".len(),
        false => format!("* {position} examples in 1000s ").len(),
    };
    before + usize::from(ECHO)
}

/// Facts about a mini-batch, the most important first; `left` is the seconds left of the run.
fn parts(snapshot: &Snapshot, rate: Option<f64>, left: Option<f64>) -> Vec<String> {
    let rate = rate.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.0}"));
    let mut parts = vec![format!("{rate} examples/s")];
    if snapshot.purpose == Purpose::Evaluate {
        parts.push(format!("{} scored", counted(snapshot.evaluated, "example")));
        return parts;
    }
    parts.extend(left.map(|left| format!("{} left", time(left))));
    let name = if snapshot.is_log_loss { "log loss" } else { "loss" };
    parts.extend(snapshot.loss.map(|loss| format!("{name} {loss:.4}")));
    let (hits, misses) = (snapshot.hits as f64, snapshot.misses as f64);
    let hit = 100.0 * hits / (hits + misses).max(1.0);
    let on_devices = snapshot.on_devices;
    let on_devices =
        on_devices.map_or_else(String::new, |part| format!(" ({:.1} % on devices)", 100.0 * part));
    parts.push(format!("{hit:.1} % hits{on_devices}"));
    parts.push(format!("{} rows from disk", snapshot.refilled));
    parts
}

/// The first parts that fit into a line.
fn line_of(parts: &[String], columns: Option<usize>) -> String {
    let mut line = String::new();
    for part in parts {
        let between = if line.is_empty() { "" } else { ", " };
        let more = line.len() + between.len() + part.len();
        if columns.is_some_and(|columns| more > columns) {
            break;
        }
        line.push_str(between);
        line.push_str(part);
    }
    line
}

/// A time in a suitable unit.
fn time(seconds: f64) -> String {
    match seconds {
        s if s < 100.0 => format!("{s:.0} s"),
        s if s < 6000.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
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
        if std::mem::take(&mut state.waits) {
            self.waiting.begin(None);
        }
        if state.purpose.replace(purpose) != Some(purpose) {
            state.scored = Recent::default();
        }
        let recent = match purpose {
            Purpose::Train => &mut state.trained,
            Purpose::Evaluate => &mut state.scored,
        };
        recent.at(at, examples);
        let rate = recent.rate(at, examples);
        // Steps before a resume had full mini-batches, except the last of each epoch.
        let of_steps = snapshot.step * self.mini_batch;
        let before = *state.before.get_or_insert(of_steps.saturating_sub(snapshot.examples));
        let every = match (&self.bar, state.shown) {
            (Some(_), _) => BAR_EVERY,
            (None, None) => FIRST_LINE,
            (None, Some(_)) => Duration::from_secs(LINE_SECONDS),
        };
        // The first line comes `FIRST_LINE` after the first mini-batch.
        let since = *state.shown.get_or_insert(at);
        if at - since < every {
            return;
        }
        state.shown = Some(at);
        let done = before + snapshot.examples;
        let left = state.total.zip(rate).filter(|(_, rate)| *rate > 0.0);
        let left = left.map(|(total, rate)| total.saturating_sub(done) as f64 / rate);
        let mut parts = parts(snapshot, rate, left);
        let epoch = self.epoch(&state, done).filter(|_| purpose == Purpose::Train);
        drop(state);
        match (&self.bar, purpose) {
            (Some(bar), _) => {
                let done = if self.only_scores { examples } else { done };
                let done = bar.length().map_or(done, |length| done.min(length));
                if let Some(epoch) = epoch {
                    parts.insert(0, epoch);
                }
                let beside = columns_beside(done, bar.length().is_some());
                let columns =
                    columns(&Term::stderr()).map(|columns| columns.saturating_sub(beside));
                bar.set_position(done);
                bar.set_message(line_of(&parts, columns));
            }
            (None, Purpose::Train) => {
                let epoch = epoch.map_or_else(String::new, |epoch| format!("{epoch}, "));
                say!("{epoch}{examples} examples, {}", line_of(&parts, None));
            }
            (None, Purpose::Evaluate) => say!("evaluating: {}", line_of(&parts, None)),
        }
    }

    fn epoch_trained(&self, epoch: u64, metrics: &Metrics) {
        let trained = epoch + 1;
        self.state.lock().unwrap_or_else(PoisonError::into_inner).epochs = Some(trained);
        self.figures(&format!("epoch {trained}/{}, progressive", self.epochs), metrics);
    }

    fn evaluated(&self, evaluation: &Evaluation, best: Option<&Metrics>) {
        let Evaluation { step, within_epoch, metrics } = evaluation;
        if *within_epoch {
            return self.figures_of_part(&format!("step {step}, evaluation"), metrics);
        }
        self.figures("evaluation", metrics);
        best.into_iter().for_each(|best| self.figures("best reachable", best));
    }

    fn digesting(&self) {
        if let Some(bar) = &self.bar {
            bar.set_message(DIGESTING);
        }
        self.waiting.begin(Some(DIGESTING));
    }

    fn cached(&self, examples: u64, path: &Path) {
        self.line(&format!("data cache of {examples} examples in {}", path.display()));
    }

    fn cache_given_up(&self, why: &str) {
        self.warn(&format!("{why}: data.cache is abandoned, training continues with the text"));
    }

    fn saved(&self, step: u64, path: &Path) {
        self.line(&format!("checkpoint of step {step} in {}", path.display()));
    }
}
