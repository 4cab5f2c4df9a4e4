//! Matrix products, on top of the `gemm` crate: the one place of this crate with unsafe code.
//!
//! Invariants
//! M1 every element that the library reaches lies in the slice it was given with; checked here by
//!    the dimensions, before the call.
//! M2 an element's sum runs over the inner dimension in pieces of at most [`DEPTH_MAX`], in order.
//!    The library cuts longer sums by the size of the processor's caches, which must not show.

use gemm::{Parallelism, gemm};

use crate::layer::Write;
use crate::{Matrix, MatrixMut, Scalar};

/// Longest piece of a sum that the library takes without cutting it by itself.
const DEPTH_MAX: usize = 512;

/// Lanes by which the library may pad a side of a packed operand.
const PADDING: usize = 64;

/// Most bytes of second-level cache for which the library keeps a buffer per thread.
const CACHE_BYTES_MAX: usize = 4 << 20;

/// Most bytes that the library takes on a thread for products with no side longer than `side`:
/// both operands of a piece, and its buffer of the size of a cache.
pub(crate) fn packing_bytes<T>(side: usize) -> usize {
    2 * DEPTH_MAX * (side + PADDING) * size_of::<T>() + CACHE_BYTES_MAX
}

/// An operand: a matrix or its transpose.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operand<'a, T> {
    data: &'a [T],
    rows: usize,
    columns: usize,
    row_stride: usize,
    column_stride: usize,
}

/// The matrix itself as an operand.
pub(crate) fn plain<T>(matrix: Matrix<'_, T>) -> Operand<'_, T> {
    Operand {
        data: matrix.data(),
        rows: matrix.rows(),
        columns: matrix.columns(),
        row_stride: matrix.stride(),
        column_stride: 1,
    }
}

/// The transpose of the matrix as an operand.
pub(crate) fn transposed<T>(matrix: Matrix<'_, T>) -> Operand<'_, T> {
    Operand {
        data: matrix.data(),
        rows: matrix.columns(),
        columns: matrix.rows(),
        row_stride: 1,
        column_stride: matrix.stride(),
    }
}

impl<T> Operand<'_, T> {
    /// M1: the farthest element of a matrix that is not empty lies inside the slice.
    fn check(&self) {
        assert!(self.rows > 0 && self.columns > 0, "an operand that is read has elements");
        let last = (self.rows - 1) * self.row_stride + (self.columns - 1) * self.column_stride;
        assert!(last < self.data.len(), "lane {last} of an operand of {}", self.data.len());
    }
}

/// `target = left × right`, or that added to what `target` holds.
pub(crate) fn multiply<T: Scalar>(
    mut target: MatrixMut<'_, T>,
    write: Write,
    left: Operand<'_, T>,
    right: Operand<'_, T>,
) {
    let (m, n, depth) = (target.rows(), target.columns(), left.columns);
    assert_eq!((left.rows, right.rows, right.columns), (m, depth, n), "shapes of a product");
    if m == 0 || n == 0 {
        return;
    }
    if depth == 0 {
        if write == Write::Overwrite {
            (0..m).for_each(|row| target.row(row).fill(T::ZERO));
        }
        return;
    }
    left.check();
    right.check();
    for start in (0..depth).step_by(DEPTH_MAX) {
        let end = depth.min(start + DEPTH_MAX);
        let read = write == Write::Accumulate || start > 0;
        multiply_piece(&mut target, read, left, right, start..end);
    }
}

/// Part of a product: the terms `piece` of every sum, after what `target` holds where `read`.
#[expect(unsafe_code, reason = "the matrix library takes pointers and strides")]
fn multiply_piece<T: Scalar>(
    target: &mut MatrixMut<'_, T>,
    read: bool,
    left: Operand<'_, T>,
    right: Operand<'_, T>,
    piece: std::ops::Range<usize>,
) {
    let (m, n, stride) = (target.rows(), target.columns(), target.stride());
    let last = (m - 1) * stride + n - 1;
    assert!(last < target.data().len() && piece.end <= left.columns, "M1");
    let left_data = &left.data[piece.start * left.column_stride..];
    let right_data = &right.data[piece.start * right.row_stride..];
    // SAFETY: by M1 (`check` in `multiply`, the assertion above) every index i * row_stride +
    // j * column_stride of the three matrices, the operands restricted to `piece`, lies in its
    // slice. The target is borrowed for writing, so it overlaps neither operand, and its rows do
    // not overlap each other. T is f32 or f64 (`Scalar` is sealed), which the library supports.
    unsafe {
        gemm(
            m,
            n,
            piece.len(),
            target.data_mut().as_mut_ptr(),
            1,
            stride as isize,
            read,
            left_data.as_ptr(),
            left.column_stride as isize,
            left.row_stride as isize,
            right_data.as_ptr(),
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
    use super::*;
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
        for (m, n, depth) in [(1, 1, 1), (3, 5, 2), (7, 1, 9), (1, 6, 4), (20, 17, 1100), (4, 4, 0)]
        {
            let (a, b) = (numbers(b"a", m * (depth + 2)), numbers(b"b", n * (depth + 1)));
            let left = plain(Matrix::new(&a, m, depth, depth + 2));
            let right = transposed(Matrix::new(&b, n, depth, depth + 1));
            let before = numbers(b"c", m * (n + 3));
            for write in [Write::Overwrite, Write::Accumulate] {
                let mut c = before.clone();
                multiply(MatrixMut::new(&mut c, m, n, n + 3), write, left, right);
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
        let mut c = [7.0f32; 4];
        let (empty, b) = (Matrix::packed(&[], 0, 3), [1.0f32; 12]);
        let right = transposed(Matrix::packed(&b, 4, 3));
        multiply(MatrixMut::packed(&mut c, 0, 4), Write::Overwrite, plain(empty), right);
        assert_eq!(c, [7.0; 4]);
    }
}
