//! FTRL-Proximal (McMahan et al., Ad Click Prediction, KDD 2013, algorithm 1): weights follow from
//! two sums, and are exactly zero while theirs stay within the bound `l1`.
//!
//! The first update of a row replaces its initial weights but for a part |g| / (beta + |g|).

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

    /// `sigma = (√(n + g²) - √n) / lr`, `z += g - sigma w`, `n += g²`, and then `w` is 0 if
    /// `|z| <= l1`, else `(sign(z) l1 - z) / ((beta + √n) / lr + l2)`. Changes nothing at a rate
    /// of 0.
    #[inline(always)]
    pub(crate) fn apply(
        &self,
        weights: &mut [f32],
        squares: &mut [f32],
        linear: &mut [f32],
        gradient: &[f32],
        penalty: impl Penalty,
    ) {
        if self.lr == 0.0 {
            return;
        }
        let (per_rate, beta, l1) = ((1.0 / self.lr) as f32, self.beta as f32, self.l1 as f32);
        by_tiles([weights, squares, linear], gradient, |[w, n, z], g| {
            let g = penalty.scaled(g);
            let square = n + g * g;
            let root = square.sqrt();
            let z = z + g - (root - n.sqrt()) * per_rate * w;
            let weight = (l1.copysign(z) - z) / ((beta + root) * per_rate + penalty.l2());
            [if z.abs() <= l1 { 0.0 } else { weight }, square, z]
        });
    }
}
