//! The interface of kernels, which compute products.

use std::fmt::Debug;

use stepwell_base::huge::HugeSlice;

use super::operand::Operand;
use super::packed::Packed;
use super::tile::Tile;
use crate::matrix::{MatrixMut, Write};

/// Computes products.
pub(crate) trait Kernel<T>: Debug + Send + Sync {
    /// `target = left × right`, or adds that to `target`.
    ///
    /// The operands were checked: NN-I1 holds, and no dimension is 0.
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
    pub(super) lanes: [Vec<f32>; 2],
    pub(super) tiles: [HugeSlice<Tile>; 2],
}
