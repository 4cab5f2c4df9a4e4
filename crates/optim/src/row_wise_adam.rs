//! Row-wise Adam (as in FBGEMM's `PARTIAL_ROWWISE_ADAM`): a row's weights have means of their own
//! and share one mean of squares.

use stepwell_base::tiles::by_tiles;

use crate::adam::AdamStep;
use crate::penalty::Penalty;
use crate::row_sums::square_sum;
use crate::subnormal::flush;

pub(crate) const NAME: &str = "row_wise_adam";

impl AdamStep {
    /// Updates weights that share one mean of squares.
    #[inline(always)]
    pub(crate) fn apply_row_wise(
        &self,
        weights: &mut [f32],
        means: &mut [f32],
        square: &mut f32,
        gradient: &[f32],
        penalty: impl Penalty,
    ) {
        let mean_square = square_sum(weights, gradient, penalty) / weights.len() as f32;
        *square = flush(*square * self.beta2 + self.gain2 * mean_square);
        let root = square.sqrt() / self.correction2_root + self.eps;
        by_tiles([weights, means], gradient, |[w, m], g| {
            let mean = flush(m + self.gain1 * (penalty.gradient(g, w) - m));
            [w + self.rate * mean / root, mean]
        });
    }
}
