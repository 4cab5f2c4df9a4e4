//! The spread of numbers: the sum of squared differences from their mean.
//!
//! - **Why.** Subtracting the square of a sum from a sum of squares loses a variance that is small
//!   relative to the mean, and leaves rounding errors if there is none.
//! - **How.** Mean and sum of squares are updated number by number (West, 1979), in order, so that
//!   the same numbers give the same bits. Equal numbers give exactly 0.

/// Weighted numbers.
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

    /// Sum of squared differences from the mean.
    pub(super) fn squares(&self) -> f64 {
        self.squares
    }
}
