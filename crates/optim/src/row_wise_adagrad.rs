//! Row-wise Adagrad (as in FBGEMM and TorchRec): a row's weights share one sum of squares, so its
//! state is a single lane.

use stepwell_base::tiles::{TILE, by_tiles};

use crate::adagrad::Adagrad;
use crate::penalty::Penalty;

pub(crate) const NAME: &str = "row_wise_adagrad";

impl Adagrad {
    /// `s += mean of g²`, then `w -= lr g / (√s + eps)`.
    #[inline(always)]
    pub(crate) fn apply_row_wise(
        &self,
        weights: &mut [f32],
        sum: &mut f32,
        gradient: &[f32],
        penalty: impl Penalty,
    ) {
        *sum += square_sum(weights, gradient, penalty) / weights.len() as f32;
        let rate = -self.lr as f32 / (sum.sqrt() + self.eps as f32);
        by_tiles([weights], gradient, |[w], g| [w + rate * penalty.gradient(g, w)]);
    }
}

/// The sum of the gradient's squares: lane i is added to partial sum i mod [`TILE`], and the
/// partial sums are added by halves, so that the order is the same for every width of vectors.
#[inline(always)]
fn square_sum(weights: &[f32], gradient: &[f32], penalty: impl Penalty) -> f32 {
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
