//! The kernel without rounding.

use super::kernel::{Kernel, Scratch};
use super::operand::{Operand, pieces};
use super::scalar::Scalar;
use super::tile::DEPTH_MAX;
use crate::matrix::{MatrixMut, Write};

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

#[cfg(test)]
mod tests {
    use super::super::{Gemm, Precision, plain, transposed};
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

    /// Layers rely on this to multiply fewer rows than a device, which always multiplies the most.
    /// Results of up to 256 values aren't compared: the library may sum them in a different order.
    #[test]
    fn zeros_below_change_no_bits() {
        for precision in Precision::ALL {
            zeros_below_change_nothing(&mut Gemm::new(precision.kernel(), &mut Scratch::default()));
        }
    }

    fn zeros_below_change_nothing(gemm: &mut Gemm<'_, f32>) {
        let most = 256;
        let sizes = [1, 2, 3, 8, 16, 17, 31, 40, 128];
        for (n, depth, rows) in sizes.into_iter().flat_map(|n| {
            let depths = [2, 4, 14, 20, 64, 128].into_iter();
            depths.flat_map(move |depth| [16, 32, 96, 144, 240].map(|rows| (n, depth, rows)))
        }) {
            let numbers = |name: &[u8], count| numbers::<f32>(name, count);
            let (mut a, mut d) = (numbers(b"a", most * depth), numbers(b"d", most * n));
            a[rows * depth..].fill(0.0);
            d[rows * n..].fill(0.0);
            let b = numbers(b"b", n * depth);
            let b = Matrix::packed(&b, n, depth);
            let mut products = |all: usize| {
                let (a, d) = (Matrix::packed(&a, all, depth), Matrix::packed(&d, all, n));
                let mut to_n = vec![0.0; all * n];
                let to = MatrixMut::packed(&mut to_n, all, n);
                gemm.multiply(to, Write::Overwrite, plain(a), transposed(b));
                let mut to_depth = vec![0.0; all * depth];
                let to = MatrixMut::packed(&mut to_depth, all, depth);
                gemm.multiply(to, Write::Overwrite, plain(d), plain(b));
                let mut sums = numbers(b"c", n * depth);
                let to = MatrixMut::packed(&mut sums, n, depth);
                gemm.multiply(to, Write::Accumulate, transposed(d), plain(a));
                to_n.truncate(if rows * n > 256 { rows * n } else { 0 });
                to_depth.truncate(rows * depth);
                [to_n, to_depth, sums]
                    .map(|of| of.into_iter().map(f32::to_bits).collect::<Vec<_>>())
            };
            assert!(products(most) == products(rows), "{rows} x {n}, {depth}");
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
