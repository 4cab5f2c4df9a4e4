//! Counter-based frequency-aware gradient descent (CF-SGD; Li et al., "Frequency-aware SGD for
//! Efficient Embedding Learning with Provable Benefits", ICLR 2022): the more often a row was
//! updated, the lower its rate.

use crate::penalty::Penalty;
use crate::sgd::Sgd;

pub(crate) const NAME: &str = "cf_sgd";

/// `n += 1`, then `w -= lr / √n g`, where n counts the updates of the row.
#[inline(always)]
pub(crate) fn apply(
    sgd: &Sgd,
    weights: &mut [f32],
    counter: &mut f32,
    gradient: &[f32],
    penalty: impl Penalty,
) {
    let count = counter.to_bits().saturating_add(1);
    *counter = f32::from_bits(count);
    let lr = sgd.lr / f64::from(count).sqrt();
    Sgd { lr }.apply(weights, gradient, penalty);
}
