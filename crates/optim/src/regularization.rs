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
    /// Greatest norm of a row's embedding after an update; a longer one is scaled down to it.
    /// Dense parameters and first-order weights have no such bound.
    pub max_norm: f64,
}

impl Regularization {
    /// The settings by name, without those that are 0.
    pub fn settings(&self) -> impl Iterator<Item = (&'static str, f64)> + use<> {
        let Self { l2, weight_decay, clip_norm, max_norm } = *self;
        let penalties = [("l2", l2), ("weight_decay", weight_decay)];
        let all = penalties.into_iter().chain([("clip_norm", clip_norm), ("max_norm", max_norm)]);
        all.filter(|(_, value)| *value != 0.0)
    }

    /// The settings from `of`, named as in [`Regularization::settings`].
    ///
    /// # Errors
    /// The first error of `of`.
    pub fn of_settings<E>(of: impl Fn(&'static str) -> Result<f64, E>) -> Result<Self, E> {
        let (l2, weight_decay) = (of("l2")?, of("weight_decay")?);
        Ok(Self { l2, weight_decay, clip_norm: of("clip_norm")?, max_norm: of("max_norm")? })
    }

    /// Rejects settings outside the ranges in which updates are defined.
    pub(crate) fn check(&self, optimizer: &'static str) -> Result<(), OptimError> {
        let in_range = |setting, value: f64| {
            check(optimizer, setting, value, "from 0 to 1e38", (0.0..=1e38).contains(&value))
        };
        in_range("l2", self.l2)?;
        in_range("weight_decay", self.weight_decay)?;
        in_range("clip_norm", self.clip_norm)?;
        in_range("max_norm", self.max_norm)
    }

    /// Whether nothing changes gradients, or weights before an update.
    #[inline(always)]
    pub(crate) fn is_plain(&self) -> bool {
        Self { max_norm: 0.0, ..*self } == Self::default()
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
        let scale = excess(gradient, self.clip_norm).unwrap_or(1.0);
        Ridge { scale, l2: self.l2 as f32 }
    }

    /// Bounds the norm of an updated embedding.
    #[inline(always)]
    pub(crate) fn bound(&self, embedding: &mut [f32]) {
        if let Some(scale) = excess(embedding, self.max_norm) {
            embedding.iter_mut().for_each(|weight| *weight *= scale);
        }
    }
}

/// The factor that scales `values` down to norm `bound`; `None` if they aren't longer, or there is
/// no bound.
#[inline(always)]
fn excess(values: &[f32], bound: f64) -> Option<f32> {
    let bound = bound as f32;
    if bound <= 0.0 {
        return None;
    }
    let norm = square_sum(values, values, NoPenalty).sqrt();
    (norm > bound).then(|| bound / norm)
}

#[cfg(test)]
mod tests {
    use stepwell_base::random::Stream;

    use crate::{Regularization, RowOptimizer, Rule, Storage, Stored};

    /// The norm of an embedding stays within its bound, its first-order weight is left alone, and
    /// an embedding within the bound keeps its bits.
    #[test]
    fn long_embeddings_are_scaled_down() {
        let of = Regularization { max_norm: 1.5, ..Regularization::default() };
        let optimizer = RowOptimizer::new(Rule::sgd(1.0)).unwrap().regularized(of).unwrap();
        let weights: Vec<f32> = (0..21).map(|lane| lane as f32 / 10.0 - 1.0).collect();
        let gradient: Vec<f32> = [vec![0.0; 20], vec![-9.0]].concat();
        for storage in Storage::ALL {
            let (mut lanes, mut room) = (vec![0.0; storage.lanes(21)], vec![0.0; 21]);
            storage.encode(&weights, &mut lanes, Stream::from_state(0));
            let random = Stream::from_state(1);
            let stored = Stored { storage, dim: 20, lanes: &mut lanes, random, room: &mut room };
            optimizer.update_stored(stored, &mut [], &gradient);
            storage.view(&lanes, 21).copy_to(&mut room);
            let norm = room[..20].iter().map(|w| f64::from(*w).powi(2)).sum::<f64>().sqrt();
            let slack = if storage == Storage::F32 { 1e-6 } else { 1e-2 };
            assert!((norm - 1.5).abs() < slack, "{storage:?}: {norm}");
            assert!(room[20] > 8.0, "the first-order weight has no bound: {}", room[20]);
        }
        let mut short = [0.3f32, -0.4, 0.1];
        optimizer.bound(&mut short);
        assert_eq!(short, [0.3, -0.4, 0.1]);
    }
}
