//! Losses of the examples of a block, and gradients of their logits.

use crate::gemm::Scalar;
use crate::objective::Objective;

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
/// `d_logits` is the gradient of the mean objective over all `examples` of the mini-batch, so the
/// gradients of its blocks add up to the whole gradient. The returned sums are not means. A weight
/// multiplies an example's loss and gradient; means still divide by the number of examples.
pub fn losses<T: Scalar>(
    logits: &[T], // (rows, labels)
    targets: Targets<'_>,
    examples: usize,    // in the whole mini-batch
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
    use crate::loss::Loss;

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
