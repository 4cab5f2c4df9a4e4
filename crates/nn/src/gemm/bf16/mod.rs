//! Products of bf16 operands with f32 sums: rounding, packing, and one kernel per processor.
//!
//! ```text
//! operand ─► round ─► pack: tiles of 16 lines x 16 pairs ─► blocks of 2 x 2 tiles ─► target
//!                                                            │
//!                    unit of tiles: Amx, or SoftTiles ◄──────┤ the loops are generic over the
//!                    unit of lanes: Avx512, or SoftLanes ◄───┘ unit, one instruction per method
//! ```
//!
//! The software units follow the processor's manual (Intel, "Architecture Instruction Set
//! Extensions Programming Reference": TDPBF16PS, VDPBF16PS), number by number. With them, the loops
//! are tested on every machine, so that only single instructions depend on the hardware. Those are
//! compared with the software once per process, before they are used (see [`bf16_kernel`]).
//!
//! Products with a side below [`SIDE_MIN`] would fill tiles mostly with padding; all kernels
//! delegate them to [`Portable`].

#[cfg(target_arch = "x86_64")]
mod amx;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod lanes;
mod pack;
mod panel;
mod portable;
mod round;
#[cfg(test)]
mod tests;
mod tiles;

use std::sync::OnceLock;

use stepwell_base::huge::HugeSlice;

use self::pack::{Side, fill, pack};
use self::panel::{Panel, Unit};
use self::portable::Portable;
use super::kernel::{Kernel, Scratch};
use super::operand::{Operand, pieces, plain, transposed};
use super::packed::Packed;
use super::tile::{DEPTH, DEPTH_MAX, Tile, strips};
use crate::matrix::{Matrix, MatrixMut, Write};

/// Fewest rows and columns for which packing is worthwhile.
const SIDE_MIN: usize = 8;

/// The bf16 kernel of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bf16Kernel {
    /// Name: `amx`, `avx512_bf16` or `portable`.
    pub name: &'static str,
    /// Note about available units that failed their check, if any.
    pub note: Option<String>,
}

/// The bf16 kernel of this machine, the same for the whole process.
///
/// The first call detects the processor's units and compares one product of each with software. A
/// unit with a different product isn't used.
pub fn bf16_kernel() -> &'static Bf16Kernel {
    &choice().1
}

/// See [`bf16_kernel`].
pub(super) fn kernel() -> &'static dyn Kernel<f32> {
    choice().0
}

type Choice = (&'static dyn Kernel<f32>, Bf16Kernel);

/// A unit that a machine may have.
struct Candidate {
    name: &'static str,
    is_here: fn() -> bool,
    kernel: &'static dyn Kernel<f32>,
    twin: &'static dyn Kernel<f32>,
}

#[cfg(target_arch = "x86_64")]
const CANDIDATES: &[Candidate] = &[
    Candidate {
        name: "amx",
        is_here: amx::is_here,
        kernel: &Tiled(amx::Amx),
        twin: &Tiled(tiles::SoftTiles),
    },
    Candidate {
        name: "avx512_bf16",
        is_here: avx512::is_here,
        kernel: &Tiled(avx512::Avx512),
        twin: &Tiled(lanes::SoftLanes),
    },
];

#[cfg(not(target_arch = "x86_64"))]
const CANDIDATES: &[Candidate] = &[];

fn choice() -> &'static Choice {
    static CHOICE: OnceLock<Choice> = OnceLock::new();
    CHOICE.get_or_init(|| choose(CANDIDATES))
}

fn choose(candidates: &[Candidate]) -> Choice {
    let mut failed = Vec::new();
    for candidate in candidates.iter().filter(|candidate| (candidate.is_here)()) {
        if agree(candidate.kernel, candidate.twin) {
            return (candidate.kernel, Bf16Kernel { name: candidate.name, note: note(&failed) });
        }
        failed.push(candidate.name);
    }
    (&Portable, Bf16Kernel { name: "portable", note: note(&failed) })
}

fn note(failed: &[&str]) -> Option<String> {
    let units = failed.join(" and ");
    (!failed.is_empty()).then(|| {
        format!(
            "this processor's {units} computes other sums than software, so it is not used for bf16"
        )
    })
}

/// Whether two kernels compute the same product, up to the order of sums.
fn agree(one: &dyn Kernel<f32>, other: &dyn Kernel<f32>) -> bool {
    const M: usize = 35;
    const N: usize = 50;
    const DEPTH: usize = 71;
    // Numbers of either sign that use all bits of significance, from a small generator.
    let mut state = 1u32;
    let mut number = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        f32::from_bits(0x3f00_0000 | state >> 8) * if state & 1 == 0 { 1.0 } else { -1.0 }
    };
    let left: Vec<f32> = (0..M * DEPTH).map(&mut number).collect();
    let right: Vec<f32> = (0..N * DEPTH).map(&mut number).collect();
    let product = |kernel: &dyn Kernel<f32>| {
        let mut product = vec![0.0; M * N];
        let left = plain(Matrix::packed(&left, M, DEPTH));
        let right = transposed(Matrix::packed(&right, N, DEPTH));
        let target = MatrixMut::packed(&mut product, M, N);
        kernel.multiply(target, Write::Overwrite, left, right, &mut Scratch::default());
        product
    };
    // Each of the 71 terms is below 4, and each step of a sum has a relative error of at most
    // 2^-24.
    let tolerance = (4 * DEPTH * DEPTH) as f32 * 2.0 * f32::EPSILON;
    product(one).iter().zip(product(other)).all(|(a, b)| (a - b).abs() <= tolerance)
}

/// A kernel that uses tiles, on a unit.
///
/// Rounds and packs each operand once, by piece of the depth; a right operand may be prepacked.
#[derive(Debug)]
struct Tiled<U>(U);

impl<U: Unit> Kernel<f32> for Tiled<U> {
    fn multiply(
        &self,
        mut target: MatrixMut<'_, f32>,
        write: Write,
        left: Operand<'_, f32>,
        right: Operand<'_, f32>,
        scratch: &mut Scratch,
    ) {
        if left.rows < SIDE_MIN || right.columns < SIDE_MIN {
            return Portable.multiply(target, write, left, right, scratch);
        }
        let [left_tiles, right_tiles] = &mut scratch.tiles;
        for (index, (write, left, right)) in pieces(write, left, right).enumerate() {
            let depth = left.columns.div_ceil(DEPTH);
            self.0.run(Panel {
                depth,
                left: pack(left, Side::Left, left_tiles),
                right: match right.packed {
                    Some(packed) => packed.piece(index, right.rows, depth),
                    None => pack(right, Side::Right, right_tiles),
                },
                target: target.reborrow(),
                read: write == Write::Accumulate,
            });
        }
    }

    /// Both operands of a piece, and the delegate's buffers for small products.
    fn packing_bytes(&self, side: usize) -> usize {
        let tiles = strips(side) * DEPTH_MAX.div_ceil(DEPTH);
        2 * HugeSlice::<Tile>::bytes_rounded_up(tiles) + Portable.packing_bytes(side)
    }

    fn packed_tiles(&self, depth: usize, columns: usize) -> usize {
        if columns < SIDE_MIN { 0 } else { strips(columns) * depth.div_ceil(DEPTH) }
    }

    fn pack(&self, right: Operand<'_, f32>, packed: &mut Packed) {
        // Only the right operand's pieces matter, so the left one is arbitrary.
        for (index, (_, _, right)) in pieces(Write::Overwrite, right.transpose(), right).enumerate()
        {
            let depth = right.columns.div_ceil(DEPTH);
            fill(right, Side::Right, packed.piece_mut(index, depth));
        }
    }
}
