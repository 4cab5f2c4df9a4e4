//! Row-wise Adagrad (as in FBGEMM and TorchRec): a row's weights share one sum of squares, so its
//! state is a single lane.

use stepwell_base::tiles::by_tiles;

use crate::adagrad::Adagrad;
use crate::penalty::Penalty;
use crate::row_sums::square_sum;

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
