//! Operands of products.

use super::packed::Packed;
use super::tile::DEPTH_MAX;
use crate::matrix::{Matrix, Write};

/// An operand: a matrix or its transpose.
#[derive(Clone, Copy, Debug)]
pub struct Operand<'a, T> {
    pub(super) data: &'a [T],
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) row_stride: usize,
    pub(super) column_stride: usize,
    pub(super) packed: Option<&'a Packed>,
}

/// The matrix as an operand.
pub(crate) fn plain<T>(matrix: Matrix<'_, T>) -> Operand<'_, T> {
    Operand {
        data: matrix.data(),
        rows: matrix.rows(),
        columns: matrix.columns(),
        row_stride: matrix.stride(),
        column_stride: 1,
        packed: None,
    }
}

/// The transpose of the matrix as an operand.
pub(crate) fn transposed<T>(matrix: Matrix<'_, T>) -> Operand<'_, T> {
    plain(matrix).transpose()
}

impl<'a, T> Operand<'a, T> {
    /// The operand with its prepacked form, which may have additional columns at its end.
    pub(crate) fn with_packed(self, packed: Option<&'a Packed>) -> Self {
        Self { packed, ..self }
    }

    pub(super) fn transpose(self) -> Self {
        Self {
            rows: self.columns,
            columns: self.rows,
            row_stride: self.column_stride,
            column_stride: self.row_stride,
            ..self
        }
    }

    /// The operand's `columns`, at least one.
    fn select(self, columns: std::ops::Range<usize>) -> Self {
        assert!(!columns.is_empty() && columns.end <= self.columns, "columns of an operand");
        let data = &self.data[columns.start * self.column_stride..];
        Self { data, columns: columns.len(), ..self }
    }

    /// An element.
    pub(super) fn at(&self, row: usize, column: usize) -> T
    where
        T: Copy,
    {
        self.data[row * self.row_stride + column * self.column_stride]
    }

    /// The last element of a nonempty matrix is inside the slice (NN-I1).
    pub(super) fn check(&self) {
        assert!(self.rows > 0 && self.columns > 0, "an operand that is read has elements");
        let last = (self.rows - 1) * self.row_stride + (self.columns - 1) * self.column_stride;
        assert!(last < self.data.len(), "lane {last} of an operand of {}", self.data.len());
    }
}

/// The pieces of a product (NN-I2), in order: what to do with the target, the columns of `left`,
/// and the rows of `right`, as columns of its transpose.
pub(super) fn pieces<'a, T: Copy>(
    write: Write,
    left: Operand<'a, T>,
    right: Operand<'a, T>,
) -> impl Iterator<Item = (Write, Operand<'a, T>, Operand<'a, T>)> {
    let (depth, right) = (left.columns, right.transpose());
    (0..depth).step_by(DEPTH_MAX).map(move |start| {
        let piece = start..depth.min(start + DEPTH_MAX);
        let write = if start > 0 { Write::Accumulate } else { write };
        (write, left.select(piece.clone()), right.select(piece))
    })
}
