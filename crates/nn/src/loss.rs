//! Losses of a label and their gradients, computed in f64 with pure-Rust exp and ln.

use crate::gemm::Scalar;
use crate::objective::Objective;

/// Loss of one label of an example.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Loss {
    /// Binary cross entropy in nats, of a label in [0, 1] and the probability with this logit.
    #[default]
    LogLoss,
    /// Squared difference of the logit and the label, which may be any number.
    SquaredError,
}

/// Prediction, loss and derivative for one logit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// Probability of a positive label, or the expected number.
    pub prediction: f64,
    /// Loss.
    pub loss: f64,
    /// Derivative of the loss by the logit.
    pub slope: f64,
}

impl Loss {
    /// All losses.
    pub const ALL: [Self; 2] = [Self::LogLoss, Self::SquaredError];

    /// Name in settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::LogLoss => "log_loss",
            Self::SquaredError => "squared_error",
        }
    }

    /// Prediction and loss of an example with this `label`.
    ///
    /// The log loss uses e = exp(-|z|), which never overflows: p = 1/(1+e) for z ≥ 0, e/(1+e)
    /// below, and the loss is max(z, 0) - z y + ln(1+e).
    #[inline]
    pub fn outcome(self, logit: f64, label: f64) -> Outcome {
        match self {
            Self::LogLoss => {
                let e = libm::exp(-logit.abs());
                let p = if logit < 0.0 { e / (1.0 + e) } else { 1.0 / (1.0 + e) };
                let positive_part = if logit < 0.0 { 0.0 } else { logit };
                let loss = positive_part - logit * label + libm::log1p(e);
                Outcome { prediction: p, loss, slope: p - label }
            }
            Self::SquaredError => {
                let error = logit - label;
                Outcome { prediction: logit, loss: error * error, slope: 2.0 * error }
            }
        }
    }

    /// Prediction of a logit.
    pub fn prediction(self, logit: f32) -> f32 {
        self.outcome(f64::from(logit), 0.0).prediction as f32
    }
}

/// Labels of the examples of a block, and their losses.
#[derive(Clone, Copy, Debug)]
pub struct Targets<'a> {
    /// Objective of each label. // (labels)
    pub objectives: &'a [Objective],
    /// Labels. // (rows, labels)
    pub labels: &'a [f32],
    /// Weight of each example; empty if all are 1. // (rows) or (0)
    pub weights: &'a [f32],
}

/// Weighted sums over the examples of a block, in order.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LossSums {
    /// Losses of all labels.
    pub loss: f64,
    /// Predictions of the first label, rounded to f32.
    pub prediction: f64,
    /// Weights; the number of examples if all are 1.
    pub weight: f64,
}

impl LossSums {
    /// Adds the sums of other examples.
    pub fn add(&mut self, other: Self) {
        self.loss += other.loss;
        self.prediction += other.prediction;
        self.weight += other.weight;
    }
}

/// Computes the losses of a block and the gradients of its logits by their objectives.
///
/// `d_logits` is the gradient of the mean objective over the `examples` of the whole mini-batch, so
/// that gradients of its blocks add up; the returned sums aren't divided. An example of weight w
/// has w times the loss and gradient of one of weight 1; the divisor remains the number of
/// examples.
pub fn losses<T: Scalar>(
    logits: &[T], // (rows, labels)
    targets: Targets<'_>,
    examples: usize,    // of the mini-batch
    d_logits: &mut [T], // (rows, labels)
) -> LossSums {
    let Targets { objectives, labels, weights } = targets;
    let (lanes, count) = (logits.len(), objectives.len());
    let rows = lanes / count;
    assert_eq!(
        [labels.len(), d_logits.len()],
        [lanes; 2],
        "labels and gradients of {lanes} logits"
    );
    assert_eq!(lanes, rows * count, "{count} logits of each example");
    assert!(weights.is_empty() || weights.len() == rows, "one weight for each of {rows} examples");
    assert!(examples >= rows, "a block of {rows} examples in a mini-batch of {examples}");
    let mut sums = LossSums::default();
    let of_rows = logits.chunks_exact(count).zip(labels.chunks_exact(count));
    for (row, ((logits, labels), d_logits)) in
        of_rows.zip(d_logits.chunks_exact_mut(count)).enumerate()
    {
        let weight = weights.get(row).map_or(1.0, |weight| f64::from(*weight));
        let of_labels = logits.iter().zip(labels).zip(d_logits).zip(objectives);
        for (number, (((logit, label), d_logit), objective)) in of_labels.enumerate() {
            let (logit, label) = (logit.to_f64(), f64::from(*label));
            let outcome = objective.loss.outcome(logit, label);
            sums.loss += weight * outcome.loss;
            let slope = objective.slope(logit, label, outcome);
            *d_logit = T::from_f64(weight * slope / examples as f64);
            if number == 0 {
                sums.prediction += weight * T::from_f64(outcome.prediction).to_f64();
            }
        }
        sums.weight += weight;
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        let half = Loss::LogLoss.outcome(0.0, 1.0);
        assert!((half.loss - std::f64::consts::LN_2).abs() < 1e-15 && half.prediction == 0.5);
        // ln(1 + exp(-2)) and 1 / (1 + exp(-2)).
        let two = Loss::LogLoss.outcome(2.0, 1.0);
        assert!((two.loss - 0.126_928_011_042_972_6).abs() < 1e-15);
        assert!((two.prediction - 0.880_797_077_977_882_3).abs() < 1e-15);
        let mirrored = Loss::LogLoss.outcome(-2.0, 0.0);
        assert!((mirrored.loss - two.loss).abs() < 1e-15);
        let squared = Loss::SquaredError.outcome(2.5, -1.0);
        assert_eq!((squared.prediction, squared.loss, squared.slope), (2.5, 12.25, 7.0));
    }

    #[test]
    fn extreme_logits_stay_finite() {
        for (logit, label, loss) in
            [(1e4, 1.0, 0.0), (1e4, 0.0, 1e4), (-1e4, 1.0, 1e4), (-1e4, 0.0, 0.0)]
        {
            assert_eq!(Loss::LogLoss.outcome(logit, label).loss, loss);
        }
        assert!(Loss::LogLoss.outcome(f64::NAN, 1.0).loss.is_nan());
        assert!(Loss::SquaredError.outcome(f64::NAN, 1.0).loss.is_nan());
    }

    /// Two labels, one with each loss, and weights.
    #[test]
    fn gradients_are_differences_of_the_mean() {
        let logits = [-3.0, -0.2, 0.0, 1.5, 0.3, 2.0];
        let labels = [0.0, 1.5, 1.0, -4.0, 1.0, 0.25];
        let of = [Loss::LogLoss, Loss::SquaredError].map(Objective::from);
        for weights in [&[][..], &[1.0, 0.0, 2.5][..]] {
            let targets = Targets { objectives: &of, labels: &labels, weights };
            let all = |z: &[f64; 6]| losses(z, targets, 10, &mut [0.0; 6]).loss;
            let mut d_logits = [0.0; 6];
            let sums = losses(&logits, targets, 10, &mut d_logits);
            assert_eq!(sums.weight, if weights.is_empty() { 3.0 } else { 3.5 });
            for i in 0..6 {
                let (mut up, mut down) = (logits, logits);
                up[i] += 1e-6;
                down[i] -= 1e-6;
                let slope = (all(&up) - all(&down)) / 2e-6 / 10.0;
                assert!((slope - d_logits[i]).abs() < 1e-8, "{slope} {}", d_logits[i]);
            }
        }
        let none = Targets { objectives: &of[..1], labels: &[], weights: &[] };
        assert_eq!(losses::<f32>(&[], none, 0, &mut []), LossSums::default());
    }

    #[test]
    fn an_example_of_weight_two_is_two_examples() {
        let (logits, labels) = ([0.5f32, -1.0, -1.0], [1.0, 0.0, 0.0]);
        let of = |count: usize, weights: &[f32], d_logits: &mut [f32]| {
            let labels = &labels[..count];
            let targets = Targets { objectives: &[Objective::LOG_LOSS], labels, weights };
            losses(&logits[..count], targets, 3, d_logits)
        };
        let (mut three, mut two) = ([0.0; 3], [0.0; 2]);
        let (of_three, of_two) = (of(3, &[], &mut three), of(2, &[1.0, 2.0], &mut two));
        assert!((of_three.loss - of_two.loss).abs() < 1e-15);
        assert_eq!((of_three.prediction, of_three.weight), (of_two.prediction, of_two.weight));
        assert_eq!(two, [three[0], three[1] + three[2]]);
    }
}
