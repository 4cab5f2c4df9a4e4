//! Measurements of a run.

use stepwell_engine::IdCount;

use crate::metrics::{Evaluation, Metrics};
use crate::resume::Waited;

/// The measurements.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// Examples trained on by this process.
    pub examples: u64,
    /// Steps of the model, including those before a resume.
    pub steps: u64,
    /// Figures of each epoch's training examples, scored before they were trained on.
    pub progressive: Vec<Metrics>,
    /// Figures of each epoch's evaluation.
    pub eval: Vec<Metrics>,
    /// All evaluations, after and within epochs.
    pub evaluations: Vec<Evaluation>,
    /// The evaluations with which training ended early, if it did.
    pub early: Option<Waited>,
    /// Figures of the true probabilities on the last evaluation, if they are known.
    pub best: Option<Metrics>,
    /// Ids without a row that a separate evaluation looked up, by table and field.
    pub without_row: Vec<Vec<IdCount>>,
    /// Step of the last checkpoint written.
    pub saved: Option<u64>,
    /// The clock's time at the end of the last step.
    pub trained_at: f64,
    /// The last step that row histories can count, if the run reached it.
    pub last_step: Option<u64>,
    /// Whether all ranks ended after the same step because one was asked to stop.
    pub ranks_stopped: bool,
    /// Whether the data ended before anyone asked to stop.
    pub through: bool,
}
