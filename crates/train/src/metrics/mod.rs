//! Quality of scores: AUC, log loss, normalized entropy and calibration for labels from 0 to 1,
//! errors for labels that are numbers.
//!
//! A label p between 0 and 1 counts as p positives and 1 - p negatives. Weights count in every
//! figure.

mod evaluation;
mod groups;
mod interval;
mod ranking;
mod recall;
mod scored;
mod spread;

use std::sync::Arc;

use serde::Serialize;
use stepwell_data::Labels;
use stepwell_nn::{Loss, LossSums, Objective, Ranked, Targets, losses};

pub use self::evaluation::Evaluation;
pub use self::groups::{AtMetrics, GroupMeter, GroupMetrics};
use self::interval::Classes;
use self::ranking::Ranking;
pub use self::recall::{RecallMeter, RecallMetrics};
pub use self::scored::Scored;
use self::spread::Spread;
use crate::labels::Label;

/// The figures of one pass over examples.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Metrics {
    /// Number of examples.
    pub examples: u64,
    /// Mean label; for labels from 0 to 1, the share of positives.
    pub positive_rate: f64,
    /// Area under the ROC curve of the scores as written; `None` unless both labels occur.
    pub auc: Option<f64>,
    /// The largest possible error of `auc`; 0 while it is exact.
    pub auc_error_max: f64,
    /// 95 % confidence interval of `auc`, as if its two classes were drawn at random; `None` for
    /// weighted examples.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auc_interval: Option<[f64; 2]>,
    /// Mean of -ln of the probability predicted for the outcome.
    pub logloss: Option<f64>,
    /// Log loss over the entropy of the positive rate; below 1 is better than a constant.
    pub normalized_entropy: Option<f64>,
    /// Mean prediction over mean label; 1 is calibrated.
    pub calibration: Option<f64>,
    /// Expected calibration error of scores as written, over ten bins of equal mass: the mean
    /// distance of mean label and mean prediction.
    pub calibration_error: Option<f64>,
    /// For numbers: root of the mean squared error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rmse: Option<f64>,
    /// For numbers: mean absolute error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mae: Option<f64>,
    /// For numbers: explained share of the variance; `None` without variance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub r2: Option<f64>,
    /// The figures of each label, if there are several; the other fields are then of the first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<LabelMetrics>,
}

/// The figures of one of several labels.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LabelMetrics {
    /// Name of the label's column.
    pub label: String,
    /// Figures of the label.
    #[serde(flatten)]
    pub metrics: Metrics,
}

/// Collects scores for metrics.
#[derive(Debug)]
pub struct Meter {
    labels: Arc<[Label]>,
    of_labels: Vec<LabelMeter>,
    examples: u64,
    /// Sums of the losses of all labels.
    sums: LossSums,
    /// How a score is written.
    shown: fn(f32) -> f32,
}

/// Weighted sums over the examples of one label.
#[derive(Debug)]
struct LabelMeter {
    loss: Loss,
    ranking: Ranking,
    sums: LossSums,
    labels: f64,
    /// Used for labels that are numbers.
    spread: Spread,
    errors: f64,
}

impl Meter {
    /// A meter for examples with these labels, `weighted` or not, that keeps up to `exact` scores
    /// for an exact AUC.
    pub fn new(labels: &Arc<[Label]>, weighted: bool, exact: usize) -> Self {
        let of = |label: &Label| LabelMeter {
            loss: label.loss(),
            ranking: Ranking::new(label.loss(), weighted, exact),
            sums: LossSums::default(),
            labels: 0.0,
            spread: Spread::default(),
            errors: 0.0,
        };
        let of_labels = labels.iter().map(of).collect();
        Self {
            labels: Arc::clone(labels),
            of_labels,
            examples: 0,
            sums: LossSums::default(),
            shown: |logit| Loss::LogLoss.prediction(logit),
        }
    }

    /// A meter of known probabilities.
    pub fn of_probabilities(exact: usize) -> Self {
        let label = Label { name: "label".to_owned(), objective: Objective::LOG_LOSS };
        Self { shown: |probability| probability, ..Self::new(&Arc::from([label]), false, exact) }
    }

    /// The most bytes of a meter for `examples` examples with these labels.
    pub(crate) fn bytes_max(labels: &[Label], lanes: Labels, examples: u64) -> u64 {
        let of = |label: &Label| Ranking::bytes_max(label.loss(), lanes.weighted, examples);
        labels.iter().map(of).sum()
    }

    /// Adds one mini-batch, with sums over its examples.
    pub fn add(&mut self, scored: Scored<'_>, sums: LossSums) {
        let Scored { logits, labels, weights, .. } = scored;
        let each = self.of_labels.len();
        self.add_sums((labels.len() / each) as u64, sums);
        let weight = |example: usize| weights.get(example).map_or(1.0, |weight| *weight);
        if let [only] = self.of_labels.as_mut_slice() {
            // Sums over blocks need not be computed again.
            only.sums.add(sums);
            only.ranking.add_all(scored);
            let labels = labels.iter().zip(logits).enumerate();
            labels.for_each(|(example, (label, logit))| only.see(*label, *logit, weight(example)));
            return;
        }
        let of_examples = logits.chunks_exact(each).zip(labels.chunks_exact(each));
        for (example, (logits, labels)) in of_examples.enumerate() {
            let weight = weight(example);
            for ((meter, logit), label) in self.of_labels.iter_mut().zip(logits).zip(labels) {
                let outcome = meter.loss.outcome(f64::from(*logit), f64::from(*label));
                let wide = f64::from(weight);
                meter.sums.add(LossSums {
                    loss: wide * outcome.loss,
                    prediction: wide * outcome.prediction,
                    weight: wide,
                });
                meter.ranking.add(*logit, *label, weight);
                meter.see(*label, *logit, weight);
            }
        }
    }

    /// Adds examples, and computes their sums.
    pub fn add_each(&mut self, scored: Scored<'_>) {
        let Scored { logits, labels, weights, .. } = scored;
        let objectives: Vec<_> = self.labels.iter().map(|label| label.objective).collect();
        let targets = Targets { objectives: &objectives, labels, weights };
        let mut d_logits = vec![0.0; logits.len()];
        let sums = losses(logits, targets, logits.len(), &mut d_logits);
        self.add(scored, sums);
    }

    /// Adds a mini-batch by its sums alone, because its scores are not known here; the figures then
    /// have no AUC.
    pub fn add_sums(&mut self, examples: u64, sums: LossSums) {
        self.examples += examples;
        self.sums.add(sums);
    }

    /// Adds examples with known probabilities.
    pub fn add_probabilities(&mut self, probabilities: &[f32], labels: &[f32]) {
        let mut sums = LossSums { weight: labels.len() as f64, ..LossSums::default() };
        for (p, label) in probabilities.iter().zip(labels) {
            let p = f64::from(*p).clamp(1e-12, 1.0 - 1e-12);
            let label = f64::from(*label);
            sums.loss -= label * libm::log(p) + (1.0 - label) * libm::log1p(-p);
            sums.prediction += p;
        }
        // Probabilities rank like logits.
        self.add(Scored { logits: probabilities, labels, weights: &[], layers: &[] }, sums);
    }

    /// Number of examples so far.
    pub fn examples(&self) -> u64 {
        self.examples
    }

    /// Mean loss so far, over all labels.
    pub fn loss(&self) -> Option<f64> {
        (self.sums.weight > 0.0).then(|| self.sums.loss / self.sums.weight)
    }

    /// Whether [`Meter::loss`] is the log loss of one label.
    pub fn is_log_loss(&self) -> bool {
        matches!(&*self.labels, [label] if label.loss() == Loss::LogLoss)
    }

    /// Returns the figures and empties the meter.
    pub fn take(&mut self) -> Metrics {
        let (examples, sums) = (self.examples, std::mem::take(&mut self.sums));
        self.examples = 0;
        if let [only] = self.of_labels.as_mut_slice() {
            // If another rank has the scores, only losses are known.
            only.sums = sums;
        }
        let shown = self.shown;
        let of = |meter: &mut LabelMeter| meter.take(examples, shown);
        let mut metrics: Vec<Metrics> = self.of_labels.iter_mut().map(of).collect();
        let first = metrics.first().cloned().unwrap_or_default();
        if let [_] = metrics.as_slice() {
            return first;
        }
        let named = self.labels.iter().zip(metrics.drain(..));
        let named =
            named.map(|(label, metrics)| LabelMetrics { label: label.name.clone(), metrics });
        Metrics { labels: named.collect(), ..first }
    }
}

impl LabelMeter {
    /// Counts an example's label.
    fn see(&mut self, label: f32, logit: f32, weight: f32) {
        let (label, weight) = (f64::from(label), f64::from(weight));
        self.labels += weight * label;
        if self.loss == Loss::SquaredError {
            self.spread.add(label, weight);
            self.errors += weight * (f64::from(logit) - label).abs();
        }
    }

    /// Returns the figures of `examples` examples, and empties the meter.
    fn take(&mut self, examples: u64, shown: fn(f32) -> f32) -> Metrics {
        let LossSums { loss, prediction, weight } = std::mem::take(&mut self.sums);
        let labels = std::mem::take(&mut self.labels);
        let (spread, errors) = (std::mem::take(&mut self.spread), std::mem::take(&mut self.errors));
        let Ranked { auc, calibration_error } = self.ranking.take(shown);
        let of_weight = |sum: f64| (weight > 0.0).then(|| sum / weight);
        let mean = of_weight(labels).unwrap_or(0.0);
        let metrics = Metrics {
            examples,
            positive_rate: mean,
            calibration: (labels != 0.0).then(|| prediction / labels),
            ..Metrics::default()
        };
        match self.loss {
            Loss::LogLoss => {
                let (entropy, logloss) = (entropy(mean), of_weight(loss));
                let is_plain = weight == examples as f64;
                let classes = Classes { positives: labels, negatives: weight - labels };
                Metrics {
                    auc: auc.map(|value| value.auc),
                    auc_interval: auc.filter(|_| is_plain).map(|of| classes.interval(of.auc)),
                    auc_error_max: auc.map_or(0.0, |value| value.error_max),
                    logloss,
                    calibration_error,
                    normalized_entropy: logloss
                        .filter(|_| entropy > 0.0)
                        .map(|loss| loss / entropy),
                    ..metrics
                }
            }
            Loss::SquaredError => Metrics {
                rmse: of_weight(loss).map(f64::sqrt),
                mae: of_weight(errors),
                r2: (spread.squares() > 0.0).then(|| 1.0 - loss / spread.squares()),
                ..metrics
            },
        }
    }
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
        let mut meter = Meter::of_probabilities(100);
        meter.add_probabilities(&[0.25; 8], &[1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]);
        let metrics = meter.take();
        assert_eq!(metrics.auc, Some(0.5));
        assert!((metrics.normalized_entropy.unwrap() - 1.0).abs() < 1e-9);
        assert!((metrics.calibration.unwrap() - 1.0).abs() < 1e-9);
        assert_eq!(metrics.calibration_error, Some(0.0));
        assert!((metrics.logloss.unwrap() - 0.562_335).abs() < 1e-6);
        assert_eq!(meter.take(), Metrics::default());
    }

    fn labels(losses: &[Loss]) -> Arc<[Label]> {
        let of = |(number, loss): (usize, &Loss)| Label {
            name: format!("l{number}"),
            objective: Objective::from(*loss),
        };
        losses.iter().enumerate().map(of).collect()
    }

    /// The figures of examples with these labels, in one mini-batch.
    fn of(losses: &[Loss], scored: Scored<'_>) -> Metrics {
        let mut meter = Meter::new(&labels(losses), !scored.weights.is_empty(), 100);
        meter.add_each(scored);
        meter.take()
    }

    #[test]
    fn errors_of_numbers() {
        let (logits, labels) = ([1.0, 2.0, 3.0, 4.0], [1.5, 2.0, 2.0, 5.0]);
        let plain = Scored { logits: &logits, labels: &labels, weights: &[], layers: &[] };
        let metrics = of(&[Loss::SquaredError], plain);
        let close = |value: Option<f64>, wanted: f64| (value.unwrap() - wanted).abs() < 1e-12;
        assert!(close(metrics.rmse, 0.75) && close(metrics.mae, 0.625));
        // Squared errors 2.25, squared distances from the mean of 2.625 7.6875.
        assert!(close(metrics.r2, 1.0 - 2.25 / 7.6875));
        assert!(close(metrics.calibration, 10.0 / 10.5) && metrics.positive_rate == 2.625);
        assert!(metrics.auc.is_none() && metrics.logloss.is_none());
    }

    #[test]
    fn numbers_that_are_all_alike_have_no_variance_to_explain() {
        for label in [0.1, -3e7, 0.0] {
            let labels = [label; 1000];
            let scored =
                Scored { logits: &[0.5; 1000], labels: &labels, weights: &[], layers: &[] };
            assert_eq!(of(&[Loss::SquaredError], scored).r2, None, "{label}");
        }
    }

    #[test]
    fn variance_beside_a_large_offset_is_measured() {
        let labels: Vec<f32> = (0..4000).map(|i| 16e6 + (i % 2) as f32).collect();
        let scored = Scored { logits: &[16e6; 4000], labels: &labels, weights: &[], layers: &[] };
        let metrics = of(&[Loss::SquaredError], scored);
        // Half of the labels are missed by 1, and their variance is 0.25.
        assert!((metrics.r2.unwrap() + 1.0).abs() < 1e-9, "{:?}", metrics.r2);
    }

    #[test]
    fn scores_that_are_equal_as_they_are_written_are_ties() {
        // Examples of label 0 have the larger logits, and all probabilities are 1.
        let labels: Vec<f32> = (0..40).map(|i| (i % 2) as f32).collect();
        let logits: Vec<f32> = (0..40).map(|i| 30.0 - i as f32 % 2.0).collect();
        for weights in [&[][..], &[1.0; 40]] {
            for exact in [100, 10] {
                let mut meter =
                    Meter::new(&self::labels(&[Loss::LogLoss]), !weights.is_empty(), exact);
                meter.add(
                    Scored { logits: &logits, labels: &labels, weights, layers: &[] },
                    LossSums::default(),
                );
                let metrics = meter.take();
                assert_eq!((metrics.auc, metrics.auc_error_max), (Some(0.5), 0.0), "{exact}");
            }
        }
    }

    #[test]
    fn an_example_of_weight_two_is_two_examples() {
        for loss in [Loss::LogLoss, Loss::SquaredError] {
            let (logits, labels) = ([0.5, -1.0, 2.0, 2.0, 0.1], [1.0, 0.0, 0.0, 0.0, 1.0]);
            let five = Scored { logits: &logits, labels: &labels, weights: &[], layers: &[] };
            let (logits, labels) = ([0.5, -1.0, 2.0, 7.0, 0.1], [1.0, 0.0, 0.0, 1.0, 1.0]);
            let weights = [1.0, 1.0, 2.0, 0.0, 1.0];
            let weighted =
                Scored { logits: &logits, labels: &labels, weights: &weights, layers: &[] };
            let (one, two) = (of(&[loss], five), of(&[loss], weighted));
            let figures =
                |of: &Metrics| [of.auc, of.logloss, of.calibration, of.rmse, of.mae, of.r2];
            for (one, two) in figures(&one).into_iter().zip(figures(&two)) {
                assert_eq!(one.is_some(), two.is_some());
                assert!((one.unwrap_or(0.0) - two.unwrap_or(0.0)).abs() < 1e-12, "{one:?} {two:?}");
            }
        }
    }

    #[test]
    fn several_labels_have_the_figures_that_each_has_alone() {
        let losses = [Loss::LogLoss, Loss::SquaredError];
        let (logits, labels) = ([0.5, 3.0, -1.0, 2.0, 0.25, 0.0], [1.0, 2.5, 0.0, 2.0, 0.0, 1.0]);
        let metrics =
            of(&losses, Scored { logits: &logits, labels: &labels, weights: &[], layers: &[] });
        assert_eq!((metrics.labels.len(), metrics.examples), (2, 3));
        for (number, loss) in losses.into_iter().enumerate() {
            let every = |of: &[f32]| of.iter().skip(number).step_by(2).copied().collect::<Vec<_>>();
            let (logits, labels) = (every(&logits), every(&labels));
            let alone =
                of(&[loss], Scored { logits: &logits, labels: &labels, weights: &[], layers: &[] });
            let found = &metrics.labels[number];
            assert_eq!(found.label, format!("l{number}"));
            assert_eq!((found.metrics.auc, found.metrics.mae), (alone.auc, alone.mae));
            let off = |one: Option<f64>, two: Option<f64>| one.zip(two).map_or(0.0, |(a, b)| a - b);
            assert!(off(found.metrics.logloss, alone.logloss).abs() < 1e-7);
            assert!(off(found.metrics.calibration, alone.calibration).abs() < 1e-7);
        }
        assert_eq!(metrics.auc, metrics.labels[0].metrics.auc);
    }
}
