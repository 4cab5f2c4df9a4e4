//! Gradient descent with momentum (Polyak 1964), in the form that PyTorch has.

use stepwell_base::tiles::by_tiles;

use crate::error::{OptimError, check, check_positive};
use crate::penalty::Penalty;
use crate::subnormal::flush;

/// Settings of momentum.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Momentum {
    /// Learning rate.
    pub lr: f64,
    /// Part of the velocity that a step keeps.
    pub momentum: f64,
}

impl Momentum {
    pub(crate) const NAME: &'static str = "momentum";

    /// Momentum with learning rate `lr` and the usual other setting.
    pub fn new(lr: f64) -> Self {
        Self { lr, momentum: 0.9 }
    }

    pub(crate) fn check(&self) -> Result<(), OptimError> {
        check_positive(Self::NAME, "lr", self.lr)?;
        let is_part = (0.0..1.0).contains(&self.momentum);
        check(Self::NAME, "momentum", self.momentum, "in [0, 1)", is_part)
    }

    /// `v = momentum v + g`, then `w -= lr v`.
    #[inline(always)]
    pub(crate) fn apply(
        &self,
        weights: &mut [f32],
        velocities: &mut [f32],
        gradient: &[f32],
        penalty: impl Penalty,
    ) {
        let (lr, momentum) = (self.lr as f32, self.momentum as f32);
        by_tiles([weights, velocities], gradient, |[w, v], g| {
            let velocity = flush(momentum * v + penalty.gradient(g, w));
            [w - lr * velocity, velocity]
        });
    }
}
