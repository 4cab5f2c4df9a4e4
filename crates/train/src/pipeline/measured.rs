//! What a run measured, and what each mini-batch adds to it.

use stepwell_engine::{Cargo as _, IdCount, Purpose};

use stepwell_nn::{Loss, LossSums};

use crate::batch::{MiniBatch, RunPosition};
use crate::labels::Label;
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
    /// Ids that were looked up by an evaluation alone and had no row, by table and field.
    pub without_row: Vec<Vec<IdCount>>,
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

/// Gradients above this have squares whose sums leave the range of 32 bits after some steps.
const GRADIENT_MAX: f64 = 1e16;

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

    /// The largest gradient of an example's logit that is too large for optimizers, whose states
    /// have its square; none where all are small enough, as they are of clicks without weights.
    pub(super) fn too_large(&self, scored: Scored<'_>, labels: &[Label]) -> Option<f64> {
        let Scored { logits, labels: of, weights } = scored;
        let are_numbers = labels.iter().any(|label| label.loss == Loss::SquaredError);
        if !are_numbers && weights.is_empty() {
            return None;
        }
        let gradients = logits.iter().zip(of).enumerate().map(|(at, (logit, of))| {
            let slope = match labels[at % labels.len()].loss {
                Loss::LogLoss => 1.0,
                Loss::SquaredError => 2.0 * (f64::from(*logit) - f64::from(*of)).abs(),
            };
            let weight = weights.get(at / labels.len()).map_or(1.0, |weight| f64::from(*weight));
            weight * slope
        });
        let largest = gradients.fold(0.0, f64::max) / self.examples.max(1) as f64;
        (largest > GRADIENT_MAX).then_some(largest)
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
