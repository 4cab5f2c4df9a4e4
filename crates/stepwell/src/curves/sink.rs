//! A format of curves, and the events that it draws.

use std::io;
use std::path::Path;

use stepwell_base::budget::Budget;
use stepwell_train::{Metrics, Report};

use super::sample::{Recent, Sample};

/// The position of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    /// Seconds since the run began.
    pub(super) seconds: f64,
    /// Step of the last trained mini-batch.
    pub(super) step: u64,
    pub(super) examples: u64,
}

/// An event to draw.
#[derive(Debug)]
pub(super) enum Event<'a> {
    /// The bounds on memory are known.
    Planned(&'a Budget),
    /// A sample of training; `recent` covers the time since the previous sample, if any.
    Training { now: &'a Sample, recent: Option<Recent> },
    /// The training part of an epoch is over.
    Epoch(&'a Metrics),
    /// An evaluation is over; `best` has the best reachable metrics.
    Evaluation { metrics: &'a Metrics, best: Option<&'a Metrics> },
    /// A checkpoint was written.
    Saved(&'a Path),
    /// The run is over, with its report or the reason why it has none.
    Ended(Result<&'a Report, &'a str>),
}

/// A format of curves.
pub(super) trait Sink: Send {
    /// The name of its output, for messages.
    fn name(&self) -> String;

    /// Adds an event.
    ///
    /// # Errors
    /// Write errors of the file; the sink must not be used after one.
    fn take(&mut self, at: Moment, event: &Event<'_>) -> io::Result<()>;
}
