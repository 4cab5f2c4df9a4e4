//! The loops over packed operands: every block of 2 x 2 tiles of sums once per piece of the depth.
//!
//! ```text
//!              right strips  ┌───────── COLUMN_STRIPS ─────────┐ stays in the second-level cache
//!   left strips   i, i + 1   │ (i, j) (i, j + 1)               │
//!   in the first-level cache │ (i + 1, j) (i + 1, j + 1) ► ... │
//! ```

use std::fmt::Debug;

use super::pack::{LINES, Tile};
use crate::MatrixMut;

/// Right strips that are read again for each two left ones: 512 KiB at the greatest depth.
const COLUMN_STRIPS: usize = 32;

/// The sums of a tile of lines by a tile of lines. // (left line, right line)
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(super) struct Sums(pub(super) [f32; LINES * LINES]);

/// The sums of two left strips by two right ones. // (left strip, right strip)
pub(super) type Block = [Sums; 4];

/// One piece of a product, packed.
#[derive(Debug)]
pub(super) struct Panel<'a> {
    pub(super) left: &'a [Tile],  // (strips, depth)
    pub(super) right: &'a [Tile], // (strips, depth)
    /// Tiles along the depth.
    pub(super) depth: usize,
    pub(super) target: MatrixMut<'a, f32>,
    /// Whether the sums are added to what the target holds.
    pub(super) read: bool,
}

/// What computes a panel.
pub(super) trait Unit: Debug + Send + Sync {
    /// Computes it.
    fn run(&self, panel: Panel<'_>);
}

/// What computes a block.
pub(super) trait BlockUnit {
    /// Sets `sums` to those of two strips by two strips, each `depth` tiles.
    fn block(&mut self, left: [&[Tile]; 2], right: [&[Tile]; 2], sums: &mut Block);
}

impl Panel<'_> {
    /// Computes the panel block by block.
    #[inline(always)]
    pub(super) fn run(mut self, unit: &mut impl BlockUnit) {
        let (left, right) = (self.left, self.right);
        let (depth, two) = (self.depth, 2 * self.depth);
        assert!(left.len().is_multiple_of(two) && right.len().is_multiple_of(two), "whole pairs");
        let mut sums = [Sums([0.0; LINES * LINES]); 4];
        for (number, columns) in right.chunks(COLUMN_STRIPS * depth).enumerate() {
            for (row, left) in left.chunks_exact(two).enumerate() {
                for (column, right) in columns.chunks_exact(two).enumerate() {
                    unit.block(
                        left.split_at(depth).into(),
                        right.split_at(depth).into(),
                        &mut sums,
                    );
                    let column = number * COLUMN_STRIPS + 2 * column;
                    for (tile, sums) in sums.iter().enumerate() {
                        self.put(2 * row + tile / 2, column + tile % 2, sums);
                    }
                }
            }
        }
    }

    /// Writes the sums of one tile as far as the target reaches.
    #[inline(always)]
    fn put(&mut self, row: usize, column: usize, sums: &Sums) {
        let (rows, columns) = (self.target.rows(), self.target.columns());
        let (row, column) = (row * LINES, column * LINES);
        let columns = column..columns.min(column + LINES);
        if columns.is_empty() {
            return;
        }
        for (row, sums) in (row..rows).zip(sums.0.chunks_exact(LINES)) {
            let lanes = &mut self.target.row(row)[columns.clone()];
            match <&mut [f32; LINES]>::try_from(&mut *lanes) {
                Ok(lanes) if self.read => (0..LINES).for_each(|i| lanes[i] += sums[i]),
                Ok(lanes) => lanes.copy_from_slice(sums),
                Err(_) if self.read => lanes.iter_mut().zip(sums).for_each(|(to, sum)| *to += sum),
                Err(_) => lanes.copy_from_slice(&sums[..columns.len()]),
            }
        }
    }
}
