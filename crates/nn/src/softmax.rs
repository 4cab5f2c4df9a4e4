//! Cross entropy of a softmax over classes, computed in f64 with pure-Rust exp and ln.

use crate::gemm::Scalar;

/// Sums over the examples of a block, in order.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ClassSums {
    /// Losses, in nats.
    pub loss: f64,
    /// Examples whose class has the largest logit; the first of equal ones counts.
    pub right: u64,
    /// Number of examples.
    pub examples: u64,
}

impl ClassSums {
    /// Adds the sums of other examples.
    pub fn add(&mut self, other: Self) {
        self.loss += other.loss;
        self.right += other.right;
        self.examples += other.examples;
    }
}

/// Computes the losses of a block and the gradients of its logits.
///
/// The loss of an example of class c is `ln Σ exp z - z_c`, its gradient `softmax(z) - [c]`. Both
/// are computed relative to the largest logit, so that nothing overflows. `d_logits` is the
/// gradient of the mean over the `examples` of the whole mini-batch; it may be empty if it isn't
/// needed.
pub fn softmax_losses<T: Scalar>(
    logits: &[T],  // (rows, classes)
    labels: &[u8], // (rows)
    classes: usize,
    examples: usize,    // of the mini-batch
    d_logits: &mut [T], // (rows, classes) or (0)
) -> ClassSums {
    assert_eq!(logits.len(), labels.len() * classes, "{classes} logits for each label");
    assert!(d_logits.is_empty() || d_logits.len() == logits.len(), "a gradient for each logit");
    let share = 1.0 / examples as f64;
    let mut sums = ClassSums::default();
    for (row, (logits, label)) in logits.chunks_exact(classes).zip(labels).enumerate() {
        let label = usize::from(*label);
        assert!(label < classes, "class {label} of {classes}");
        let (place, most) = largest(logits);
        let exp = |logit: &T| libm::exp(logit.to_f64() - most);
        let all: f64 = logits.iter().map(exp).sum();
        sums.loss += libm::log(all) + most - logits[label].to_f64();
        sums.right += u64::from(place == label);
        sums.examples += 1;
        if d_logits.is_empty() {
            continue;
        }
        let d_row = &mut d_logits[row * classes..(row + 1) * classes];
        for (class, (d_logit, logit)) in d_row.iter_mut().zip(logits).enumerate() {
            let one = if class == label { 1.0 } else { 0.0 };
            *d_logit = T::from_f64((exp(logit) / all - one) * share);
        }
    }
    sums
}

/// Class and value of the largest logit, the first of equal ones. NaN is never the largest, but
/// propagates through the sums.
fn largest<T: Scalar>(logits: &[T]) -> (usize, f64) {
    let (mut place, mut most) = (0, f64::NEG_INFINITY);
    for (class, logit) in logits.iter().enumerate() {
        if logit.to_f64() > most {
            (place, most) = (class, logit.to_f64());
        }
    }
    (place, most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        let mut d_logits = [0.0f64; 3];
        let sums = softmax_losses(&[0.0, 0.0, 0.0], &[1], 3, 1, &mut d_logits);
        assert!((sums.loss - libm::log(3.0)).abs() < 1e-15 && sums.right == 0);
        let third = 1.0 / 3.0;
        assert!(
            d_logits.iter().zip([third, third - 1.0, third]).all(|(a, b)| (a - b).abs() < 1e-15)
        );
        // ln(1 + exp(-2)), as for a log loss.
        let sums = softmax_losses(&[2.0, 0.0], &[0], 2, 1, &mut []);
        assert!((sums.loss - 0.126_928_011_042_972_6).abs() < 1e-15 && sums.right == 1);
    }

    #[test]
    fn extreme_logits_stay_finite_and_what_is_no_number_shows() {
        let loss = |logits: &[f64], label| softmax_losses(logits, &[label], 2, 1, &mut []).loss;
        assert_eq!((loss(&[1e4, -1e4], 0), loss(&[1e4, -1e4], 1)), (0.0, 2e4));
        assert!(loss(&[f64::NAN, 0.0], 1).is_nan());
    }

    #[test]
    fn gradients_are_differences_of_the_mean() {
        let logits = [-3.0, -0.2, 0.5, 1.5, 0.3, 2.0];
        let labels = [2, 0];
        let all = |z: &[f64; 6]| softmax_losses(z, &labels, 3, 10, &mut []).loss;
        let mut d_logits = [0.0; 6];
        let sums = softmax_losses(&logits, &labels, 3, 10, &mut d_logits);
        assert_eq!((sums.examples, sums.right), (2, 1));
        for i in 0..6 {
            let (mut up, mut down) = (logits, logits);
            up[i] += 1e-6;
            down[i] -= 1e-6;
            let slope = (all(&up) - all(&down)) / 2e-6 / 10.0;
            assert!((slope - d_logits[i]).abs() < 1e-8, "{slope} {}", d_logits[i]);
        }
    }
}
