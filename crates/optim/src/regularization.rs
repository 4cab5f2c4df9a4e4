//! Penalties and bounds that keep weights and gradients small, applied with each update.
//!
//! A penalty over a whole table would change every row in every step. These change only the rows of
//! the mini-batch, so rare rows shrink less.

use crate::error::{OptimError, check};
use crate::penalty::{NoPenalty, Ridge};
use crate::row_sums::square_sum;

/// Penalties on weights and a bound of gradients; 0 for none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Regularization {
    /// Coupled: this times the weight is added to the gradient. PyTorch calls it `weight_decay`.
    /// FTRL-Proximal has it in closed form.
    pub l2: f64,
    /// Decoupled: before an update, weights shrink by this times the learning rate, as in AdamW
    /// (Loshchilov, Hutter, ICLR 2019).
    pub weight_decay: f64,
    /// Greatest norm of a gradient, over all weights of a row or all dense parameters; a longer one
    /// is scaled down to it, before `l2` adds to it.
    pub clip_norm: f64,
}

impl Regularization {
    /// The settings by name, without those that are 0.
    pub fn settings(&self) -> impl Iterator<Item = (&'static str, f64)> + use<> {
        let Self { l2, weight_decay, clip_norm } = *self;
        let all = [("l2", l2), ("weight_decay", weight_decay), ("clip_norm", clip_norm)];
        all.into_iter().filter(|(_, value)| *value != 0.0)
    }

    /// The settings from `of`, named as in [`Regularization::settings`].
    ///
    /// # Errors
    /// The first error of `of`.
    pub fn of_settings<E>(of: impl Fn(&'static str) -> Result<f64, E>) -> Result<Self, E> {
        let (l2, weight_decay) = (of("l2")?, of("weight_decay")?);
        Ok(Self { l2, weight_decay, clip_norm: of("clip_norm")? })
    }

    /// Rejects settings outside the ranges in which updates are defined.
    pub(crate) fn check(&self, optimizer: &'static str) -> Result<(), OptimError> {
        let in_range = |setting, value: f64| {
            check(optimizer, setting, value, "from 0 to 1e38", (0.0..=1e38).contains(&value))
        };
        in_range("l2", self.l2)?;
        in_range("weight_decay", self.weight_decay)?;
        in_range("clip_norm", self.clip_norm)
    }

    /// Whether there is none.
    #[inline(always)]
    pub(crate) fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Factor of weights by the decoupled decay at learning rate `lr`.
    #[inline(always)]
    pub fn keep(&self, lr: f64) -> f32 {
        (1.0 - lr * self.weight_decay) as f32
    }

    /// Shrinks `weights` by the decoupled decay at learning rate `lr`.
    #[inline(always)]
    pub(crate) fn shrink(&self, weights: &mut [f32], lr: f64) {
        if self.weight_decay != 0.0 {
            let keep = self.keep(lr);
            weights.iter_mut().for_each(|weight| *weight *= keep);
        }
    }

    /// The penalty for a row with this `gradient`.
    #[inline(always)]
    pub(crate) fn penalty(&self, gradient: &[f32]) -> Ridge {
        let bound = self.clip_norm as f32;
        let mut scale = 1.0;
        if bound > 0.0 {
            let norm = square_sum(gradient, gradient, NoPenalty).sqrt();
            if norm > bound {
                scale = bound / norm;
            }
        }
        Ridge { scale, l2: self.l2 as f32 }
    }
}
