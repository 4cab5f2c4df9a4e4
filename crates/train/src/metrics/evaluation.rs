//! The figures of an evaluation.

use serde::Serialize;

use super::Metrics;

/// An evaluation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Evaluation {
    /// Steps of the model.
    pub step: u64,
    /// Whether training of the epoch continues after it.
    #[serde(skip)]
    pub within_epoch: bool,
    /// Figures.
    #[serde(flatten)]
    pub metrics: Metrics,
}
