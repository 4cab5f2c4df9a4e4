//! Early stopping: ends training when evaluations no longer improve.

use std::cmp::Ordering;

use stepwell_settings::BestKind;

use crate::metrics::Metrics;
use crate::resume::{Metric, Waited};

/// Tracks the best evaluation, and how many followed it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// Evaluations without improvement after which training ends; 0 for no limit.
    limit: u64,
    by: BestKind,
    /// Hash of the identity of the evaluation data.
    data: u64,
    waited: Option<Waited>,
}

impl Patience {
    /// Continues from `waited`, or begins anew if that compared by another metric, or on other data
    /// than `data` is a hash of. Evaluations are compared by `by`, or by log loss if that is none;
    /// labels that are numbers are compared by RMSE.
    pub(crate) fn new(limit: u64, by: BestKind, data: u64, waited: Option<Waited>) -> Self {
        let is_auc = |waited: &Waited| waited.by == Metric::Auc;
        let fits = |waited: &Waited| {
            waited.data == data && (waited.by == Metric::Rmse || is_auc(waited) == rises(by))
        };
        Self { limit, by, data, waited: waited.filter(fits) }
    }

    /// Adds an evaluation of the model after `step` steps; the second of the same model doesn't
    /// count.
    pub(super) fn evaluated(&mut self, step: u64, metrics: &Metrics) {
        let known = match self.by {
            BestKind::Auc => metrics.auc.map(|auc| (Metric::Auc, auc)),
            _ => metrics.logloss.map(|loss| (Metric::Logloss, loss)),
        };
        let known = known.or(metrics.rmse.map(|rmse| (Metric::Rmse, rmse)));
        let Some((by, value)) = known else { return };
        let Self { limit: patience, data, .. } = *self;
        let (evaluated, evaluations) = (step, 0);
        let best = Waited { evaluated, best: step, by, value, evaluations, patience, data };
        self.waited = Some(match self.waited.filter(|waited| waited.by == by) {
            None => best,
            Some(waited) if waited.evaluated == step => waited,
            Some(waited) => {
                let order = value.total_cmp(&waited.value);
                let better = if by == Metric::Auc { Ordering::Greater } else { Ordering::Less };
                let evaluations = waited.evaluations + 1;
                if order == better {
                    best
                } else {
                    Waited { evaluated, evaluations, patience, ..waited }
                }
            }
        });
    }

    /// Counts from 0 again, with the same best evaluation.
    pub(super) fn begin_again(&mut self) {
        if let Some(waited) = &mut self.waited {
            waited.evaluations = 0;
        }
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
        let mut patience = Patience::new(2, BestKind::None, 7, None);
        for (step, logloss) in [(1, 0.5), (2, 0.4), (3, 0.4), (3, 0.4)] {
            patience.evaluated(step, &metrics(logloss, 0.5));
            assert_eq!(patience.over(), None, "step {step}");
        }
        let mut resumed = Patience::new(2, BestKind::None, 7, patience.waited());
        for patience in [&mut patience, &mut resumed] {
            patience.evaluated(4, &metrics(0.41, 0.9));
            let over = patience.over().unwrap();
            assert_eq!((over.best, over.value, over.evaluations), (2, 0.4, 2));
            patience.evaluated(5, &metrics(0.39, 0.9));
            assert_eq!(patience.over(), None);
        }
    }

    #[test]
    fn a_larger_auc_is_better_and_an_unknown_one_does_not_count() {
        let mut patience = Patience::new(1, BestKind::Auc, 7, None);
        patience.evaluated(1, &metrics(0.5, 0.6));
        patience.evaluated(2, &metrics(0.6, 0.7));
        assert_eq!(patience.over(), None);
        patience.evaluated(3, &Metrics { auc: None, ..metrics(0.1, 0.0) });
        assert_eq!(patience.over(), None);
        patience.evaluated(4, &metrics(0.1, 0.7));
        assert_eq!(patience.over().map(|waited| waited.best), Some(2));
    }

    #[test]
    fn another_metric_or_other_data_begins_anew() {
        let mut patience = Patience::new(1, BestKind::None, 7, None);
        (1..3).for_each(|step| patience.evaluated(step, &metrics(0.5, 0.5)));
        assert!(patience.over().is_some());
        let resumed = |by, data| Patience::new(1, by, data, patience.waited()).over();
        assert!(resumed(BestKind::Logloss, 7).is_some());
        assert_eq!((resumed(BestKind::Auc, 7), resumed(BestKind::None, 8)), (None, None));
    }

    #[test]
    fn numbers_are_compared_by_rmse() {
        let of = |rmse| Metrics { rmse: Some(rmse), ..Metrics::default() };
        for by in BestKind::ALL {
            let mut patience = Patience::new(1, by, 7, None);
            patience.evaluated(1, &of(2.0));
            patience.evaluated(2, &of(1.0));
            assert_eq!(patience.over(), None);
            patience.evaluated(3, &of(1.5));
            assert_eq!(patience.over().map(|over| (over.best, over.by)), Some((2, Metric::Rmse)));
        }
    }

    #[test]
    fn without_a_limit_training_never_ends_early() {
        let mut patience = Patience::new(0, BestKind::None, 7, None);
        (1..9).for_each(|step| patience.evaluated(step, &metrics(step as f64, 0.5)));
        assert_eq!((patience.over(), patience.is_limited()), (None, false));
    }
}
