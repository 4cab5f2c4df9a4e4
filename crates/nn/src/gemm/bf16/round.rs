//! Rounds to bf16, the upper half of an f32: to nearest, ties to even.
//!
//! Infinities are kept, numbers beyond the largest bf16 become infinite, and NaN stays NaN.

/// Bits of `value` rounded; the lower half is zero.
#[inline(always)]
pub(super) fn rounded_bits(value: f32) -> u32 {
    const HALF: u32 = 1 << 16;
    let bits = value.to_bits();
    let nearest = bits.wrapping_add(HALF / 2 - 1 + ((bits / HALF) & 1));
    // A NaN with a significand only in the lower half would otherwise become infinity.
    let quiet = bits | 1 << 22;
    let is_number = bits & 0x7fff_ffff <= 0x7f80_0000;
    (if is_number { nearest } else { quiet }) & !(HALF - 1)
}

/// `value`, rounded.
#[inline(always)]
pub(super) fn rounded(value: f32) -> f32 {
    f32::from_bits(rounded_bits(value))
}

/// Rounds two neighbors along the depth, the first into the lower half.
#[inline(always)]
pub(super) fn pair(first: f32, second: f32) -> u32 {
    rounded_bits(first) >> 16 | rounded_bits(second)
}

/// The two numbers of a pair.
#[inline(always)]
pub(super) fn numbers(pair: u32) -> [f32; 2] {
    [f32::from_bits(pair << 16), f32::from_bits(pair & 0xffff_0000)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_to_the_nearest_and_ties_to_even() {
        for (bits, wanted) in [
            (0x3f80_0000, 0x3f80_0000),
            (0x3f80_7fff, 0x3f80_0000),
            (0x3f80_8000, 0x3f80_0000), // a tie, down to even
            (0x3f80_8001, 0x3f81_0000),
            (0x3f81_8000, 0x3f82_0000), // a tie, up to even
            (0xbfff_ffff, 0xc000_0000), // to the next binade
            (0x0000_0000, 0x0000_0000),
            (0x8000_0000, 0x8000_0000),
            (0x0000_8001, 0x0001_0000), // subnormal
            (0x7f7f_8000, 0x7f80_0000), // beyond the largest
            (0x7f7f_7fff, 0x7f7f_0000),
            (0xff80_0000, 0xff80_0000),
        ] {
            assert_eq!(rounded_bits(f32::from_bits(bits)), wanted, "{bits:#x}");
        }
        for bits in [0x7f80_0001, 0xff80_0001, 0x7fff_ffff, 0xffff_ffff, 0x7fc0_0000] {
            assert!(rounded(f32::from_bits(bits)).is_nan(), "{bits:#x}");
        }
    }

    #[test]
    fn no_bf16_is_nearer() {
        let mut stream = stepwell_base::random::Stream::named(1, b"round");
        for _ in 0..10_000 {
            let value = f32::from_bits(stream.next_u64() as u32 & 0xbfff_ffff);
            let is = rounded_bits(value);
            assert_eq!(is & 0xffff, 0);
            let off = |bits: u32| (f64::from(value) - f64::from(f32::from_bits(bits))).abs();
            for other in [is.wrapping_sub(1 << 16), is.wrapping_add(1 << 16)] {
                let further = off(is) <= off(other) || !f32::from_bits(other).is_finite();
                assert!(further || (other ^ is) >> 31 == 1, "{value} {is:#x}");
            }
        }
        assert_eq!(numbers(pair(1.5, -2.25)), [1.5, -2.25]);
    }
}
