//! A right operand that was rounded and packed before its products: weights, once for all blocks.

use stepwell_base::huge::HugeSlice;

use super::DEPTH_MAX;
use super::bf16::{Tile, strips};

/// Tiles along the depth of a whole piece.
const PIECE: usize = DEPTH_MAX / super::bf16::DEPTH;

/// The tiles of a right operand, piece by piece of the depth (M2); empty where the kernel reads it
/// as it lies.
#[derive(Debug)]
pub(crate) struct Packed {
    tiles: HugeSlice<Tile>, // (pieces, strips, depth of a piece)
    columns: usize,
}

impl Packed {
    /// Room for `tiles` tiles of `columns` columns.
    pub(crate) fn new(tiles: usize, columns: usize) -> Self {
        Self { tiles: HugeSlice::rounded_up(tiles), columns }
    }

    /// Bytes that packing writes into so many tiles.
    pub(crate) fn bytes_written(tiles: usize) -> usize {
        tiles * size_of::<Tile>()
    }

    /// Bytes of memory of so many tiles.
    pub(crate) fn bytes(tiles: usize) -> usize {
        HugeSlice::<Tile>::bytes_rounded_up(tiles)
    }

    /// The tiles of piece `index`, which is `depth` tiles deep.
    pub(super) fn piece_mut(&mut self, index: usize, depth: usize) -> &mut [Tile] {
        let strips = strips(self.columns);
        &mut self.tiles[index * strips * PIECE..][..strips * depth]
    }

    /// Those of its first `columns` columns.
    pub(super) fn piece(&self, index: usize, columns: usize, depth: usize) -> &[Tile] {
        assert!(columns <= self.columns, "{columns} columns of {} were packed", self.columns);
        &self.tiles[index * strips(self.columns) * PIECE..][..strips(columns) * depth]
    }
}
