//! Storage of a row's weights in 32 or 16 bits.
//!
//! - **Why.** Out of core, the bytes of rows determine the use of memory, disk and the bandwidth
//!   between them. The arithmetic stays in f32; only storage has 16 bits. An update is often
//!   smaller than half the distance to the next 16-bit number; rounding to the nearest would lose
//!   it every time, so the rounding is stochastic.
//! - **How.** Two weights share a lane, the first in its lower half; the last half of an odd count
//!   is zero. So a row remains a row of f32 lanes, and tiers need no changes.
//!
//! ```text
//!   f32    [ w0 ][ w1 ][ w2 ]            f16, bf16    [ w1 w0 ][ 0 w2 ]
//! ```
//!
//! A weight x between two adjacent numbers of the format becomes the one away from zero with
//! probability (|x| - |low|) / (|high| - |low|), else the one towards zero, so that the expected
//! value is x. This is the same as adding 32 random bits below the last place and truncating, in
//! integers only, so every machine has the same bits. Weight i takes half i mod 2, the lower one
//! first, of number i / 2 of a stream that the caller provides: [`Stream::of_rounding`] for a row
//! of a table. Source: Gupta et al., "Deep Learning with Limited Numerical Precision" (ICML 2015).
//!
//! - **Invariants.** A weight that the format can represent is unchanged for any random bits. NaN
//!   stays NaN. Anything beyond the largest finite number (65504 in f16) becomes infinity, as in
//!   IEEE rounding: stopping at the largest number would hide that a model diverges.
//! - **Cost.** 2 bytes per weight instead of 4. There are only 32 random bits: in f16, the expected
//!   value of a weight below 2^-14 is off by less than 2^-56.

use stepwell_base::random::Stream;
use stepwell_base::tiles::{self, by_tiles};

const _: () = assert!(cfg!(target_endian = "little"), "the first weight is in the lower half");

/// Format of a row's weights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Storage {
    /// IEEE single precision, unchanged.
    #[default]
    F32,
    /// IEEE half precision: 11 significant bits, normal from 6.1e-5 to 65504.
    F16,
    /// The upper half of an f32: 8 significant bits and the range of f32.
    Bf16,
}

impl Storage {
    /// All formats.
    pub const ALL: [Self; 3] = [Self::F32, Self::F16, Self::Bf16];

    /// Name in configurations and checkpoints.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
        }
    }

    /// The largest finite number.
    pub const fn largest(self) -> f32 {
        match self {
            Self::F32 => f32::MAX,
            Self::F16 => 65504.0,
            Self::Bf16 => f32::from_bits(0x7F7F_0000),
        }
    }

    /// Number of lanes for `count` weights.
    pub const fn lanes(self, count: usize) -> usize {
        match self {
            Self::F32 => count,
            Self::F16 | Self::Bf16 => count.div_ceil(2),
        }
    }

    /// The first `count` weights in `lanes`.
    #[inline(always)]
    pub fn view(self, lanes: &[f32], count: usize) -> Weights<'_> {
        match self {
            Self::F32 => Weights::F32(&lanes[..count]),
            Self::F16 => Weights::F16(&bytemuck::cast_slice(lanes)[..count]),
            Self::Bf16 => Weights::Bf16(&bytemuck::cast_slice(lanes)[..count]),
        }
    }

    /// Writes `weights` into `lanes`, rounded with the numbers of `random`.
    #[inline(always)]
    pub fn encode(self, weights: &[f32], lanes: &mut [f32], random: Stream) {
        assert_eq!(lanes.len(), self.lanes(weights.len()), "lanes for every weight");
        match self {
            Self::F32 => lanes.copy_from_slice(weights),
            Self::F16 => encode(weights, bytemuck::cast_slice_mut(lanes), random, to_f16),
            Self::Bf16 => encode(weights, bytemuck::cast_slice_mut(lanes), random, to_bf16),
        }
    }

    /// Rounds `weights` to the values that [`Storage::encode`] stores.
    pub fn round(self, weights: &mut [f32], random: Stream) {
        for (number, pair) in weights.chunks_mut(2).enumerate() {
            let bits = random.at(number as u64);
            for (weight, bits) in pair.iter_mut().zip([bits as u32, (bits >> 32) as u32]) {
                match self {
                    Self::F32 => {}
                    Self::F16 => *weight = from_f16(to_f16(*weight, bits)),
                    Self::Bf16 => *weight = from_bf16(to_bf16(*weight, bits)),
                }
            }
        }
    }
}

/// Stored weights of a row. // (weights)
#[derive(Clone, Copy, Debug)]
pub enum Weights<'a> {
    /// Single precision.
    F32(&'a [f32]),
    /// Half precision.
    F16(&'a [u16]),
    /// Upper halves of f32.
    Bf16(&'a [u16]),
}

impl Weights<'_> {
    /// Weight `index`.
    #[inline(always)]
    pub fn get(&self, index: usize) -> f32 {
        match self {
            Self::F32(weights) => weights[index],
            Self::F16(weights) => from_f16(weights[index]),
            Self::Bf16(weights) => from_bf16(weights[index]),
        }
    }

    /// Copies the first weights to `to`, as many as fit.
    #[inline(always)]
    pub fn copy_to(&self, to: &mut [f32]) {
        match self {
            Self::F32(weights) => tiles::copy(to, &weights[..to.len()]),
            Self::F16(weights) => each(to, weights, |_, weight| from_f16(weight)),
            Self::Bf16(weights) => each(to, weights, |_, weight| from_bf16(weight)),
        }
    }

    /// Adds the first weights to `sum`, as many as fit.
    #[inline(always)]
    pub fn add_to(&self, sum: &mut [f32]) {
        match self {
            Self::F32(weights) => tiles::add(sum, &weights[..sum.len()]),
            Self::F16(weights) => each(sum, weights, |sum, weight| sum + from_f16(weight)),
            Self::Bf16(weights) => each(sum, weights, |sum, weight| sum + from_bf16(weight)),
        }
    }

    /// Like [`Weights::copy_to`], with each weight times `factor`.
    #[inline(always)]
    pub fn copy_times_to(&self, to: &mut [f32], factor: f32) {
        match self {
            Self::F32(weights) => tiles::copy_times(to, &weights[..to.len()], factor),
            Self::F16(weights) => each(to, weights, |_, weight| from_f16(weight) * factor),
            Self::Bf16(weights) => each(to, weights, |_, weight| from_bf16(weight) * factor),
        }
    }

    /// Like [`Weights::add_to`], with each weight times `factor`.
    #[inline(always)]
    pub fn add_times_to(&self, sum: &mut [f32], factor: f32) {
        match self {
            Self::F32(weights) => tiles::add_times(sum, &weights[..sum.len()], factor),
            Self::F16(weights) => each(sum, weights, |sum, weight| sum + from_f16(weight) * factor),
            Self::Bf16(weights) => {
                each(sum, weights, |sum, weight| sum + from_bf16(weight) * factor);
            }
        }
    }
}

/// Applies `rule` to the lanes of `to` and the same number of halves.
#[inline(always)]
fn each(to: &mut [f32], halves: &[u16], rule: impl Fn(f32, u16) -> f32) {
    let halves = &halves[..to.len()];
    by_tiles([to], halves, |[to], half| [rule(to, half)]);
}

#[inline(always)]
fn encode(weights: &[f32], halves: &mut [u16], random: Stream, to: impl Fn(f32, u32) -> u16) {
    let pairs = weights.chunks_exact(2);
    let odd = pairs.remainder();
    for (number, (pair, halves)) in pairs.zip(halves.chunks_exact_mut(2)).enumerate() {
        let bits = random.at(number as u64);
        halves[0] = to(pair[0], bits as u32);
        halves[1] = to(pair[1], (bits >> 32) as u32);
    }
    if let ([weight], [.., half, rest]) = (odd, halves) {
        let bits = random.at(weights.len() as u64 / 2);
        (*half, *rest) = (to(*weight, bits as u32), 0);
    }
}

const SIGN: u32 = 0x8000;
const F32_INFINITY: u32 = 0x7f80_0000;
const F16_INFINITY: u32 = 0x7c00;
const F16_QUIET: u32 = 0x7e00;
/// Exponent, biased as in f32, of the smallest normal f16: 2^-14.
const F16_NORMAL: u32 = 127 - 14;
/// Difference of the exponent biases of f32 and f16, in the bits of an f32.
const REBIAS: u32 = (127 - 15) << 23;

/// `x` in half precision, rounded away from zero if the part below the last place plus `random`,
/// both 32 bits, overflows.
#[inline(always)]
fn to_f16(x: f32, random: u32) -> u16 {
    let bits = x.to_bits();
    let magnitude = bits & !(SIGN << 16);
    let exponent = magnitude >> 23;
    // With a leading one, also if x has none: such numbers are shifted out.
    let significand = u64::from((magnitude & 0x007f_ffff) | 0x0080_0000) << 32;
    let shift = (13 + F16_NORMAL.saturating_sub(exponent)).min(63);
    let rounded = (((significand >> shift) + u64::from(random)) >> 32) as u32;
    // The leading one and any carry increment the exponent.
    let finite = rounded + ((exponent.max(F16_NORMAL) - F16_NORMAL) << 10);
    let is_number = magnitude <= F32_INFINITY;
    let half = if is_number { finite.min(F16_INFINITY) } else { F16_QUIET };
    (half | (bits >> 16 & SIGN)) as u16
}

#[inline(always)]
fn from_f16(half: u16) -> f32 {
    let half = u32::from(half);
    let magnitude = half & !SIGN;
    let subnormal = (magnitude as i32 as f32 * (1.0 / (1 << 24) as f32)).to_bits();
    let normal = (magnitude << 13) + REBIAS;
    let number = if magnitude < 0x400 { subnormal } else { normal };
    let whole = if magnitude < F16_INFINITY { number } else { normal + REBIAS };
    f32::from_bits(whole | (half & SIGN) << 16)
}

/// The upper half of `x`, rounded as in [`to_f16`], with the upper half of `random`.
#[inline(always)]
fn to_bf16(x: f32, random: u32) -> u16 {
    let bits = x.to_bits();
    let rounded = bits.wrapping_add(random >> 16) >> 16;
    let is_number = bits & !(SIGN << 16) <= F32_INFINITY;
    // A NaN payload only in the lower half would be lost.
    (if is_number { rounded } else { bits >> 16 | 0x40 }) as u16
}

#[inline(always)]
fn from_bf16(half: u16) -> f32 {
    f32::from_bits(u32::from(half) << 16)
}

#[cfg(test)]
mod tests;
