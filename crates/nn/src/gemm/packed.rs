//! A right operand that is rounded and packed before its products: weights, once for all blocks.

use stepwell_base::huge::HugeSlice;

use super::tile::{DEPTH, DEPTH_MAX, Tile, strips};

/// Tiles along the depth of a full piece.
const PIECE: usize = DEPTH_MAX / DEPTH;

/// Tiles of a right operand, by piece of the depth (NN-I2); empty if the kernel reads it unpacked.
#[derive(Debug)]
pub(crate) struct Packed {
    tiles: HugeSlice<Tile>, // (pieces, strips, depth of a piece)
    columns: usize,
}

impl Packed {
    /// Allocates `tiles` tiles for `columns` columns.
    pub(crate) fn new(tiles: usize, columns: usize) -> Self {
        Self { tiles: HugeSlice::rounded_up(tiles), columns }
    }

    /// Bytes written when packing `tiles` tiles.
    pub(crate) fn bytes_written(tiles: usize) -> usize {
        tiles * size_of::<Tile>()
    }

    /// Bytes allocated for `tiles` tiles.
    pub(crate) fn bytes(tiles: usize) -> usize {
        HugeSlice::<Tile>::bytes_rounded_up(tiles)
    }

    /// Tiles of piece `index`, which is `depth` tiles deep.
    pub(super) fn piece_mut(&mut self, index: usize, depth: usize) -> &mut [Tile] {
        let strips = strips(self.columns);
        &mut self.tiles[index * strips * PIECE..][..strips * depth]
    }

    /// Tiles of the piece's first `columns` columns.
    pub(super) fn piece(&self, index: usize, columns: usize, depth: usize) -> &[Tile] {
        assert!(columns <= self.columns, "{columns} columns of {} were packed", self.columns);
        &self.tiles[index * strips(self.columns) * PIECE..][..strips(columns) * depth]
    }
}
