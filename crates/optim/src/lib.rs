//! Optimizers as pure arithmetic on rows: how a gradient changes weights, wherever they are stored.
//!
//! The three rules of [`Rule`] apply to a row of an embedding table ([`RowOptimizer`], with its
//! state in the row) and to the flat dense parameters ([`DenseOptimizer`], with one step count for
//! all). [`RowRule`] adds row-wise Adagrad, for rows only. Any row optimizer may have a [`Decay`].
//! All use IEEE operations in a fixed order without fusion, so neither the width of vectors nor the
//! number of threads affects the bits.
//!
//! Weights of a row may be stored in 16 bits ([`Storage`]); the arithmetic is in f32 regardless.

#![forbid(unsafe_code)]

mod adagrad;
mod adam;
mod decay;
mod dense;
mod error;
mod penalty;
mod row;
mod row_rule;
mod row_wise_adagrad;
mod rule;
mod sgd;
mod storage;
#[cfg(test)]
mod tests;

pub use adagrad::Adagrad;
pub use adam::Adam;
pub use decay::Decay;
pub use dense::{DenseOptimizer, DensePart, DenseState, DenseStep, StepNumbers};
pub use error::OptimError;
pub use row::{RowOptimizer, Stored};
pub use row_rule::{Lanes, RowRule};
pub use rule::Rule;
pub use sgd::Sgd;
pub use storage::{Storage, Weights};
