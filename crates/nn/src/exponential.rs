//! Exponential, logistic function and hyperbolic tangent without branches, so that a processor can
//! compute several lanes at a time.
//!
//! ```text
//! eˣ = 2ᵏ eʳ     k = x / ln 2, rounded to an integer, r = x - k ln 2, at most ln 2 / 2
//! eʳ = 1 + r (1 + r (1/2! + r (1/3! + ... + r / 13!)))
//! ```
//!
//! in f64. x is clamped to -700 to 700. Only sums and products with the constants below are used,
//! so the bits are the same everywhere. The exponential has an error of less than two units in the
//! last place, the others of about 2⁻⁵³.
//!
//! In f32, the sum ends at 1 / 7!, and x is clamped to -87 to 87. The logistic function has a
//! relative error of less than 2⁻²³.

/// 1 / ln 2.
const PER_LN_2: f64 = std::f64::consts::LOG2_E;
/// ln 2 in two parts. The first ends in zeros, so its product with k is exact.
const LN_2: [f64; 2] = [6.931_471_803_691_238e-1, 1.908_214_929_270_587_7e-10];
/// Adding this to a number rounds it to an integer, which is then in the lowest bits.
const ROUNDING: f64 = 6_755_399_441_055_744.0; // 1.5 * 2⁵²
/// 1 / 13! to 1 / 0!.
const COEFFICIENTS: [f64; 14] = [
    1.0 / 6_227_020_800.0,
    1.0 / 479_001_600.0,
    1.0 / 39_916_800.0,
    1.0 / 3_628_800.0,
    1.0 / 362_880.0,
    1.0 / 40_320.0,
    1.0 / 5_040.0,
    1.0 / 720.0,
    1.0 / 120.0,
    1.0 / 24.0,
    1.0 / 6.0,
    0.5,
    1.0,
    1.0,
];

/// 1 / ln 2 in f32.
const PER_LN_2_F32: f32 = std::f32::consts::LOG2_E;
/// ln 2 in two parts, of which the first has 9 bits.
const LN_2_F32: [f32; 2] = [355.0 / 512.0, -2.121_944_4e-4];
/// The constant for rounding in f32.
const ROUNDING_F32: f32 = 12_582_912.0; // 1.5 * 2²³
/// 1 / 7! to 1 / 0!.
const COEFFICIENTS_F32: [f32; 8] =
    [1.0 / 5_040.0, 1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0];

/// eˣ; NaN stays NaN.
#[inline(always)]
pub(crate) fn exp(x: f64) -> f64 {
    let x = if x > 700.0 { 700.0 } else { x };
    let x = if x < -700.0 { -700.0 } else { x };
    let rounded = x * PER_LN_2 + ROUNDING;
    let k = rounded - ROUNDING;
    let r = (x - k * LN_2[0]) - k * LN_2[1];
    let [first, rest @ ..] = COEFFICIENTS;
    let of_r = rest.into_iter().fold(first, |sum, coefficient| sum * r + coefficient);
    of_r * f64::from_bits(rounded.to_bits().wrapping_add(1023) << 52)
}

/// eˣ in f32; NaN stays NaN.
#[inline(always)]
pub(crate) fn exp_f32(x: f32) -> f32 {
    let x = if x > 87.0 { 87.0 } else { x };
    let x = if x < -87.0 { -87.0 } else { x };
    let rounded = x * PER_LN_2_F32 + ROUNDING_F32;
    let k = rounded - ROUNDING_F32;
    let r = (x - k * LN_2_F32[0]) - k * LN_2_F32[1];
    let [first, rest @ ..] = COEFFICIENTS_F32;
    let of_r = rest.into_iter().fold(first, |sum, coefficient| sum * r + coefficient);
    of_r * f32::from_bits(rounded.to_bits().wrapping_add(127) << 23)
}

/// 1 / (1 + e⁻ˣ) in f32.
#[inline(always)]
pub(crate) fn sigmoid_f32(x: f32) -> f32 {
    1.0 / (1.0 + exp_f32(-x))
}

/// 1 / (1 + e⁻ˣ).
#[inline(always)]
pub(crate) fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + exp(-x))
}

/// 1 - 2 / (1 + e²ˣ).
#[inline(always)]
pub(crate) fn tanh(x: f64) -> f64 {
    1.0 - 2.0 / (1.0 + exp(2.0 * x))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_near_those_of_the_library() {
        for step in -70_000..=70_000 {
            let x = f64::from(step) * 0.01 + 1e-4;
            let (found, expected) = (exp(x), libm::exp(x.clamp(-700.0, 700.0)));
            assert!((found - expected).abs() <= 2.0 * f64::EPSILON * expected, "{x}");
            let x = f64::from(step) * 1e-3;
            assert!((sigmoid(x) - 1.0 / (1.0 + libm::exp(-x))).abs() < 4e-16, "{x}");
            assert!((tanh(x) - libm::tanh(x)).abs() < 4e-16, "{x}");
        }
    }

    #[test]
    fn those_in_f32_are_near_those_of_the_library() {
        for step in -8_600..=8_600 {
            let x = step as f32 * 0.01;
            let expected = 1.0 / (1.0 + libm::exp(-f64::from(x)));
            let error = (f64::from(sigmoid_f32(x)) - expected).abs();
            assert!(error < f64::from(f32::EPSILON) * expected, "{x}");
        }
        let far = [f32::INFINITY, f32::MAX, f32::NEG_INFINITY, f32::MIN].map(sigmoid_f32);
        assert!(far[..2] == [1.0; 2] && far[2..].iter().all(|s| (0.0..1e-37).contains(s)));
        assert!(sigmoid_f32(f32::NAN).is_nan());
    }

    #[test]
    fn ends_are_where_they_should() {
        assert_eq!([exp(0.0), sigmoid(0.0), tanh(0.0)], [1.0, 0.5, 0.0]);
        let far = [f64::INFINITY, f64::MAX, f64::NEG_INFINITY, f64::MIN];
        assert_eq!(far.map(tanh), [1.0, 1.0, -1.0, -1.0]);
        assert!(
            far.map(sigmoid).into_iter().zip([1.0, 1.0, 0.0, 0.0]).all(|(s, e)| s - e < 1e-300)
        );
        assert!([exp(f64::NAN), sigmoid(f64::NAN), tanh(f64::NAN)].iter().all(|of| of.is_nan()));
    }

    /// Computed in Python, which has the same floats, with the same sums and products.
    #[test]
    fn published_vectors_hold() {
        let bits = [0.1, -3.7, 250.0].map(|x| exp(x).to_bits());
        assert_eq!(bits, [0x3ff1_aec7_b35a_00d4, 0x3f99_511f_c687_1044, 0x5679_860a_fea3_876c]);
        let bits = [0.1, -3.7, 60.0].map(|x| sigmoid_f32(x).to_bits());
        assert_eq!(bits, [0x3f06_6509, 0x3cc5_a607, 0x3f80_0000]);
    }
}
