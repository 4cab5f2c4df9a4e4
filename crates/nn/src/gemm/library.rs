//! Unrounded products, computed by the `gemm` crate.

use gemm::{Parallelism, gemm};

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
            multiply_piece(&mut target, write, left, right.transpose());
        }
    }

    /// Both operands of a piece, and the library's cache-sized buffer.
    fn packing_bytes(&self, side: usize) -> usize {
        2 * DEPTH_MAX * (side + PADDING) * size_of::<T>() + CACHE_BYTES_MAX
    }
}

/// `target = left × right`, or adds that to `target`.
#[expect(unsafe_code, reason = "the matrix library takes pointers and strides")]
pub(super) fn multiply_piece<T: Scalar>(
    target: &mut MatrixMut<'_, T>,
    write: Write,
    left: Operand<'_, T>,
    right: Operand<'_, T>,
) {
    let (m, n, stride) = (target.rows(), target.columns(), target.stride());
    assert_eq!((left.rows, right.rows, right.columns), (m, left.columns, n), "M1");
    assert!((m - 1) * stride + n - 1 < target.data().len(), "M1");
    left.check();
    right.check();
    // SAFETY: by M1 (the checks above), every index i * row_stride + j * column_stride of the three
    // matrices is in its slice. The target is borrowed for writing, so it overlaps neither operand,
    // and its rows don't overlap each other. T is f32 or f64 (`Scalar` is sealed), which the
    // library supports.
    unsafe {
        gemm(
            m,
            n,
            left.columns,
            target.data_mut().as_mut_ptr(),
            1,
            stride as isize,
            write == Write::Accumulate,
            left.data.as_ptr(),
            left.column_stride as isize,
            left.row_stride as isize,
            right.data.as_ptr(),
            right.column_stride as isize,
            right.row_stride as isize,
            T::ONE,
            T::ONE,
            false,
            false,
            false,
            Parallelism::None,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Gemm, plain, transposed};
    use super::*;
    use crate::Matrix;
    use stepwell_base::random::Stream;

    fn numbers(name: &[u8], count: usize) -> Vec<f64> {
        let mut stream = Stream::named(1, name);
        (0..count).map(|_| stream.next_f64() - 0.5).collect()
    }

    fn at(operand: &Operand<'_, f64>, row: usize, column: usize) -> f64 {
        operand.data[row * operand.row_stride + column * operand.column_stride]
    }

    #[test]
    fn products_equal_three_loops() {
        let mut scratch = Scratch::default();
        let mut gemm = Gemm::new(&F32, &mut scratch);
        for (m, n, depth) in [(1, 1, 1), (3, 5, 2), (7, 1, 9), (1, 6, 4), (20, 17, 1100), (4, 4, 0)]
        {
            let (a, b) = (numbers(b"a", m * (depth + 2)), numbers(b"b", n * (depth + 1)));
            let left = plain(Matrix::new(&a, m, depth, depth + 2));
            let right = transposed(Matrix::new(&b, n, depth, depth + 1));
            let before = numbers(b"c", m * (n + 3));
            for write in [Write::Overwrite, Write::Accumulate] {
                let mut c = before.clone();
                gemm.multiply(MatrixMut::new(&mut c, m, n, n + 3), write, left, right);
                for i in 0..m * (n + 3) {
                    let (row, column) = (i / (n + 3), i % (n + 3));
                    let keep = column >= n || write == Write::Accumulate;
                    let mut sum = if keep { before[i] } else { 0.0 };
                    if column < n {
                        sum += (0..depth)
                            .map(|k| at(&left, row, k) * at(&right, k, column))
                            .sum::<f64>();
                    }
                    assert!((c[i] - sum).abs() < 1e-12, "{m} {n} {depth} {write:?}");
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
