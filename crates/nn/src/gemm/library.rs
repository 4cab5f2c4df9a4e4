//! Unrounded products. Those of f32 are computed by the `gemm` library, of which only the crates
//! for f32 are compiled.

use gemm_common::Parallelism;
use gemm_f32::gemm::f32::get_gemm_fn;

use super::kernel::{Kernel, Scratch};
use super::operand::{Operand, pieces};
use super::tile::DEPTH_MAX;
use crate::matrix::{MatrixMut, Write};
use crate::scalar::Scalar;

/// Most lanes by which the library pads a side of a packed operand.
const PADDING: usize = 64;

/// Largest second-level cache for which the library allocates a buffer per thread, in bytes.
const CACHE_BYTES_MAX: usize = 4 << 20;

/// The kernel without rounding.
#[derive(Debug)]
pub(crate) struct F32;

impl<T: Scalar> Kernel<T> for F32 {
    fn multiply(
        &self,
        mut target: MatrixMut<'_, T>,
        write: Write,
        left: Operand<'_, T>,
        right: Operand<'_, T>,
        _: &mut Scratch,
    ) {
        for (write, left, right) in pieces(write, left, right) {
            T::product(&mut target, write, left, right.transpose());
        }
    }

    /// Both operands of a piece, and the library's cache-sized buffer.
    fn packing_bytes(&self, side: usize) -> usize {
        2 * DEPTH_MAX * (side + PADDING) * size_of::<T>() + CACHE_BYTES_MAX
    }
}

/// A number type whose matrices can be multiplied.
pub trait Product: Sized {
    /// `target = left × right`, or adds that to `target`. M1 holds, and no dimension is 0.
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
        assert_eq!((left.rows, right.rows, right.columns), (m, left.columns, n), "M1");
        assert!((m - 1) * stride + n - 1 < target.data().len(), "M1");
        left.check();
        right.check();
        // The library prefers targets whose columns are contiguous: it gets the transposed product,
        // unless rows are single lanes.
        let (left, right, m, n, row_stride, column_stride) = if stride > 1 {
            (right.transpose(), left.transpose(), n, m, 1, stride)
        } else {
            (left, right, m, n, stride, 1)
        };
        // SAFETY: by M1 (the checks above), every index i * row_stride + j * column_stride of the
        // three matrices is in its slice. The target is borrowed for writing, so it overlaps
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

#[cfg(test)]
mod tests {
    use super::super::{Gemm, plain, transposed};
    use super::*;
    use crate::Matrix;
    use stepwell_base::random::Stream;

    fn numbers<T: Scalar>(name: &[u8], count: usize) -> Vec<T> {
        let mut stream = Stream::named(1, name);
        (0..count).map(|_| T::from_f64(stream.next_f64() - 0.5)).collect()
    }

    #[test]
    fn products_equal_three_loops() {
        equal_three_loops::<f32>(1e-4);
        equal_three_loops::<f64>(1e-12);
    }

    fn equal_three_loops<T: Scalar>(tolerance: f64) {
        let mut scratch = Scratch::default();
        let mut gemm = Gemm::new(&F32, &mut scratch);
        for (m, n, depth) in [(1, 1, 1), (3, 5, 2), (7, 1, 9), (1, 6, 4), (20, 17, 1100), (4, 4, 0)]
        {
            let (a, b) = (numbers::<T>(b"a", m * (depth + 2)), numbers::<T>(b"b", n * (depth + 1)));
            let left = plain(Matrix::new(&a, m, depth, depth + 2));
            let right = transposed(Matrix::new(&b, n, depth, depth + 1));
            let before = numbers::<T>(b"c", m * (n + 3));
            for write in [Write::Overwrite, Write::Accumulate] {
                let mut c = before.clone();
                gemm.multiply(MatrixMut::new(&mut c, m, n, n + 3), write, left, right);
                for i in 0..m * (n + 3) {
                    let (row, column) = (i / (n + 3), i % (n + 3));
                    let keep = column >= n || write == Write::Accumulate;
                    let mut sum = if keep { before[i].to_f64() } else { 0.0 };
                    for k in (0..depth).filter(|_| column < n) {
                        sum += left.at(row, k).to_f64() * right.at(k, column).to_f64();
                    }
                    let error = (c[i].to_f64() - sum).abs();
                    assert!(error < tolerance, "{m} {n} {depth} {write:?}: {error}");
                }
            }
        }
    }

    #[test]
    fn empty_products_touch_nothing() {
        let mut scratch = Scratch::default();
        let mut gemm = Gemm::new(&F32, &mut scratch);
        let mut c = [7.0f32; 4];
        let (empty, b) = (Matrix::packed(&[], 0, 3), [1.0f32; 12]);
        let right = transposed(Matrix::packed(&b, 4, 3));
        gemm.multiply(MatrixMut::packed(&mut c, 0, 4), Write::Overwrite, plain(empty), right);
        assert_eq!(c, [7.0; 4]);
    }
}
