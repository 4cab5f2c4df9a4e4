//! The AUC of a label, if it has one, of examples with equal or different weights.
//!
//! Scores are ranked in the form in which users see them: logits with the same probability are
//! ties.

use stepwell_nn::{Auc, Loss, Ranked, WeightedAuc};

use super::scored::Scored;

#[derive(Debug)]
pub(super) enum Ranking {
    /// Labels that are numbers have no AUC.
    None,
    Alike(Auc),
    Weighted(WeightedAuc),
}

impl Ranking {
    pub(super) fn new(loss: Loss, weighted: bool, exact: usize) -> Self {
        match (loss, weighted) {
            (Loss::SquaredError, _) => Self::None,
            (Loss::LogLoss, false) => Self::Alike(Auc::new(exact)),
            (Loss::LogLoss, true) => Self::Weighted(WeightedAuc::new(exact)),
        }
    }

    /// The most bytes of a ranking of `examples` scores.
    pub(super) fn bytes_max(loss: Loss, weighted: bool, examples: u64) -> u64 {
        match (loss, weighted) {
            (Loss::SquaredError, _) => 0,
            (Loss::LogLoss, false) => Auc::bytes_max(examples),
            (Loss::LogLoss, true) => WeightedAuc::bytes_max(examples),
        }
    }

    /// Adds examples of one label.
    pub(super) fn add_all(&mut self, scored: Scored<'_>) {
        let Scored { logits, labels, weights, .. } = scored;
        match self {
            Self::None => {}
            Self::Alike(auc) => auc.add(logits, labels),
            Self::Weighted(auc) => {
                for (number, (logit, label)) in logits.iter().zip(labels).enumerate() {
                    auc.add(*logit, *label, weights.get(number).map_or(1.0, |of| *of));
                }
            }
        }
    }

    /// Adds an example.
    pub(super) fn add(&mut self, logit: f32, label: f32, weight: f32) {
        match self {
            Self::None => {}
            Self::Alike(auc) => auc.add(&[logit], &[label]),
            Self::Weighted(auc) => auc.add(logit, label, weight),
        }
    }

    /// Returns the figures of the scores as `shown` writes them.
    pub(super) fn take(&mut self, shown: fn(f32) -> f32) -> Ranked {
        match self {
            Self::None => Ranked::default(),
            Self::Alike(auc) => auc.take_shown(shown),
            Self::Weighted(auc) => auc.take_shown(shown),
        }
    }
}
