//! Sums over lanes, in an order that doesn't depend on the width of vectors.

use pulp::Arch;
use stepwell_base::tiles::TILE;

use crate::penalty::{NoPenalty, Penalty};

/// The sum of the squares of `values`, in the same order on every processor.
pub fn square_sum_of(values: &[f32]) -> f32 {
    Arch::new().dispatch(|| square_sum(values, values, NoPenalty))
}

/// The sum of the gradient's squares: lane i is added to partial sum i mod [`TILE`], and the
/// partial sums are added by halves.
#[inline(always)]
pub(crate) fn square_sum(weights: &[f32], gradient: &[f32], penalty: impl Penalty) -> f32 {
    let (of_weights, last_weights) = weights.as_chunks::<TILE>();
    let (of_gradient, last_gradient) = gradient.as_chunks::<TILE>();
    let mut sums = [0.0f32; TILE];
    for (weights, gradient) in of_weights.iter().zip(of_gradient) {
        for lane in 0..TILE {
            let g = penalty.gradient(gradient[lane], weights[lane]);
            sums[lane] += g * g;
        }
    }
    for (lane, (w, g)) in last_weights.iter().zip(last_gradient).enumerate() {
        let g = penalty.gradient(*g, *w);
        sums[lane] += g * g;
    }
    let mut count = TILE;
    while count > 1 {
        count /= 2;
        for lane in 0..count {
            sums[lane] += sums[lane + count];
        }
    }
    sums[0]
}
