//! Decides when checkpoints without a mark among the batches are due: before the first step, after
//! a time, and when a stop is requested.
//!
//! The planner checks this, because only it can bring everything to rest (hazard H9). The
//! checkpoint has the model between two mini-batches, anywhere in a batch; the model's bits don't
//! depend on where.

use std::sync::Arc;

use stepwell_base::clock::Clock;
use stepwell_base::stop::StopRequest;

/// When checkpoints are written.
#[derive(Debug)]
pub struct Times {
    /// Whether any checkpoints are written.
    pub saves: bool,
    /// Maximum seconds between checkpoints; `None` for no limit.
    pub seconds: Option<f64>,
    /// Whether one is written before the first step.
    pub initial: bool,
    /// Whether several ranks write checkpoints together. Then a failed rank can't contribute its
    /// part, because the others are at a different step.
    pub shared: bool,
    /// Ends the run, with a checkpoint.
    pub stop: StopRequest,
}

impl Times {
    /// Only checkpoints marked among the batches.
    pub fn never() -> Self {
        Self {
            saves: false,
            seconds: None,
            initial: false,
            shared: false,
            stop: StopRequest::default(),
        }
    }
}

/// Tracks whether a checkpoint is due.
pub(super) struct Due {
    times: Times,
    clock: Arc<dyn Clock>,
    /// Time at which the last checkpoint was complete.
    since: f64,
    /// Whether any step was trained since then.
    trained: bool,
    /// Whether the time was up at the last check.
    late: bool,
    /// Whether a checkpoint is being written.
    writing: bool,
    stopping: bool,
}

impl Due {
    pub(super) fn new(times: Times, clock: Arc<dyn Clock>) -> Self {
        let since = clock.seconds();
        let (trained, late, writing, stopping) = (false, false, false, false);
        Self { times, clock, since, trained, late, writing, stopping }
    }

    /// Checks for a requested stop, and the time.
    pub(super) fn look(&mut self) {
        self.stopping |= self.times.stop.is_made();
        let comes = self.times.seconds.map(|seconds| self.since + seconds);
        self.late = comes.is_some_and(|comes| self.clock.seconds() >= comes);
    }

    /// Time at which a checkpoint will be due even if nothing else happens.
    pub(super) fn comes(&self) -> Option<f64> {
        let waits = self.times.saves && self.trained && !self.writing && !self.stopping;
        let seconds = self.times.seconds.filter(|_| waits && !self.late)?;
        Some(self.since + seconds)
    }

    /// Ends the failed run as if a stop was requested.
    pub(super) fn fail(&mut self) {
        self.stopping = true;
        self.times.saves &= !self.times.shared;
    }

    /// Whether the run ends early, so that nothing more is planned.
    pub(super) fn is_stopping(&self) -> bool {
        self.stopping
    }

    /// Whether a checkpoint comes next, once everything is at rest.
    pub(super) fn is_now(&self) -> bool {
        if !self.times.saves || self.writing {
            return false;
        }
        if self.stopping {
            return self.trained;
        }
        self.times.initial || (self.trained && self.late)
    }

    /// Records that a checkpoint begins.
    pub(super) fn begun(&mut self) {
        (self.writing, self.times.initial) = (true, false);
    }

    /// Records that a unit was trained, so that the model differs from the last checkpoint.
    pub(super) fn trained(&mut self) {
        self.trained = true;
    }

    /// Records that a checkpoint was written.
    pub(super) fn written(&mut self) {
        (self.writing, self.trained, self.late) = (false, false, false);
        self.since = self.clock.seconds();
    }
}
