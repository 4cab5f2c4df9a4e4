//! Packs operands as the units read them: tiles of 16 lines by 16 pairs along the depth.
//!
//! A line is a row of the left operand or a column of the right one. A pair is two neighbors in a
//! line, the first in the lower half of a word:
//!
//! ```text
//! left    word[line * 16 + pair]    16 lines of 64 bytes, AMX's A
//! right   word[pair * 16 + line]    16 pairs of 64 bytes, AMX's B, a vector per pair
//!
//! tiles   [ strip 0: depth 0..32, depth 32..64, ... ][ strip 1 ] ...    a strip is 16 lines
//! ```
//!
//! An operand is read in memory order. If its tiles have the other order, a tile is transposed
//! after it is filled, while it is in the first-level cache. Lines and depth past the operand are
//! zero, as is a strip that makes the number of strips even.

use pulp::{Arch, Simd, WithSimd};

use stepwell_base::huge::HugeSlice;

use super::round::pair;
use crate::gemm::operand::Operand;
use crate::gemm::tile::{DEPTH, LINES, PAIRS, Tile, strips};

/// Side of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Left,
    Right,
}

/// [`fill`]s the tiles that the operand needs, and returns them; grows `tiles` if necessary.
pub(super) fn pack<'a>(
    lines: Operand<'_, f32>,
    side: Side,
    tiles: &'a mut HugeSlice<Tile>,
) -> &'a [Tile] {
    let depth = lines.columns.div_ceil(DEPTH);
    let count = strips(lines.rows) * depth;
    if tiles.len() < count {
        *tiles = HugeSlice::rounded_up(count);
    }
    fill(lines, side, &mut tiles[..count]);
    &tiles[..count]
}

/// Rounds and packs an operand whose rows are lines and whose columns are the depth.
pub(super) fn fill(lines: Operand<'_, f32>, side: Side, tiles: &mut [Tile]) {
    let depth = lines.columns.div_ceil(DEPTH);
    assert_eq!(tiles.len(), strips(lines.rows) * depth, "tiles of an operand");
    Arch::new().dispatch(Pack { lines, side, depth, tiles });
}

struct Pack<'a> {
    lines: Operand<'a, f32>,
    side: Side,
    depth: usize,
    tiles: &'a mut [Tile], // (strips, depth)
}

impl WithSimd for Pack<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let lies = if self.lines.column_stride == 1 { Side::Left } else { Side::Right };
        let across = self.lines.row_stride == 1 || self.lines.column_stride == 1;
        assert!(across, "an operand is a matrix or the transpose of one");
        for (number, tile) in self.tiles.iter_mut().enumerate() {
            let (line, start) = (number / self.depth * LINES, number % self.depth * DEPTH);
            match lies {
                Side::Left => fill_by_line(&self.lines, line, start, tile),
                Side::Right => fill_by_pair(&self.lines, line, start, tile),
            }
            if lies != self.side {
                transpose(tile);
            }
        }
    }
}

/// Fills a tile from an operand with contiguous lines.
#[inline(always)]
fn fill_by_line(lines: &Operand<'_, f32>, line: usize, start: usize, tile: &mut Tile) {
    let wanted = DEPTH.min(lines.columns - start);
    for (line, words) in (line..).zip(tile.0.chunks_exact_mut(PAIRS)) {
        if line >= lines.rows {
            words.fill(0);
            continue;
        }
        let source = &lines.data[line * lines.row_stride + start..][..wanted];
        let mut padded = [0.0; DEPTH];
        let source = <&[f32; DEPTH]>::try_from(source).unwrap_or_else(|_| {
            padded[..wanted].copy_from_slice(source);
            &padded
        });
        for pairs in 0..PAIRS {
            words[pairs] = pair(source[2 * pairs], source[2 * pairs + 1]);
        }
    }
}

/// Fills a tile from an operand whose positions along the depth are contiguous.
#[inline(always)]
fn fill_by_pair(lines: &Operand<'_, f32>, line: usize, start: usize, tile: &mut Tile) {
    let wanted = LINES.min(lines.rows.saturating_sub(line));
    let zeros = [0.0; LINES];
    for (place, words) in (start..).step_by(2).zip(tile.0.chunks_exact_mut(LINES)) {
        let source = |place: usize| {
            let count = if place < lines.columns { wanted } else { 0 };
            if count == 0 {
                &zeros[..0]
            } else {
                &lines.data[place * lines.column_stride + line..][..count]
            }
        };
        let (first, second) = (source(place), source(place + 1));
        let whole = (<&[f32; LINES]>::try_from(first), <&[f32; LINES]>::try_from(second));
        if let (Ok(first), Ok(second)) = whole {
            for i in 0..LINES {
                words[i] = pair(first[i], second[i]);
            }
        } else {
            let at = |from: &[f32], i: usize| from.get(i).copied().unwrap_or(0.0);
            for (i, word) in words.iter_mut().enumerate() {
                *word = pair(at(first, i), at(second, i));
            }
        }
    }
}

/// Transposes lines and pairs.
///
/// Interleaving the two halves of a tile rotates the bits of every word's index by one. After four
/// times, the four bits of the line and the four of the pair have changed places.
#[inline(always)]
fn transpose(tile: &mut Tile) {
    const _: () = assert!(LINES == 16 && PAIRS == 16, "four bits each");
    let mut other = [0; LINES * PAIRS];
    for _ in 0..2 {
        weave(&tile.0, &mut other);
        weave(&other, &mut tile.0);
    }
}

#[inline(always)]
fn weave(from: &[u32; LINES * PAIRS], to: &mut [u32; LINES * PAIRS]) {
    let (low, high) = from.split_at(LINES * PAIRS / 2);
    for (to, (low, high)) in to.chunks_exact_mut(2).zip(low.iter().zip(high)) {
        to[0] = *low;
        to[1] = *high;
    }
}
