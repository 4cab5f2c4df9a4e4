//! Matrix products: the interface through which layers multiply, and the only part of this crate
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
//! - **Rounding.** The two operands of a product are rounded to the nearest bf16, ties to even, for
//!   each product; packed weights once for many products. Sums are f32, and so is everything stored
//!   between products: parameters, gradients, optimizer state, activations.
//! - **Bits.** A kernel gives the same bits for the same operands on any thread. Kernels differ in
//!   the order of sums (and AMX flushes numbers below 2^-126 to zero), so bits depend on the
//!   kernel, as those of f32 depend on the instruction set. [`bf16_kernel`] returns its name.
//!
//! - **Invariants.**
//! - M1 every element that a kernel accesses is inside the slice it was given; checked here against
//!   the dimensions, before the call.
//! - M2 an element's sum over the inner dimension runs in order, in pieces of at most
//!   [`DEPTH_MAX`]. The library splits longer sums depending on the sizes of the processor's
//!   caches, which must not affect the bits.

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

/// Longest sum that the library never splits.
const DEPTH_MAX: usize = 512;

/// Number type of the operands of products.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// Unrounded.
    #[default]
    F32,
    /// Rounded to bf16, f32's upper half with 8 bits of significance; sums remain f32.
    Bf16,
}

impl Precision {
    /// All precisions.
    pub const ALL: [Self; 2] = [Self::F32, Self::Bf16];

    /// Name in settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
        }
    }

    /// Kernel that multiplies in this precision.
    pub(crate) fn kernel(self) -> &'static dyn Kernel<f32> {
        match self {
            Self::F32 => &F32,
            Self::Bf16 => bf16::kernel(),
        }
    }
}

/// Computes products.
pub(crate) trait Kernel<T>: Debug + Send + Sync {
    /// `target = left × right`, or adds that to `target`.
    ///
    /// The operands were checked: M1 holds, and no dimension is 0.
    fn multiply(
        &self,
        target: MatrixMut<'_, T>,
        write: Write,
        left: Operand<'_, T>,
        right: Operand<'_, T>,
        scratch: &mut Scratch,
    );

    /// Most bytes that products with sides of at most `side` take per thread, including the
    /// [`Scratch`].
    fn packing_bytes(&self, side: usize) -> usize;

    /// Tiles of a prepacked right operand with `depth` rows and `columns` columns; 0 if the kernel
    /// reads it unpacked.
    fn packed_tiles(&self, _depth: usize, _columns: usize) -> usize {
        0
    }

    /// Packs a right operand into that many tiles, at least one.
    fn pack(&self, _right: Operand<'_, T>, _packed: &mut Packed) {}
}

/// Buffers for packed operands. They grow to the largest product; no product reads what another one
/// left there.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    lanes: [Vec<f32>; 2],
    tiles: [HugeSlice<bf16::Tile>; 2],
}

/// Multiplies matrices for a layer.
#[derive(Debug)]
pub struct Gemm<'a, T> {
    kernel: &'a dyn Kernel<T>,
    scratch: &'a mut Scratch,
}

impl<'a, T: Scalar> Gemm<'a, T> {
    pub(crate) fn new(kernel: &'a dyn Kernel<T>, scratch: &'a mut Scratch) -> Self {
        Self { kernel, scratch }
    }

    /// `target = left × right`, or adds that to `target`.
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

/// The pieces of a product (M2), in order: whether to read the target, the columns of `left`, and
/// the rows of `right`, as columns of its transpose.
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

    fn transpose(self) -> Self {
        Self {
            rows: self.columns,
            columns: self.rows,
            row_stride: self.column_stride,
            column_stride: self.row_stride,
            ..self
        }
    }

    /// These columns of the operand, at least one.
    fn select(self, columns: std::ops::Range<usize>) -> Self {
        assert!(!columns.is_empty() && columns.end <= self.columns, "columns of an operand");
        let data = &self.data[columns.start * self.column_stride..];
        Self { data, columns: columns.len(), ..self }
    }

    /// M1: the last element of a nonempty matrix is inside the slice.
    fn check(&self) {
        assert!(self.rows > 0 && self.columns > 0, "an operand that is read has elements");
        let last = (self.rows - 1) * self.row_stride + (self.columns - 1) * self.column_stride;
        assert!(last < self.data.len(), "lane {last} of an operand of {}", self.data.len());
    }
}
