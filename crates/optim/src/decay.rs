//! Penalties on large weights, applied to a row whenever a gradient updates it.
//!
//! A penalty over a whole table would change every row in every step. These change only the rows of
//! the mini-batch, so rare rows shrink less.

use crate::error::{OptimError, check};

/// Penalties on weights; 0 for none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Decay {
    /// Coupled: this times the weight is added to the gradient. PyTorch calls it `weight_decay`.
    pub l2: f64,
    /// Decoupled: before an update, weights shrink by this times the learning rate, as in AdamW
    /// (Loshchilov, Hutter, ICLR 2019).
    pub weight_decay: f64,
}

impl Decay {
    /// The settings by name, without those that are 0.
    pub fn settings(&self) -> impl Iterator<Item = (&'static str, f64)> + use<> {
        let Self { l2, weight_decay } = *self;
        let all = [("l2", l2), ("weight_decay", weight_decay)];
        all.into_iter().filter(|(_, value)| *value != 0.0)
    }

    /// Rejects settings outside the ranges in which updates are defined.
    pub(crate) fn check(&self, optimizer: &'static str) -> Result<(), OptimError> {
        let in_range = |setting, value: f64| {
            check(optimizer, setting, value, "from 0 to 1e38", (0.0..=1e38).contains(&value))
        };
        in_range("l2", self.l2)?;
        in_range("weight_decay", self.weight_decay)
    }

    /// Whether there is none.
    #[inline(always)]
    pub(crate) fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Shrinks `weights` by the decoupled decay at learning rate `lr`.
    pub(crate) fn shrink(&self, weights: &mut [f32], lr: f64) {
        if self.weight_decay != 0.0 {
            let factor = (1.0 - lr * self.weight_decay) as f32;
            weights.iter_mut().for_each(|weight| *weight *= factor);
        }
    }
}
