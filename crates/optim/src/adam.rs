//! Adam (Kingma, Ba, ICLR 2015) with bias correction.

use stepwell_base::tiles::by_tiles;

use crate::error::{OptimError, check, check_positive};
use crate::penalty::Penalty;
use crate::subnormal::flush;

/// Settings of Adam.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Adam {
    /// Learning rate.
    pub lr: f64,
    /// Decay of the mean of gradients.
    pub beta1: f64,
    /// Decay of the mean of squared gradients.
    pub beta2: f64,
    /// Added to the root, to avoid division by zero.
    pub eps: f64,
}

/// Constants of one step's arithmetic, computed once in f64.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AdamStep {
    pub(crate) gain1: f32,
    pub(crate) beta2: f32,
    pub(crate) gain2: f32,
    pub(crate) rate: f32,
    pub(crate) correction2_root: f32,
    pub(crate) eps: f32,
}

impl Adam {
    pub(crate) const NAME: &'static str = "adam";

    /// Adam with learning rate `lr` and the usual other settings.
    pub fn new(lr: f64) -> Self {
        Self { lr, beta1: 0.9, beta2: 0.999, eps: 1e-8 }
    }

    /// The settings by name.
    pub(crate) fn settings(&self) -> Vec<(&'static str, f64)> {
        let Self { lr, beta1, beta2, eps } = *self;
        vec![("lr", lr), ("beta1", beta1), ("beta2", beta2), ("eps", eps)]
    }

    /// The settings from `of`, by name.
    pub(crate) fn of_settings<E>(of: impl Fn(&'static str) -> Result<f64, E>) -> Result<Self, E> {
        let (lr, eps) = (of("lr")?, of("eps")?);
        Ok(Self { lr, beta1: of("beta1")?, beta2: of("beta2")?, eps })
    }

    /// Rejects settings outside their ranges, of the optimizer `name`.
    pub(crate) fn check(&self, name: &'static str) -> Result<(), OptimError> {
        let unit = |setting, value: f64| {
            check(name, setting, value, "in [0, 1)", (0.0..1.0).contains(&value))
        };
        check_positive(name, "lr", self.lr)?;
        check_positive(name, "eps", self.eps)?;
        unit("beta1", self.beta1)?;
        unit("beta2", self.beta2)
    }

    /// The constants of the `step`-th update, counted from 1.
    #[inline(always)]
    pub(crate) fn at_step(&self, step: u64) -> AdamStep {
        let correction1 = 1.0 - power(self.beta1, step);
        let correction2 = 1.0 - power(self.beta2, step);
        AdamStep {
            gain1: (1.0 - self.beta1) as f32,
            beta2: self.beta2 as f32,
            gain2: (1.0 - self.beta2) as f32,
            rate: (-self.lr / correction1) as f32,
            correction2_root: correction2.sqrt() as f32,
            eps: self.eps as f32,
        }
    }
}

impl AdamStep {
    pub(crate) fn scale_rate(&mut self, by: f64) {
        self.rate = (f64::from(self.rate) * by) as f32;
    }

    #[inline(always)]
    pub(crate) fn apply(
        &self,
        weights: &mut [f32],
        means: &mut [f32],
        squares: &mut [f32],
        gradient: &[f32],
        penalty: impl Penalty,
    ) {
        by_tiles([weights, means, squares], gradient, |[w, m, v], g| {
            let g = penalty.gradient(g, w);
            let mean = flush(m + self.gain1 * (g - m));
            let square = flush(v * self.beta2 + self.gain2 * g * g);
            let root = square.sqrt() / self.correction2_root + self.eps;
            [w + self.rate * mean / root, mean, square]
        });
    }
}

/// `base` to the power of `exponent` by squaring: few multiplications, in a fixed order.
#[inline(always)]
pub(crate) fn power(base: f64, exponent: u64) -> f64 {
    let (mut result, mut square, mut bits) = (1.0, base, exponent);
    while bits > 0 {
        if bits & 1 == 1 {
            result *= square;
        }
        square *= square;
        bits >>= 1;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::penalty::NoPenalty;

    #[test]
    fn power_agrees_with_repeated_multiplication() {
        let mut product = 1.0;
        for exponent in 0..2000u64 {
            let got = power(0.999, exponent);
            assert!((got / product - 1.0f64).abs() < 1e-12, "0.999^{exponent}: {got}");
            product *= 0.999;
        }
        assert_eq!(power(0.9, u64::MAX), 0.0);
    }

    #[test]
    fn moments_of_a_silent_lane_reach_zero() {
        let adam = Adam { beta2: 0.9, ..Adam::new(0.001) };
        let (mut w, mut m, mut v) = ([1.0f32], [0.0f32], [0.0f32]);
        adam.at_step(1).apply(&mut w, &mut m, &mut v, &[1e-3], NoPenalty);
        for step in 2..3000 {
            adam.at_step(step).apply(&mut w, &mut m, &mut v, &[0.0], NoPenalty);
        }
        assert_eq!((m, v), ([0.0], [0.0]));
    }
}
