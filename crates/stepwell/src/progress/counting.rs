//! Progress of a command that counts examples or rows.

use std::time::{Duration, Instant};

use indicatif::ProgressBar;

use super::waiting::FIRST_LINE;
use super::{BAR_EVERY, LINE_SECONDS, bar_of, shows_bars};
use crate::say::say;

/// Shows how many examples or rows are done: a bar on a terminal, plain lines otherwise.
pub(crate) struct Counting {
    what: &'static str,
    bar: Option<ProgressBar>,
    began: Instant,
    shown: Option<Instant>,
}

impl Counting {
    /// Counts `what`, up to `total` if that is known.
    pub(crate) fn new(what: &'static str, total: Option<u64>) -> Self {
        let bar = shows_bars().then(|| bar_of(total));
        let began = Instant::now();
        Self { what, bar, began, shown: None }
    }

    /// Shows that `done` of them are done.
    pub(crate) fn at(&mut self, done: u64) {
        let rate = || done as f64 / self.began.elapsed().as_secs_f64().max(1e-9);
        // Work that ends within a second needs no line.
        let (since, least) = match self.shown {
            Some(shown) => (shown.elapsed(), Duration::from_secs(LINE_SECONDS)),
            None => (self.began.elapsed(), FIRST_LINE),
        };
        if let Some(bar) = &self.bar {
            if since > BAR_EVERY {
                bar.set_position(done);
                bar.set_message(format!("{:.0} {}/s", rate(), self.what));
                self.shown = Some(Instant::now());
            }
        } else if since > least {
            say!("{done} {}, {:.0} {}/s", self.what, rate(), self.what);
            self.shown = Some(Instant::now());
        }
    }

    /// Removes the bar.
    pub(crate) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
