//! Early stopping: ends training when evaluations no longer improve.

use std::cmp::Ordering;

use stepwell_settings::BestKind;

use crate::metrics::Metrics;
use crate::resume::Waited;

/// Tracks the best evaluation, and how many followed it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// Evaluations without improvement after which training ends; 0 for no limit.
    limit: u64,
    by: BestKind,
    waited: Option<Waited>,
}

impl Patience {
    /// Continues from `waited`, or begins. Evaluations are compared by `by`, or by log loss if that
    /// is none.
    pub(crate) fn new(limit: u64, by: BestKind, waited: Option<Waited>) -> Self {
        Self { limit, by, waited }
    }

    /// Adds an evaluation of the model after `step` steps; the second of the same model doesn't
    /// count.
    pub(super) fn evaluated(&mut self, step: u64, metrics: &Metrics) {
        let Some(value) = value(self.by, metrics) else { return };
        self.waited = Some(match self.waited {
            None => Waited { evaluated: step, best: step, value, evaluations: 0 },
            Some(waited) if waited.evaluated == step => waited,
            Some(waited) => {
                let order = value.total_cmp(&waited.value);
                let better = if rises(self.by) { Ordering::Greater } else { Ordering::Less };
                if order == better {
                    Waited { evaluated: step, best: step, value, evaluations: 0 }
                } else {
                    Waited { evaluated: step, evaluations: waited.evaluations + 1, ..waited }
                }
            }
        });
    }

    /// State to continue from.
    pub(super) fn waited(&self) -> Option<Waited> {
        self.waited
    }

    /// Whether training can end early.
    pub(super) fn is_limited(&self) -> bool {
        self.limit > 0
    }

    /// The state with which training ends early; `None` if it continues.
    pub(crate) fn over(&self) -> Option<Waited> {
        self.waited.filter(|waited| self.limit > 0 && waited.evaluations >= self.limit)
    }
}

/// The metric by which evaluations are compared.
pub(super) fn value(by: BestKind, metrics: &Metrics) -> Option<f64> {
    match by {
        BestKind::None | BestKind::Logloss => metrics.logloss.or(metrics.rmse),
        BestKind::Auc => metrics.auc,
    }
}

/// Whether a larger metric is better.
pub(super) fn rises(by: BestKind) -> bool {
    by == BestKind::Auc
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metrics(logloss: f64, auc: f64) -> Metrics {
        Metrics { logloss: Some(logloss), auc: Some(auc), ..Metrics::default() }
    }

    #[test]
    fn training_ends_after_that_many_evaluations_without_improvement() {
        let mut patience = Patience::new(2, BestKind::None, None);
        for (step, logloss) in [(1, 0.5), (2, 0.4), (3, 0.4), (3, 0.4)] {
            patience.evaluated(step, &metrics(logloss, 0.5));
            assert_eq!(patience.over(), None, "step {step}");
        }
        let mut resumed = Patience::new(2, BestKind::None, patience.waited());
        for patience in [&mut patience, &mut resumed] {
            patience.evaluated(4, &metrics(0.41, 0.9));
            let over = Waited { evaluated: 4, best: 2, value: 0.4, evaluations: 2 };
            assert_eq!(patience.over(), Some(over));
            patience.evaluated(5, &metrics(0.39, 0.9));
            assert_eq!(patience.over(), None);
        }
    }

    #[test]
    fn a_larger_auc_is_better_and_an_unknown_one_does_not_count() {
        let mut patience = Patience::new(1, BestKind::Auc, None);
        patience.evaluated(1, &metrics(0.5, 0.6));
        patience.evaluated(2, &metrics(0.6, 0.7));
        assert_eq!(patience.over(), None);
        patience.evaluated(3, &Metrics { auc: None, ..metrics(0.1, 0.0) });
        assert_eq!(patience.over(), None);
        patience.evaluated(4, &metrics(0.1, 0.7));
        assert_eq!(patience.over().map(|waited| waited.best), Some(2));
    }

    #[test]
    fn without_a_limit_training_never_ends_early() {
        let mut patience = Patience::new(0, BestKind::None, None);
        (1..9).for_each(|step| patience.evaluated(step, &metrics(step as f64, 0.5)));
        assert_eq!((patience.over(), patience.is_limited()), (None, false));
    }
}
