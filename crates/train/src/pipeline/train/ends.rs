//! What stage `train` is given.

use std::sync::Arc;

use stepwell_base::clock::Clock;
use stepwell_base::queue::{Events, Receiver, Sender};
use stepwell_base::stop::StopRequest;
use stepwell_engine::{Ready, Retired};

use super::Trained;
use crate::batch::{Examples, Mark};
use crate::pipeline::{Counters, Handoff, Observer};

/// Who is told, and how time and scores are kept.
pub(in crate::pipeline) struct Reporting {
    pub(in crate::pipeline) observer: Arc<dyn Observer>,
    pub(in crate::pipeline) clock: Arc<dyn Clock>,
    pub(in crate::pipeline) exact_scores: usize,
    pub(in crate::pipeline) counters: Arc<Counters>,
    pub(in crate::pipeline) stop: StopRequest,
    /// Whether nothing is trained: then ids without a row are counted.
    pub(in crate::pipeline) only_scores: bool,
}

/// Where units come from and where they go.
pub(in crate::pipeline) struct TrainEnds {
    pub(in crate::pipeline) input: Receiver<Ready<Examples, Mark>>,
    pub(in crate::pipeline) retired: Sender<Retired<Examples>>,
    pub(in crate::pipeline) events: Arc<Events>,
    pub(in crate::pipeline) finished: Handoff<Trained>,
}
