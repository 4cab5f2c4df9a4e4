//! Loops over packed operands: visits every block of 2 x 2 tiles of sums once per piece of the
//! depth.
//!
//! ```text
//!              right strips  ┌───────── COLUMN_STRIPS ─────────┐ stays in the second-level cache
//!   left strips   i, i + 1   │ (i, j) (i, j + 1)               │
//!   in the first-level cache │ (i + 1, j) (i + 1, j + 1) ► ... │
//! ```

use std::fmt::Debug;

use crate::gemm::tile::{LINES, Tile};
use crate::matrix::MatrixMut;

/// Right strips that are reused for each two left ones: 512 KiB at the greatest depth.
const COLUMN_STRIPS: usize = 32;

/// Lines and columns of a block: 2 x 2 tiles of sums.
pub(super) const BLOCK: usize = 2 * LINES;

/// Destination of a block of sums: [`BLOCK`] lines of [`BLOCK`] numbers.
///
/// Invariant: the last number is inside `lanes`.
#[derive(Debug)]
pub(super) struct Lines<'a> {
    lanes: &'a mut [f32],
    stride: usize,
}

impl<'a> Lines<'a> {
    /// Lines that start every `stride` numbers of `lanes`.
    #[inline(always)]
    fn new(lanes: &'a mut [f32], stride: usize) -> Self {
        assert!(lanes.len() >= (BLOCK - 1) * stride + BLOCK, "NN-I1: a block inside its matrix");
        Self { lanes, stride }
    }

    /// Numbers between the starts of lines.
    #[inline(always)]
    pub(super) fn stride(&self) -> usize {
        self.stride
    }

    /// Lanes of one of the 2 x 2 tiles, from its first to its last sum.
    #[inline(always)]
    pub(super) fn tile(&mut self, row: usize, column: usize) -> &mut [f32] {
        assert!(row < 2 && column < 2, "two tiles by two");
        let start = row * LINES * self.stride + column * LINES;
        &mut self.lanes[start..][..(LINES - 1) * self.stride + LINES]
    }
}

/// One packed piece of a product.
#[derive(Debug)]
pub(super) struct Panel<'a> {
    pub(super) left: &'a [Tile],  // (strips, depth)
    pub(super) right: &'a [Tile], // (strips, depth)
    /// Tiles along the depth.
    pub(super) depth: usize,
    pub(super) target: MatrixMut<'a, f32>,
    /// Whether to add the sums to the target's contents.
    pub(super) read: bool,
}

/// Computes a panel.
pub(super) trait Unit: Debug + Send + Sync {
    /// Computes `panel`.
    fn run(&self, panel: Panel<'_>);
}

/// Computes a block.
pub(super) trait BlockUnit {
    /// Writes the sums of two strips by two strips, each `depth` tiles.
    fn block(&mut self, left: [&[Tile]; 2], right: [&[Tile]; 2], sums: Lines<'_>);
}

impl Panel<'_> {
    /// Computes the panel block by block: in place, or in a buffer if the target already contains
    /// sums or ends inside the block.
    #[inline(always)]
    pub(super) fn run(mut self, unit: &mut impl BlockUnit) {
        let (left, right) = (self.left, self.right);
        let (depth, two) = (self.depth, 2 * self.depth);
        assert!(left.len().is_multiple_of(two) && right.len().is_multiple_of(two), "whole pairs");
        let (rows, columns) = (self.target.rows(), self.target.columns());
        let mut beside = Beside([0.0; BLOCK * BLOCK]);
        for (number, strips) in right.chunks(COLUMN_STRIPS * depth).enumerate() {
            for (above, left) in left.chunks_exact(two).enumerate() {
                for (before, right) in strips.chunks_exact(two).enumerate() {
                    let (row, column) = (above * BLOCK, number * COLUMN_STRIPS * LINES);
                    let column = column + before * BLOCK;
                    let (left, right) = (left.split_at(depth), right.split_at(depth));
                    let inside = row + BLOCK <= rows && column + BLOCK <= columns;
                    if inside && !self.read {
                        let stride = self.target.stride();
                        let lanes = &mut self.target.data_mut()[row * stride + column..];
                        unit.block(left.into(), right.into(), Lines::new(lanes, stride));
                    } else if column < columns {
                        let sums = Lines::new(&mut beside.0, BLOCK);
                        unit.block(left.into(), right.into(), sums);
                        self.put(row, column, &beside);
                    }
                }
            }
        }
    }

    /// Writes the part of a block that is inside the target.
    #[inline(always)]
    fn put(&mut self, row: usize, column: usize, sums: &Beside) {
        let rows = row..self.target.rows().min(row + BLOCK);
        let columns = column..self.target.columns().min(column + BLOCK);
        for (row, sums) in rows.zip(sums.0.chunks_exact(BLOCK)) {
            let lanes = &mut self.target.row(row)[columns.clone()];
            match (<&mut [f32; BLOCK]>::try_from(&mut *lanes), self.read) {
                (Ok(lanes), true) => (0..BLOCK).for_each(|i| lanes[i] += sums[i]),
                (Ok(lanes), false) => lanes.copy_from_slice(sums),
                (Err(_), true) => lanes.iter_mut().zip(sums).for_each(|(to, sum)| *to += sum),
                (Err(_), false) => copy_some(lanes, sums),
            }
        }
    }
}

/// Buffer for a block that is added to the target or exceeds it. // (left line, right line)
#[repr(C, align(64))]
struct Beside([f32; BLOCK * BLOCK]);

/// Copies fewer numbers than a block has, in pieces of known length.
#[inline(always)]
fn copy_some(to: &mut [f32], from: &[f32]) {
    let (pieces, rest) = to.as_chunks_mut::<8>();
    let (from, from_rest) = from.split_at(8 * pieces.len());
    pieces.iter_mut().zip(from.as_chunks().0).for_each(|(to, from)| *to = *from);
    rest.iter_mut().zip(from_rest).for_each(|(to, from)| *to = *from);
}
