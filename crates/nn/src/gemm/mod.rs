//! Matrix products: the one seam through which layers multiply, and the one place of this crate
//! with unsafe code.
//!
//! ```text
//! layer ─► Gemm::multiply ─► F32    library: the `gemm` crate, f32 or f64
//!                            Bf16   operands rounded to bf16, products summed in f32
//!                                    ├─ amx          tiles of 16 x 16 sums in hardware
//!                                    ├─ avx512_bf16  dots of 16 lanes in hardware
//!                                    └─ portable     rounded operands through the library
//! ```
//!
//! - **What is rounded.** The two operands of a product, to the nearest bf16, ties to even, for
//!   each product; weights once for many. Sums are f32; so is all that lies in memory between
//!   products: parameters, gradients, optimizer state, activations.
//! - **Bits.** A kernel gives the same bits for the same operands, whatever thread computes. Two
//!   kernels differ in the order of their sums (and AMX takes numbers below 2^-126 for zero), so
//!   bits depend on the kernel as those of f32 do on the instruction set. [`bf16_kernel`] names it.
//!
//! - **Invariants.**
//!   - M1 every element that a kernel reaches lies in the slice it was given with; checked here by
//!     the dimensions, before the call.
//!   - M2 an element's sum runs over the inner dimension in pieces of at most [`DEPTH_MAX`], in
//!     order. The library cuts longer sums by the size of the processor's caches, which must not
//!     show.

mod bf16;
mod library;
mod multiplier;
mod packed;

use std::fmt::Debug;

use stepwell_base::huge::HugeSlice;

pub use bf16::{Bf16Kernel, bf16_kernel};
pub(crate) use library::F32;
pub use multiplier::{Multiplier, Side};
pub(crate) use packed::Packed;

use crate::layer::Write;
use crate::{Matrix, MatrixMut, Scalar};

/// Longest piece of a sum that the library takes without cutting it by itself.
const DEPTH_MAX: usize = 512;

/// Numbers in which the operands of products are multiplied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// As they are.
    #[default]
    F32,
    /// Rounded to bf16: the 8 bits of significance of f32's upper half; sums stay f32.
    Bf16,
}

impl Precision {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::F32, Self::Bf16];

    /// Its name in settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
        }
    }

    /// What multiplies in it.
    pub(crate) fn kernel(self) -> &'static dyn Kernel<f32> {
        match self {
            Self::F32 => &F32,
            Self::Bf16 => bf16::kernel(),
        }
    }
}

/// What computes products.
pub(crate) trait Kernel<T>: Debug + Send + Sync {
    /// `target = left × right`, or that added to what `target` holds.
    ///
    /// The operands were checked: M1 holds, no dimension is 0.
    fn multiply(
        &self,
        target: MatrixMut<'_, T>,
        write: Write,
        left: Operand<'_, T>,
        right: Operand<'_, T>,
        scratch: &mut Scratch,
    );

    /// Most bytes that it takes on a thread for products with no side longer than `side`, those
    /// of its [`Scratch`] included.
    fn packing_bytes(&self, side: usize) -> usize;

    /// Tiles of a right operand of `depth` rows and `columns` columns that is packed beforehand;
    /// none where the kernel reads it as it lies.
    fn packed_tiles(&self, _depth: usize, _columns: usize) -> usize {
        0
    }

    /// Packs a right operand into as many tiles, of which there are some.
    fn pack(&self, _right: Operand<'_, T>, _packed: &mut Packed) {}
}

/// Memory for operands as kernels want them. It grows to the largest product and stays; what one
/// product leaves there is never read by the next.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    lanes: [Vec<f32>; 2],
    tiles: [HugeSlice<bf16::Tile>; 2],
}

/// What a layer multiplies with.
#[derive(Debug)]
pub struct Gemm<'a, T> {
    kernel: &'a dyn Kernel<T>,
    scratch: &'a mut Scratch,
}

impl<'a, T: Scalar> Gemm<'a, T> {
    pub(crate) fn new(kernel: &'a dyn Kernel<T>, scratch: &'a mut Scratch) -> Self {
        Self { kernel, scratch }
    }

    /// `target = left × right`, or that added to what `target` holds.
    pub(crate) fn multiply(
        &mut self,
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
        self.kernel.multiply(target, write, left, right, self.scratch);
    }
}

/// The pieces of a product (M2), in order: whether the target's content is read, the columns of
/// `left`, and the rows of `right` as columns of its transpose.
fn pieces<'a, T: Copy>(
    write: Write,
    left: Operand<'a, T>,
    right: Operand<'a, T>,
) -> impl Iterator<Item = (bool, Operand<'a, T>, Operand<'a, T>)> {
    let (depth, right) = (left.columns, right.transpose());
    (0..depth).step_by(DEPTH_MAX).map(move |start| {
        let piece = start..depth.min(start + DEPTH_MAX);
        let read = write == Write::Accumulate || start > 0;
        (read, left.select(piece.clone()), right.select(piece))
    })
}

/// An operand: a matrix or its transpose.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operand<'a, T> {
    data: &'a [T],
    rows: usize,
    columns: usize,
    row_stride: usize,
    column_stride: usize,
    packed: Option<&'a Packed>,
}

/// The matrix itself as an operand.
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
    /// The same as a right operand that was packed, perhaps with more columns behind these.
    pub(crate) fn with_packed(self, packed: Option<&'a Packed>) -> Self {
        Self { packed, ..self }
    }

    fn transpose(self) -> Self {
        Self {
            rows: self.columns,
            columns: self.rows,
            row_stride: self.column_stride,
            column_stride: self.row_stride,
            ..self
        }
    }

    /// Some of the columns, at least one.
    fn select(self, columns: std::ops::Range<usize>) -> Self {
        assert!(!columns.is_empty() && columns.end <= self.columns, "columns of an operand");
        let data = &self.data[columns.start * self.column_stride..];
        Self { data, columns: columns.len(), ..self }
    }

    /// M1: the farthest element of a matrix that is not empty lies inside the slice.
    fn check(&self) {
        assert!(self.rows > 0 && self.columns > 0, "an operand that is read has elements");
        let last = (self.rows - 1) * self.row_stride + (self.columns - 1) * self.column_stride;
        assert!(last < self.data.len(), "lane {last} of an operand of {}", self.data.len());
    }
}
