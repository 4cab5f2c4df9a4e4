//! Measurements of a run, and what each mini-batch adds to them.

use stepwell_engine::{Cargo as _, IdCount, Purpose};

use stepwell_nn::{Loss, LossSums};

use crate::batch::{MiniBatch, RunPosition};
use crate::labels::Label;
use crate::metrics::{Meter, Metrics, Scored};
use crate::report::ApartReport;

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
    /// Staleness and gradients, if ranks are out of step.
    pub apart: Option<ApartReport>,
    /// Whether the data ended before anyone asked to stop.
    pub through: bool,
}

/// Gradients above this have squares whose sums leave the range of 32 bits after some steps.
const GRADIENT_MAX: f64 = 1e16;

/// A finished mini-batch.
pub(super) struct Done {
    pub(super) purpose: Purpose,
    /// Position of the data after it.
    pub(super) after: RunPosition,
    pub(super) examples: usize,
    pub(super) sums: LossSums,
}

impl Done {
    pub(super) fn of(mini: &MiniBatch, sums: LossSums) -> Self {
        let examples = mini.cargo.examples();
        Self { purpose: mini.purpose, after: mini.cargo.after, examples, sums }
    }

    /// Returns the largest gradient of an example's logit if its square is too large for optimizer
    /// states; `None` if all are small enough, as they are for clicks without weights.
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

    /// Adds it to `meter`; another rank may have the scores of its examples.
    pub(super) fn add_to(&self, meter: &mut Meter, scored: Scored<'_>) {
        if scored.logits.is_empty() {
            meter.add_sums(self.examples as u64, self.sums);
        } else {
            meter.add(scored, self.sums);
        }
    }
}
