//! Tiles: packed operands of bf16 kernels, in pieces of their depth.

use bytemuck::Zeroable;

/// Longest sum that the library never splits.
pub(super) const DEPTH_MAX: usize = 512;
/// Lines of a tile.
pub(super) const LINES: usize = 16;
/// Pairs per line of a tile.
pub(super) const PAIRS: usize = 16;
/// Depth of a tile.
pub(super) const DEPTH: usize = 2 * PAIRS;

/// One tile: 1 KiB, aligned to cache lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Zeroable)]
#[repr(C, align(64))]
pub(super) struct Tile(pub(super) [u32; LINES * PAIRS]);

impl Default for Tile {
    fn default() -> Self {
        Self([0; LINES * PAIRS])
    }
}

/// Strips for `lines` lines, rounded up to an even number.
pub(super) fn strips(lines: usize) -> usize {
    lines.div_ceil(2 * LINES) * 2
}
