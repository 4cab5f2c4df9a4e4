//! The kernel for every machine: rounds operands to bf16, stores them as f32, and uses the library.
//!
//! The product of two bf16 numbers is exact in f32, so results differ from the hardware kernels
//! only by the order of sums. Cost in addition to the f32 product: reading and writing each operand
//! once.

use pulp::{Arch, Simd, WithSimd};

use super::round::rounded;
use crate::gemm::kernel::{Kernel, Scratch};
use crate::gemm::library::F32;
use crate::gemm::operand::{Operand, pieces};
use crate::gemm::product::Product;
use crate::gemm::tile::DEPTH_MAX;
use crate::matrix::{MatrixMut, Write};

#[derive(Debug)]
pub(super) struct Portable;

impl Kernel<f32> for Portable {
    fn multiply(
        &self,
        mut target: MatrixMut<'_, f32>,
        write: Write,
        left: Operand<'_, f32>,
        right: Operand<'_, f32>,
        scratch: &mut Scratch,
    ) {
        let [left_lanes, right_lanes] = &mut scratch.lanes;
        for (write, left, right) in pieces(write, left, right) {
            let (left, right) = (copy(left, left_lanes), copy(right, right_lanes));
            f32::product(&mut target, write, left, right.transpose());
        }
    }

    /// Both operands of a piece, and the library's buffers.
    fn packing_bytes(&self, side: usize) -> usize {
        2 * DEPTH_MAX * side * size_of::<f32>() + Kernel::<f32>::packing_bytes(&F32, side)
    }
}

/// Rounds an operand into `lanes`, in the same order but without gaps.
fn copy<'a>(operand: Operand<'_, f32>, lanes: &'a mut Vec<f32>) -> Operand<'a, f32> {
    let by_rows = operand.column_stride == 1;
    let lines = if by_rows { operand } else { operand.transpose() };
    assert_eq!(lines.column_stride, 1, "an operand is a matrix or the transpose of one");
    let (rows, columns) = (lines.rows, lines.columns);
    if lanes.len() < rows * columns {
        lanes.resize(rows * columns, 0.0);
    }
    let data = &mut lanes[..rows * columns];
    Arch::new().dispatch(Round { lines, data });
    let copy = Operand { data, rows, columns, row_stride: columns, column_stride: 1, packed: None };
    if by_rows { copy } else { copy.transpose() }
}

struct Round<'a> {
    lines: Operand<'a, f32>, // lines without gaps
    data: &'a mut [f32],     // (rows, columns)
}

impl WithSimd for Round<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Operand { data, columns, row_stride, .. } = self.lines;
        for (row, line) in self.data.chunks_exact_mut(columns).enumerate() {
            let source = &data[row * row_stride..][..columns];
            line.iter_mut().zip(source).for_each(|(to, from)| *to = rounded(*from));
        }
    }
}
