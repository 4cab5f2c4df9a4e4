//! When the model is written although no mark among the batches says so: before the first step,
//! when the time has come, and when somebody asks to stop.
//!
//! The planner asks, because it alone can let everything come to rest (hazard H9). What it then
//! writes is the model between two mini-batches, wherever in a batch that is: no bit of the model
//! depends on it.

use std::sync::Arc;

use stepwell_base::clock::Clock;
use stepwell_base::stop::StopRequest;

/// When checkpoints are written.
#[derive(Debug)]
pub struct Times {
    /// Whether any are.
    pub saves: bool,
    /// Seconds from one to the next at most; none where time does not count.
    pub seconds: Option<f64>,
    /// Whether one is written before the first step.
    pub initial: bool,
    /// Whether several ranks write them together: one that fails has no part to give, for the
    /// others are not where it is.
    pub shared: bool,
    /// Ends the run, with a checkpoint.
    pub stop: StopRequest,
}

impl Times {
    /// Only those that are asked for among the batches.
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

/// Whether a checkpoint is due.
pub(super) struct Due {
    times: Times,
    clock: Arc<dyn Clock>,
    /// When the last one was complete.
    since: f64,
    /// Whether something was trained since.
    trained: bool,
    /// Whether the time had come when it was looked at last.
    late: bool,
    /// Whether one is on its way.
    writing: bool,
    stopping: bool,
}

impl Due {
    pub(super) fn new(times: Times, clock: Arc<dyn Clock>) -> Self {
        let since = clock.seconds();
        let (trained, late, writing, stopping) = (false, false, false, false);
        Self { times, clock, since, trained, late, writing, stopping }
    }

    /// Looks whether the run is to stop, and what time it is.
    pub(super) fn look(&mut self) {
        self.stopping |= self.times.stop.is_made();
        let comes = self.times.seconds.map(|seconds| self.since + seconds);
        self.late = comes.is_some_and(|comes| self.clock.seconds() >= comes);
    }

    /// When a checkpoint will be due though nothing happens until then.
    pub(super) fn comes(&self) -> Option<f64> {
        let waits = self.times.saves && self.trained && !self.writing && !self.stopping;
        let seconds = self.times.seconds.filter(|_| waits && !self.late)?;
        Some(self.since + seconds)
    }

    /// The run fails, and ends as if somebody had asked for it.
    pub(super) fn fail(&mut self) {
        self.stopping = true;
        self.times.saves &= !self.times.shared;
    }

    /// Whether the run ends early: nothing more is planned.
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

    /// A checkpoint is on its way.
    pub(super) fn begun(&mut self) {
        (self.writing, self.times.initial) = (true, false);
    }

    /// A unit is over: what was `trained` stands after the last checkpoint.
    pub(super) fn over(&mut self, trained: bool) {
        self.trained |= trained;
    }

    /// A checkpoint was written.
    pub(super) fn written(&mut self) {
        (self.writing, self.trained, self.late) = (false, false, false);
        self.since = self.clock.seconds();
    }
}
