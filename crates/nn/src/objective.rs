//! What training minimizes for a label: its loss, possibly with emphasis on some examples.
//!
//! A label y from 0 to 1 counts as y positives and 1 - y negatives, so an objective of clicks is
//! the loss of a positive, P(z), and of a negative, N(z), each times how often it counts:
//!
//! ```text
//! positives w y, negatives 1 - y             w: weight of positives
//! target    t = w y (1 - s) + (w y + 1 - y) s / 2       s: label smoothing
//! objective t P(z) + (w y + 1 - y - t) N(z)
//! P(z) = -(1 - q)^g ln q,  N(z) = -q^g ln(1 - q)         g: gamma of the focal loss
//! ```

use crate::loss::{Loss, Outcome};

/// The objective of a label. Figures don't depend on it: they are those of its loss.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Objective {
    /// The loss that is evaluated. What follows needs [`Loss::LogLoss`].
    pub loss: Loss,
    /// How often a positive counts; a negative counts once.
    pub positive_weight: f64,
    /// Share of each label that is spread evenly over both classes.
    pub smoothing: f64,
    /// Exponent of the focal loss (Lin et al., "Focal Loss for Dense Object Detection", ICCV 2017);
    /// 0 for the log loss itself.
    pub focal_gamma: f64,
}

impl From<Loss> for Objective {
    fn from(loss: Loss) -> Self {
        Self { loss, positive_weight: 1.0, smoothing: 0.0, focal_gamma: 0.0 }
    }
}

impl Objective {
    /// Log loss without emphasis.
    pub const LOG_LOSS: Self =
        Self { loss: Loss::LogLoss, positive_weight: 1.0, smoothing: 0.0, focal_gamma: 0.0 };

    /// Derivative of the objective by the logit, given the outcome of the loss.
    ///
    /// Without emphasis this is exactly the slope of the outcome. Powers are exponentials of the
    /// losses, (1 - q)^g = exp(g ln(1 - q)), so the result is finite for every finite logit.
    #[inline]
    pub fn slope(&self, logit: f64, label: f64, outcome: Outcome) -> f64 {
        if self.loss == Loss::SquaredError {
            return outcome.slope;
        }
        let positives = self.positive_weight * label;
        let all = positives + (1.0 - label);
        let target = positives * (1.0 - self.smoothing) + all * (0.5 * self.smoothing);
        if self.focal_gamma == 0.0 {
            return all * outcome.prediction - target;
        }
        let [of_positive, of_negative] = focal_slopes(logit, self.focal_gamma);
        (all - target) * of_negative - target * of_positive
    }

    /// The largest absolute [`Objective::slope`] of a log loss, for labels from 0 to 1.
    pub fn slope_max(&self) -> f64 {
        // q (-ln q) is at most 1 / e.
        self.positive_weight.max(1.0) * (1.0 + self.focal_gamma)
    }
}

/// -P'(z) and N'(z) of the focal loss: (1 - q)^g (g q (-ln q) + 1 - q), and its mirror image.
#[inline]
fn focal_slopes(logit: f64, gamma: f64) -> [f64; 2] {
    let e = libm::exp(-logit.abs());
    let (large, small) = (1.0 / (1.0 + e), e / (1.0 + e));
    let (positive, negative) = if logit < 0.0 { (small, large) } else { (large, small) };
    // -ln q and -ln(1 - q).
    let rest = libm::log1p(e);
    let of_positive = (if logit < 0.0 { -logit } else { 0.0 }) + rest;
    let of_negative = (if logit < 0.0 { 0.0 } else { logit }) + rest;
    [
        libm::exp(-(gamma * of_negative)) * (gamma * positive * of_positive + negative),
        libm::exp(-(gamma * of_positive)) * (gamma * negative * of_negative + positive),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The objective as its papers write it, in `f64`.
    fn value(of: Objective, logit: f64, label: f64) -> f64 {
        let [q, other] = [-logit, logit].map(|z| 1.0 / (1.0 + z.exp()));
        let Objective { positive_weight, smoothing: s, focal_gamma: g, .. } = of;
        let class = |is: f64| {
            let t = is * (1.0 - s) + s / 2.0;
            -t * other.powf(g) * q.ln() - (1.0 - t) * q.powf(g) * other.ln()
        };
        positive_weight * label * class(1.0) + (1.0 - label) * class(0.0)
    }

    fn slope(of: Objective, logit: f64, label: f64) -> f64 {
        of.slope(logit, label, of.loss.outcome(logit, label))
    }

    fn objectives() -> Vec<Objective> {
        let mut all = Vec::new();
        for positive_weight in [1.0, 0.25, 8.0] {
            for smoothing in [0.0, 0.1] {
                for focal_gamma in [0.0, 0.5, 1.0, 2.0, 5.0] {
                    let loss = Loss::LogLoss;
                    all.push(Objective { loss, positive_weight, smoothing, focal_gamma });
                }
            }
        }
        all
    }

    #[test]
    fn slopes_are_differences_of_the_objective() {
        for of in objectives() {
            for label in [0.0, 1.0, 0.3] {
                for step in -40..=40 {
                    let (logit, h) = (f64::from(step) / 4.0, 1e-5);
                    let wanted = value(of, logit + h, label) - value(of, logit - h, label);
                    let (wanted, found) = (wanted / (2.0 * h), slope(of, logit, label));
                    let most = 1e-8 * (1.0 + wanted.abs());
                    assert!((wanted - found).abs() < most, "{of:?} {logit} {wanted} {found}");
                    assert!(found.abs() <= of.slope_max(), "{of:?} {found}");
                }
            }
        }
    }

    #[test]
    fn saturated_logits_have_finite_slopes() {
        for of in objectives() {
            for logit in [40.0, 800.0, 1e5, f64::from(f32::MAX)] {
                let easy = [slope(of, logit, 1.0), slope(of, -logit, 0.0)];
                let hard = [slope(of, -logit, 1.0), slope(of, logit, 0.0)];
                let Objective { positive_weight: w, smoothing: s, .. } = of;
                // An easy example has the slope of the share that smoothing gives to the other
                // class, a hard one that of the rest.
                for (found, wanted) in easy.into_iter().zip([w * s / 2.0, -s / 2.0]) {
                    assert!((found - wanted).abs() < 1e-12, "{of:?} {logit} {found} {wanted}");
                }
                for (found, wanted) in hard.into_iter().zip([-w * (1.0 - s / 2.0), 1.0 - s / 2.0]) {
                    assert!((found - wanted).abs() < 1e-12, "{of:?} {logit} {found} {wanted}");
                }
            }
            assert!(slope(of, f64::NAN, 1.0).is_nan());
        }
    }

    #[test]
    fn an_objective_without_emphasis_has_the_bits_of_the_loss() {
        for step in -3000..=3000 {
            let logit = f64::from(step) / 37.0;
            for label in [0.0, 1.0, f64::from(0.3f32), f64::from(1e-30f32), f64::from(0.999_9f32)] {
                for loss in Loss::ALL {
                    let outcome = loss.outcome(logit, label);
                    let found = Objective::from(loss).slope(logit, label, outcome);
                    assert_eq!(
                        found.to_bits(),
                        outcome.slope.to_bits(),
                        "{loss:?} {logit} {label}"
                    );
                }
            }
        }
    }
}
