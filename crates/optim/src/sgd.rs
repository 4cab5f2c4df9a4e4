//! Gradient descent: `w -= lr g`. No state.

use stepwell_base::tiles::by_tiles;

use crate::error::{OptimError, check_positive};
use crate::penalty::Penalty;

/// Settings of gradient descent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sgd {
    /// Learning rate.
    pub lr: f64,
}

impl Sgd {
    pub(crate) const NAME: &'static str = "sgd";

    pub(crate) fn check(&self) -> Result<(), OptimError> {
        check_positive(Self::NAME, "lr", self.lr)
    }

    #[inline(always)]
    pub(crate) fn apply(&self, weights: &mut [f32], gradient: &[f32], penalty: impl Penalty) {
        let lr = self.lr as f32;
        by_tiles([weights], gradient, |[w], g| [w - lr * penalty.gradient(g, w)]);
    }
}
