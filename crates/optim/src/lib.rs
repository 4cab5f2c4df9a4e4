//! Optimizers as pure row arithmetic: what a gradient does to weights, wherever the weights live.
//!
//! The same three rules serve a row of an embedding table ([`RowOptimizer`], with its state in the
//! row itself) and the flat dense parameters ([`DenseOptimizer`], with one step count for all).
//! Every lane is computed by itself, with IEEE operations in a fixed order and none of them fused,
//! so neither the width of the vectors nor the number of threads shows in the bits.
//!
//! Weights of a row may lie in 16 bits ([`Storage`]); the arithmetic is in f32 all the same.

#![forbid(unsafe_code)]

mod adagrad;
mod adam;
mod dense;
mod error;
mod row;
mod rule;
mod sgd;
mod storage;
#[cfg(test)]
mod tests;

pub use adagrad::Adagrad;
pub use adam::Adam;
pub use dense::{DenseOptimizer, DensePart, DenseState, DenseStep, StepNumbers};
pub use error::OptimError;
pub use row::{RowOptimizer, Stored};
pub use rule::Rule;
pub use sgd::Sgd;
pub use storage::{Storage, Weights};
