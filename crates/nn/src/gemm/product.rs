//! Unrounded products of each number type.
//!
//! - **How.** The `gemm` library computes them in f32; of its crates, only those for f32 are
//!   compiled. Plain loops compute them in f64.

use gemm_common::Parallelism;
use gemm_f32::gemm::f32::get_gemm_fn;

use super::operand::Operand;
use crate::matrix::{MatrixMut, Write};

/// A number type whose matrices can be multiplied.
pub trait Product: Sized {
    /// `target = left × right`, or adds that to `target`. NN-I1 holds, and no dimension is 0.
    fn product(
        target: &mut MatrixMut<'_, Self>,
        write: Write,
        left: Operand<'_, Self>,
        right: Operand<'_, Self>,
    );
}

/// Products for training, by the library.
impl Product for f32 {
    #[expect(unsafe_code, reason = "the matrix library takes pointers and strides")]
    fn product(
        target: &mut MatrixMut<'_, Self>,
        write: Write,
        left: Operand<'_, Self>,
        right: Operand<'_, Self>,
    ) {
        let (m, n, stride) = (target.rows(), target.columns(), target.stride());
        assert_eq!((left.rows, right.rows, right.columns), (m, left.columns, n), "NN-I1");
        assert!((m - 1) * stride + n - 1 < target.data().len(), "NN-I1");
        left.check();
        right.check();
        // The library prefers targets whose columns are contiguous: it gets the transposed product,
        // unless rows are single lanes.
        let (left, right, m, n, row_stride, column_stride) = if stride > 1 {
            (right.transpose(), left.transpose(), n, m, 1, stride)
        } else {
            (left, right, m, n, stride, 1)
        };
        // SAFETY: by NN-I1 (the checks above), every index i * row_stride + j * column_stride of
        // the three matrices is in its slice. The target is borrowed for writing, so it overlaps
        // neither operand, and its rows don't overlap each other.
        unsafe {
            get_gemm_fn()(
                m,
                n,
                left.columns,
                target.data_mut().as_mut_ptr(),
                column_stride as isize,
                row_stride as isize,
                write == Write::Accumulate,
                left.data.as_ptr(),
                left.column_stride as isize,
                left.row_stride as isize,
                right.data.as_ptr(),
                right.column_stride as isize,
                right.row_stride as isize,
                1.0,
                1.0,
                false,
                false,
                false,
                Parallelism::None,
            );
        }
    }
}

/// Products for checking gradients, by plain loops.
impl Product for f64 {
    fn product(
        target: &mut MatrixMut<'_, Self>,
        write: Write,
        left: Operand<'_, Self>,
        right: Operand<'_, Self>,
    ) {
        for row in 0..target.rows() {
            for (column, sum) in target.row(row).iter_mut().enumerate() {
                let terms = (0..left.columns).map(|k| left.at(row, k) * right.at(k, column));
                let product: Self = terms.sum();
                *sum = if write == Write::Accumulate { *sum + product } else { product };
            }
        }
    }
}
