//! The loss: binary cross entropy of a logit, computed in f64 with pure-Rust exp and ln.

use crate::Scalar;

/// What a logit means for an example.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// Probability of a positive label.
    pub probability: f64,
    /// Cross entropy of the label, in nats.
    pub loss: f64,
}

/// Probability and loss of one example with a `label` in [0, 1].
///
/// With e = exp(-|z|), which never overflows: p = 1/(1+e) for z ≥ 0 and e/(1+e) below, and the
/// loss is max(z, 0) - z y + ln(1+e).
#[inline]
pub fn outcome(logit: f64, label: f64) -> Outcome {
    let e = libm::exp(-logit.abs());
    let probability = if logit < 0.0 { e / (1.0 + e) } else { 1.0 / (1.0 + e) };
    let positive_part = if logit < 0.0 { 0.0 } else { logit };
    Outcome { probability, loss: positive_part - logit * label + libm::log1p(e) }
}

/// The loss terms of a block summed in example order; their gradients and the probabilities.
///
/// `d_logits` is that of the mean over the `examples` of the whole mini-batch, so that gradients of
/// its blocks just add up; the returned sum is not divided.
pub fn binary_cross_entropy<T: Scalar>(
    logits: &[T],            // (rows)
    labels: &[f32],          // (rows)
    examples: usize,         // of the mini-batch
    d_logits: &mut [T],      // (rows)
    probabilities: &mut [T], // (rows)
) -> f64 {
    let rows = logits.len();
    let lengths = [labels.len(), d_logits.len(), probabilities.len()];
    assert_eq!(lengths, [rows; 3], "labels, gradients and probabilities of {rows} logits");
    assert!(examples >= rows, "a block of {rows} examples in a mini-batch of {examples}");
    let outputs = d_logits.iter_mut().zip(probabilities);
    let mut sum = 0.0;
    for ((logit, label), (d_logit, probability)) in logits.iter().zip(labels).zip(outputs) {
        let label = f64::from(*label);
        let outcome = outcome(logit.to_f64(), label);
        sum += outcome.loss;
        *probability = T::from_f64(outcome.probability);
        *d_logit = T::from_f64((outcome.probability - label) / examples as f64);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        let half = outcome(0.0, 1.0);
        assert!((half.loss - std::f64::consts::LN_2).abs() < 1e-15 && half.probability == 0.5);
        // ln(1 + exp(-2)) and 1 / (1 + exp(-2)).
        let two = outcome(2.0, 1.0);
        assert!((two.loss - 0.126_928_011_042_972_6).abs() < 1e-15);
        assert!((two.probability - 0.880_797_077_977_882_3).abs() < 1e-15);
        let mirrored = outcome(-2.0, 0.0);
        assert!((mirrored.loss - two.loss).abs() < 1e-15);
    }

    #[test]
    fn extreme_logits_stay_finite() {
        for (logit, label, loss) in
            [(1e4, 1.0, 0.0), (1e4, 0.0, 1e4), (-1e4, 1.0, 1e4), (-1e4, 0.0, 0.0)]
        {
            assert_eq!(outcome(logit, label).loss, loss);
        }
        assert!(outcome(f64::NAN, 1.0).loss.is_nan());
    }

    #[test]
    fn gradients_are_differences_of_the_mean() {
        let (logits, labels) = ([-3.0, -0.2, 0.0, 1.5], [0.0, 1.0, 1.0, 0.0]);
        let (mut d_logits, mut probabilities) = ([0.0; 4], [0.0; 4]);
        let sum = binary_cross_entropy(&logits, &labels, 10, &mut d_logits, &mut probabilities);
        let all = |z: &[f64; 4]| -> f64 {
            z.iter().zip(labels).map(|(z, y)| outcome(*z, f64::from(y)).loss).sum()
        };
        assert_eq!(sum, all(&logits));
        for i in 0..4 {
            let (mut up, mut down) = (logits, logits);
            up[i] += 1e-6;
            down[i] -= 1e-6;
            let slope = (all(&up) - all(&down)) / 2e-6 / 10.0;
            assert!((slope - d_logits[i]).abs() < 1e-9);
        }
        assert_eq!(binary_cross_entropy::<f32>(&[], &[], 0, &mut [], &mut []), 0.0);
    }
}
