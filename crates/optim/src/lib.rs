//! Optimizers as pure arithmetic on rows: how a gradient changes weights, wherever they are stored.
//!
//! The rules of [`Rule`] apply to a row of an embedding table ([`RowOptimizer`], with its state in
//! the row) and to the flat dense parameters ([`DenseOptimizer`], with one step count for all).
//! [`RowRule`] adds some for rows only. Any row optimizer may have a [`Regularization`].
//! All use IEEE operations in a fixed order without fusion, so neither the width of vectors nor the
//! number of threads affects the bits.
//!
//! Weights of a row may be stored in 16 bits ([`Storage`]); the arithmetic is in f32 regardless.

#![forbid(unsafe_code)]

mod adagrad;
mod adam;
mod average;
mod cf_sgd;
mod dense;
mod error;
mod ftrl;
mod momentum;
mod penalty;
mod regularization;
mod row;
mod row_rule;
mod row_sums;
mod row_wise_adagrad;
mod row_wise_adam;
mod rule;
mod schedule;
mod sgd;
mod storage;
mod subnormal;
#[cfg(test)]
mod tests;

pub use adagrad::Adagrad;
pub use adam::Adam;
pub use average::{average, gain};
pub use dense::{DenseOptimizer, DensePart, DenseState, DenseStep, StepNumbers};
pub use error::OptimError;
pub use ftrl::Ftrl;
pub use momentum::Momentum;
pub use regularization::Regularization;
pub use row::{RowOptimizer, Stored};
pub use row_rule::{Lanes, RowRule, StateVector};
pub use row_sums::square_sum_of;
pub use rule::Rule;
pub use schedule::{Course, Schedule};
pub use sgd::Sgd;
pub use storage::{Storage, Weights};
