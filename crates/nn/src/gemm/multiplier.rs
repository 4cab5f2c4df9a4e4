//! Products for callers that have matrices but no graph.

use super::kernel::Scratch;
use super::operand::{Operand, plain, transposed};
use super::{Gemm, Precision};
use crate::matrix::{Matrix, MatrixMut, Write};

/// Multiplies like the layers of a graph, with the same bits for the same operands.
#[derive(Debug, Default)]
pub struct Multiplier {
    scratch: Scratch,
}

/// Operand of a product.
#[derive(Clone, Copy, Debug)]
pub enum Side<'a> {
    /// The matrix.
    Plain(Matrix<'a, f32>),
    /// The transpose of the matrix.
    Transposed(Matrix<'a, f32>),
}

impl<'a> Side<'a> {
    fn operand(self) -> Operand<'a, f32> {
        match self {
            Self::Plain(matrix) => plain(matrix),
            Self::Transposed(matrix) => transposed(matrix),
        }
    }
}

impl Multiplier {
    /// Computes `target = left × right`, or adds the product to `target`.
    ///
    /// # Panics
    /// If shapes don't match.
    pub fn multiply(
        &mut self,
        precision: Precision,
        target: MatrixMut<'_, f32>,
        write: Write,
        left: Side<'_>,
        right: Side<'_>,
    ) {
        let mut gemm = Gemm::new(precision.kernel(), &mut self.scratch);
        gemm.multiply(target, write, left.operand(), right.operand());
    }
}
