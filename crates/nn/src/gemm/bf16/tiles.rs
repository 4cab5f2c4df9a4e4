//! Computes blocks on a unit with tile registers; also that unit in software.

use super::panel::{BlockUnit, Lines, Panel, Unit};
use super::round::numbers;
use crate::gemm::tile::{LINES, PAIRS, Tile};

/// Eight registers of 16 lines of 64 bytes, by number; each method is one instruction.
pub(super) trait TileUnit {
    /// Sets register `T` to zero.
    fn zero<const T: u8>(&mut self);

    /// Sets register `T` to `tile`.
    fn load<const T: u8>(&mut self, tile: &Tile);

    /// Adds the products of left tile `L` and right tile `R` to the sums in register `D`.
    fn dot<const D: u8, const L: u8, const R: u8>(&mut self);

    /// Writes the sums in register `T`: 16 lines of 16 numbers, `stride` lanes apart.
    fn store<const T: u8>(&mut self, lanes: &mut [f32], stride: usize);
}

/// Computes blocks on such a unit: four registers for sums, two for each operand.
pub(super) struct ByTiles<U>(pub(super) U);

impl<U: TileUnit> BlockUnit for ByTiles<U> {
    #[inline(always)]
    fn block(&mut self, left: [&[Tile]; 2], right: [&[Tile]; 2], mut sums: Lines<'_>) {
        let Self(unit) = self;
        unit.zero::<0>();
        unit.zero::<1>();
        unit.zero::<2>();
        unit.zero::<3>();
        let (left, right) = (left[0].iter().zip(left[1]), right[0].iter().zip(right[1]));
        for (left, right) in left.zip(right) {
            unit.load::<4>(left.0);
            unit.load::<6>(right.0);
            unit.load::<7>(right.1);
            unit.dot::<0, 4, 6>();
            unit.dot::<1, 4, 7>();
            unit.load::<5>(left.1);
            unit.dot::<2, 5, 6>();
            unit.dot::<3, 5, 7>();
        }
        let stride = sums.stride();
        unit.store::<0>(sums.tile(0, 0), stride);
        unit.store::<1>(sums.tile(0, 1), stride);
        unit.store::<2>(sums.tile(1, 0), stride);
        unit.store::<3>(sums.tile(1, 1), stride);
    }
}

/// The unit in software, following the manual's TDPBF16PS.
#[derive(Debug)]
pub(super) struct SoftTiles;

impl Unit for SoftTiles {
    fn run(&self, panel: Panel<'_>) {
        panel.run(&mut ByTiles(Registers([[0; LINES * PAIRS]; 8])));
    }
}

/// Words of the registers; sums are stored as the bits of f32.
struct Registers([[u32; LINES * PAIRS]; 8]);

impl TileUnit for Registers {
    fn zero<const T: u8>(&mut self) {
        self.0[usize::from(T)] = [0; LINES * PAIRS];
    }

    fn load<const T: u8>(&mut self, tile: &Tile) {
        self.0[usize::from(T)] = tile.0;
    }

    /// Sums even and odd positions along the depth separately, each product fused with its
    /// addition, and adds both sums to the register's.
    fn dot<const D: u8, const L: u8, const R: u8>(&mut self) {
        let (left, right) = (self.0[usize::from(L)], self.0[usize::from(R)]);
        for line in 0..LINES {
            let mut sums = [[0.0f32; 2]; LINES];
            for place in 0..PAIRS {
                let left = numbers(left[line * PAIRS + place]);
                for (sums, right) in sums.iter_mut().zip(&right[place * LINES..]) {
                    let right = numbers(*right);
                    for half in 0..2 {
                        sums[half] = fused(left[half], right[half], sums[half]);
                    }
                }
            }
            for (column, [even, odd]) in sums.into_iter().enumerate() {
                let word = &mut self.0[usize::from(D)][line * LINES + column];
                let sum = normal(f32::from_bits(*word)) + normal(even + odd);
                *word = normal(sum).to_bits();
            }
        }
    }

    fn store<const T: u8>(&mut self, lanes: &mut [f32], stride: usize) {
        let lines = self.0[usize::from(T)].chunks_exact(LINES);
        for (words, to) in lines.zip(lanes.chunks_mut(stride)) {
            words.iter().zip(to).for_each(|(word, to)| *to = f32::from_bits(*word));
        }
    }
}

/// `a * b + c`, rounded once; subnormal inputs and results are flushed to zero.
pub(super) fn fused(a: f32, b: f32, c: f32) -> f32 {
    normal(normal(a).mul_add(normal(b), normal(c)))
}

/// The number, or zero if it is subnormal.
fn normal(value: f32) -> f32 {
    if value.abs() < f32::MIN_POSITIVE { 0.0f32.copysign(value) } else { value }
}
