//! Inputs of stage `train`.

use std::sync::Arc;

use stepwell_base::clock::Clock;
use stepwell_base::queue::{Events, Receiver, Sender};
use stepwell_base::stop::StopRequest;
use stepwell_engine::{Ready, Retired};
use stepwell_fabric::Fabric;

use super::Trained;
use crate::batch::{Examples, Mark};
use crate::pipeline::counters::Counters;
use crate::pipeline::handoff::Handoff;
use crate::pipeline::observer::Observer;
use crate::pipeline::patience::Patience;
use crate::pipeline::plateau::Plateaus;

/// Observer, clock and settings of measurements.
pub(in crate::pipeline) struct Reporting {
    pub(in crate::pipeline) observer: Arc<dyn Observer>,
    pub(in crate::pipeline) clock: Arc<dyn Clock>,
    pub(in crate::pipeline) exact_scores: usize,
    pub(in crate::pipeline) counters: Arc<Counters>,
    pub(in crate::pipeline) stop: StopRequest,
    /// Whether nothing is trained, by a single rank; ids without a row are then counted.
    pub(in crate::pipeline) only_scores: bool,
}

/// Queues of the stage.
pub(in crate::pipeline) struct TrainEnds {
    pub(in crate::pipeline) input: Receiver<Ready<Examples, Mark>>,
    pub(in crate::pipeline) retired: Sender<Retired<Examples>>,
    pub(in crate::pipeline) events: Arc<Events>,
    pub(in crate::pipeline) finished: Handoff<Trained>,
    pub(in crate::pipeline) patience: Patience,
    pub(in crate::pipeline) plateaus: Plateaus,
    /// Whether the run that is resumed had ended early.
    pub(in crate::pipeline) ended_early: bool,
    /// The other ranks, if there are any.
    pub(in crate::pipeline) fabric: Option<Fabric>,
    /// Whether evaluations within epochs are read apart, without an end.
    pub(in crate::pipeline) reads_evaluations: bool,
}
