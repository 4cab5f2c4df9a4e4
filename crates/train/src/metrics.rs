//! How good the scores are: AUC, log loss, normalised entropy, calibration.

use serde::Serialize;
use stepwell_nn::{Auc, outcome};

/// The figures of one pass over examples.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Metrics {
    /// Number of examples.
    pub examples: u64,
    /// Share of positive labels.
    pub positive_rate: f64,
    /// Area under the ROC curve; none without both labels.
    pub auc: Option<f64>,
    /// The most by which `auc` may be off; 0 while it is exact.
    pub auc_error_max: f64,
    /// Mean of -ln of the probability given to what happened.
    pub logloss: Option<f64>,
    /// Log loss over the entropy of the positive rate; below 1 is better than a constant.
    pub normalized_entropy: Option<f64>,
    /// Mean prediction over positive rate; 1 is calibrated.
    pub calibration: Option<f64>,
}

/// Metrics in the making.
#[derive(Debug)]
pub struct Meter {
    auc: Auc,
    examples: u64,
    positives: u64,
    loss_sum: f64,
    probability_sum: f64,
}

impl Meter {
    /// A meter that keeps up to `exact` scores for an exact AUC.
    pub fn new(exact: usize) -> Self {
        Self {
            auc: Auc::new(exact),
            examples: 0,
            positives: 0,
            loss_sum: 0.0,
            probability_sum: 0.0,
        }
    }

    /// Adds one mini-batch: scores in any monotone scale, and sums over its examples.
    pub fn add(&mut self, scores: &[f32], labels: &[f32], loss_sum: f64, probability_sum: f64) {
        self.auc.add(scores, labels);
        self.examples += labels.len() as u64;
        self.positives += labels.iter().filter(|label| **label > 0.5).count() as u64;
        self.loss_sum += loss_sum;
        self.probability_sum += probability_sum;
    }

    /// Adds a mini-batch of which the sums alone are known here: there will be no AUC.
    pub fn add_sums(&mut self, examples: u64, loss_sum: f64, probability_sum: f64) {
        self.examples += examples;
        self.loss_sum += loss_sum;
        self.probability_sum += probability_sum;
    }

    /// Adds examples whose probabilities are known.
    pub fn add_probabilities(&mut self, probabilities: &[f32], labels: &[f32]) {
        let mut loss = 0.0;
        let mut sum = 0.0;
        for (p, label) in probabilities.iter().zip(labels) {
            let p = f64::from(*p).clamp(1e-12, 1.0 - 1e-12);
            loss -= if *label > 0.5 { libm::log(p) } else { libm::log1p(-p) };
            sum += p;
        }
        self.add(probabilities, labels, loss, sum);
    }

    /// Examples so far.
    pub fn examples(&self) -> u64 {
        self.examples
    }

    /// Mean log loss so far.
    pub fn logloss(&self) -> Option<f64> {
        (self.examples > 0).then(|| self.loss_sum / self.examples as f64)
    }

    /// The figures; the meter is empty afterwards.
    pub fn take(&mut self) -> Metrics {
        let n = self.examples as f64;
        let auc = self.auc.take();
        let rate = if self.examples == 0 { 0.0 } else { self.positives as f64 / n };
        let entropy = entropy(rate);
        let logloss = self.logloss();
        let metrics = Metrics {
            examples: self.examples,
            positive_rate: rate,
            auc: auc.map(|value| value.auc),
            auc_error_max: auc.map_or(0.0, |value| value.error_max),
            logloss,
            normalized_entropy: logloss.filter(|_| entropy > 0.0).map(|loss| loss / entropy),
            calibration: (self.positives > 0).then(|| self.probability_sum / self.positives as f64),
        };
        (self.examples, self.positives) = (0, 0);
        (self.loss_sum, self.probability_sum) = (0.0, 0.0);
        metrics
    }
}

/// The probability of a positive label that a model means by a logit.
pub fn probability(logit: f32) -> f32 {
    outcome(f64::from(logit), 0.0).probability as f32
}

fn entropy(rate: f64) -> f64 {
    if rate <= 0.0 || rate >= 1.0 {
        return 0.0;
    }
    -(rate * libm::log(rate) + (1.0 - rate) * libm::log1p(-rate))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_score_is_calibrated_and_worth_nothing() {
        let mut meter = Meter::new(100);
        meter.add_probabilities(&[0.25; 8], &[1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]);
        let metrics = meter.take();
        assert_eq!(metrics.auc, Some(0.5));
        assert!((metrics.normalized_entropy.unwrap() - 1.0).abs() < 1e-9);
        assert!((metrics.calibration.unwrap() - 1.0).abs() < 1e-9);
        assert!((metrics.logloss.unwrap() - 0.562_335).abs() < 1e-6);
        assert_eq!(meter.take(), Metrics::default());
    }
}
