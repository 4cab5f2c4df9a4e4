//! Adagrad (Duchi, Hazan, Singer, JMLR 2011): each lane's rate falls with its squared gradients.

use stepwell_base::tiles::by_tiles;

use crate::error::{OptimError, check, check_positive};
use crate::penalty::Penalty;

/// Settings of Adagrad.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Adagrad {
    /// Learning rate.
    pub lr: f64,
    /// Added to the root of the sum, to avoid division by zero.
    pub eps: f64,
    /// Initial value of every sum.
    pub initial: f64,
}

impl Adagrad {
    pub(crate) const NAME: &'static str = "adagrad";

    /// Adagrad with learning rate `lr` and the usual other settings.
    pub fn new(lr: f64) -> Self {
        Self { lr, eps: 1e-10, initial: 0.0 }
    }

    /// The settings by name.
    pub(crate) fn settings(&self) -> Vec<(&'static str, f64)> {
        vec![("lr", self.lr), ("eps", self.eps), ("initial", self.initial)]
    }

    /// The settings from `of`, by name.
    pub(crate) fn of_settings<E>(of: impl Fn(&'static str) -> Result<f64, E>) -> Result<Self, E> {
        Ok(Self { lr: of("lr")?, eps: of("eps")?, initial: of("initial")? })
    }

    /// Rejects settings outside their ranges, of the optimizer `name`.
    pub(crate) fn check(&self, name: &'static str) -> Result<(), OptimError> {
        check_positive(name, "lr", self.lr)?;
        check_positive(name, "eps", self.eps)?;
        check(name, "initial", self.initial, "of at least 0", self.initial >= 0.0)
    }

    /// `s += g²`, then `w -= lr g / (√s + eps)`.
    #[inline(always)]
    pub(crate) fn apply(
        &self,
        weights: &mut [f32],
        sums: &mut [f32],
        gradient: &[f32],
        penalty: impl Penalty,
    ) {
        let (rate, eps) = (-self.lr as f32, self.eps as f32);
        by_tiles([weights, sums], gradient, |[w, s], g| {
            let g = penalty.gradient(g, w);
            let sum = s + g * g;
            [w + rate * g / (sum.sqrt() + eps), sum]
        });
    }
}
