//! How far numbers lie apart: the sum of squares of what is between them and their mean.
//!
//! - **Why.** The difference of a sum of squares and the square of a sum leaves nothing of a
//!   variance that is small beside its mean, and leaves rounding errors where there is none.
//! - **How.** Mean and sum of squares are corrected number by number (West, 1979), in their order,
//!   so that the same numbers give the same bits. Numbers that are all alike have exactly 0.

/// Numbers that count for more or less.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Spread {
    weight: f64,
    mean: f64,
    squares: f64,
}

impl Spread {
    /// Adds a number that counts `weight` times.
    pub(super) fn add(&mut self, number: f64, weight: f64) {
        if weight > 0.0 {
            self.weight += weight;
            let off = number - self.mean;
            self.mean += off * (weight / self.weight);
            self.squares += weight * off * (number - self.mean);
        }
    }

    /// Sum of the squares of what is between each number and their mean.
    pub(super) fn squares(&self) -> f64 {
        self.squares
    }
}
