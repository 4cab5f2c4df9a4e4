//! FTRL-Proximal (McMahan et al., Ad Click Prediction, KDD 2013, algorithm 1): a weight is exactly
//! zero while its linear sum is within the bound `l1`.
//!
//! The paper's weights follow from two sums and begin at zero. Here the linear sum of a weight that
//! isn't zero follows from the weight, which is the same arithmetic. So a row may begin with any
//! weights, such as random ones or those of another optimizer, and a change of the learning rate
//! doesn't move them. The linear sum is multiplied by the learning rate, so no rate is too low.

use stepwell_base::tiles::by_tiles;

use crate::error::{OptimError, check, check_positive};
use crate::penalty::Penalty;

/// Settings of FTRL-Proximal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ftrl {
    /// Learning rate, alpha in the paper.
    pub lr: f64,
    /// Added to the root that divides the learning rate.
    pub beta: f64,
    /// Penalty on the absolute values of weights.
    pub l1: f64,
    /// Initial value of every sum of squares.
    pub initial: f64,
}

impl Ftrl {
    pub(crate) const NAME: &'static str = "ftrl";

    /// FTRL-Proximal with learning rate `lr`, no penalty, and the paper's other settings.
    pub fn new(lr: f64) -> Self {
        Self { lr, beta: 1.0, l1: 0.0, initial: 0.0 }
    }

    pub(crate) fn check(&self) -> Result<(), OptimError> {
        check_positive(Self::NAME, "lr", self.lr)?;
        // Together with a sum of 0, it would divide by 0.
        check_positive(Self::NAME, "beta", self.beta)?;
        check(Self::NAME, "l1", self.l1, "from 0 to 1e38", (0.0..=1e38).contains(&self.l1))?;
        check(Self::NAME, "initial", self.initial, "of at least 0", self.initial >= 0.0)
    }

    /// With r = √n and r' = √(n + g²): `z += lr g - (r' - r) w`, `n += g²`, and then `w` is 0 if
    /// `|z| <= lr l1`, else `(sign(z) lr l1 - z) / (beta + r' + lr l2)`. If `lr` is 0, nothing
    /// changes.
    #[inline(always)]
    pub(crate) fn apply(
        &self,
        weights: &mut [f32],
        squares: &mut [f32],
        linear: &mut [f32],
        gradient: &[f32],
        penalty: impl Penalty,
    ) {
        let (lr, beta) = (self.lr as f32, self.beta as f32);
        if lr == 0.0 {
            return;
        }
        let (l1, beta) = (lr * self.l1 as f32, beta + lr * penalty.l2());
        by_tiles([weights, squares, linear], gradient, |[w, n, z], g| {
            let g = penalty.scaled(g);
            let (before, square) = (n.sqrt(), n + g * g);
            let root = square.sqrt();
            let z = if w == 0.0 { z } else { -(w * (beta + before) + l1.copysign(w)) };
            let z = z + lr * g - (root - before) * w;
            let weight = (l1.copysign(z) - z) / (beta + root);
            [if z.abs() <= l1 { 0.0 } else { weight }, square, z]
        });
    }
}
