//! What a run measured, and what each mini-batch adds to it.

use stepwell_engine::{Cargo as _, Purpose};

use stepwell_nn::LossSums;

use crate::batch::{MiniBatch, RunPosition};
use crate::metrics::{Meter, Metrics, Scored};
use crate::report::ApartReport;

/// What was measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// Examples trained on by this process.
    pub examples: u64,
    /// Steps of the model, those before a resume included.
    pub steps: u64,
    /// Each epoch's training examples, scored before they were trained on.
    pub progressive: Vec<Metrics>,
    /// Each epoch's evaluation.
    pub eval: Vec<Metrics>,
    /// What the true probabilities reach on the last evaluation, where they are known.
    pub best: Option<Metrics>,
    /// Step of the last checkpoint written.
    pub saved: Option<u64>,
    /// The clock's time when the last step was over.
    pub trained_at: f64,
    /// The last step that histories of rows can name, where the run came there.
    pub last_step: Option<u64>,
    /// Where ranks are out of step, how far, and what became of gradients.
    pub apart: Option<ApartReport>,
    /// Whether the stages before had no more, and nobody had asked to stop.
    pub through: bool,
}

/// A mini-batch that is over.
pub(super) struct Done {
    pub(super) purpose: Purpose,
    /// Where the data goes on.
    pub(super) after: RunPosition,
    pub(super) examples: usize,
    pub(super) sums: LossSums,
}

impl Done {
    pub(super) fn of(mini: &MiniBatch, sums: LossSums) -> Self {
        let examples = mini.cargo.examples();
        Self { purpose: mini.purpose, after: mini.cargo.after, examples, sums }
    }

    /// Adds it to `meter`; another rank may be the one that has the scores of its examples.
    pub(super) fn add_to(&self, meter: &mut Meter, scored: Scored<'_>) {
        if scored.logits.is_empty() {
            meter.add_sums(self.examples as u64, self.sums);
        } else {
            meter.add(scored, self.sums);
        }
    }
}
