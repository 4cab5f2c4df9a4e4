//! Computes blocks on a unit with vectors of 16 lanes; also that unit in software.

use super::panel::{BlockUnit, Lines, Panel, Unit};
use super::round::numbers;
use super::tiles::fused;
use crate::gemm::tile::{LINES, PAIRS, Tile};

/// Lines of the left operand whose sums are held in vectors at once: 16 vectors for two right
/// strips.
const HELD: usize = 8;

/// Vectors of 16 sums or pairs; each method is one instruction.
pub(super) trait LaneUnit {
    /// Sums. // (16)
    type Sums: Copy;
    /// Pairs. // (16)
    type Pairs: Copy;

    /// Zero sums.
    fn zero(&self) -> Self::Sums;

    /// Loads pairs.
    fn load(&self, from: &[u32; LINES]) -> Self::Pairs;

    /// One pair, repeated in all lanes.
    fn spread(&self, pair: u32) -> Self::Pairs;

    /// Adds the two products of a pair with a pair to `sums`, lane by lane.
    fn dot(&self, sums: Self::Sums, left: Self::Pairs, right: Self::Pairs) -> Self::Sums;

    /// Writes the sums.
    fn store(&self, sums: Self::Sums, to: &mut [f32; LINES]);
}

/// Computes blocks on such a unit: one pair of the left operand with 16 lines of the right one at a
/// time.
pub(super) struct ByLanes<U>(pub(super) U);

impl<U: LaneUnit> BlockUnit for ByLanes<U> {
    #[inline(always)]
    fn block(&mut self, left: [&[Tile]; 2], right: [&[Tile]; 2], mut sums: Lines<'_>) {
        for (row, left) in left.into_iter().enumerate() {
            for line in (0..LINES).step_by(HELD) {
                self.lines(line, left, right, row, &mut sums);
            }
        }
    }
}

impl<U: LaneUnit> ByLanes<U> {
    /// Multiplies the lines from `line` of left strip `row` with two right strips.
    #[inline(always)]
    fn lines(
        &self,
        line: usize,
        left: &[Tile],
        right: [&[Tile]; 2],
        row: usize,
        sums: &mut Lines<'_>,
    ) {
        let Self(unit) = self;
        let mut held = [[unit.zero(); 2]; HELD];
        for (left, right) in left.iter().zip(right[0].iter().zip(right[1])) {
            for place in 0..PAIRS {
                let right = [unit.load(vector(right.0, place)), unit.load(vector(right.1, place))];
                for (i, held) in held.iter_mut().enumerate() {
                    let left = unit.spread(left.0[(line + i) * PAIRS + place]);
                    held[0] = unit.dot(held[0], left, right[0]);
                    held[1] = unit.dot(held[1], left, right[1]);
                }
            }
        }
        let stride = sums.stride();
        for column in 0..2 {
            let lines = sums.tile(row, column).chunks_mut(stride).skip(line);
            for (held, to) in held.iter().zip(lines) {
                let Some(to) = to.first_chunk_mut() else {
                    panic!("NN-I1: a line inside its tile")
                };
                unit.store(held[column], to);
            }
        }
    }
}

/// The 16 pairs at one position along the depth.
#[inline(always)]
fn vector(tile: &Tile, place: usize) -> &[u32; LINES] {
    let (vectors, _) = tile.0.as_chunks();
    &vectors[place]
}

/// The unit in software, following the manual's VDPBF16PS.
#[derive(Debug)]
pub(super) struct SoftLanes;

impl Unit for SoftLanes {
    fn run(&self, panel: Panel<'_>) {
        panel.run(&mut ByLanes(Software));
    }
}

struct Software;

impl LaneUnit for Software {
    type Sums = [f32; LINES];
    type Pairs = [u32; LINES];

    fn zero(&self) -> Self::Sums {
        [0.0; LINES]
    }

    fn load(&self, from: &[u32; LINES]) -> Self::Pairs {
        *from
    }

    fn spread(&self, pair: u32) -> Self::Pairs {
        [pair; LINES]
    }

    /// Adds the second product first, each fused with its addition.
    fn dot(&self, mut sums: Self::Sums, left: Self::Pairs, right: Self::Pairs) -> Self::Sums {
        for (sum, (left, right)) in sums.iter_mut().zip(left.into_iter().zip(right)) {
            let (left, right) = (numbers(left), numbers(right));
            *sum = fused(left[1], right[1], *sum);
            *sum = fused(left[0], right[0], *sum);
        }
        sums
    }

    fn store(&self, sums: Self::Sums, to: &mut [f32; LINES]) {
        *to = sums;
    }
}
