//! Matrix products: the interface through which layers multiply, and the only part of this crate
//! with unsafe code.
//!
//! ```text
//! layer ─► Gemm::multiply ─► F32    the `gemm` library (f64: plain loops)
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
//!   kernel, as f32 products depend on the instruction set. [`bf16_kernel`] returns its name.
//!
//! - **Invariants.**
//!   - NN-I1: every element that a kernel accesses is inside the slice it was given; checked here
//!     against the dimensions, before the call.
//!   - NN-I2: an element's sum over the inner dimension runs in order, in pieces of at most
//!     [`DEPTH_MAX`](tile::DEPTH_MAX). The library splits longer sums depending on the sizes of the
//!     processor's caches, which must not affect the bits.

mod bf16;
mod kernel;
mod library;
mod multiplier;
mod operand;
mod packed;
mod product;
mod scalar;
mod tile;

pub use bf16::{Bf16Kernel, bf16_kernel};
pub(crate) use kernel::{Kernel, Scratch};
pub(crate) use library::F32;
pub use multiplier::{Multiplier, Side};
pub(crate) use operand::{Operand, plain, transposed};
pub(crate) use packed::Packed;
pub use scalar::Scalar;

use crate::matrix::{MatrixMut, Write};

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
