//! Normal and uniform numbers from a stream, with random access by index.
//!
//! Normal number i of stream s, by Box and Muller (1958), is
//!
//! ```text
//! √(-2 ln u) cos(2 π v)     u = (⌊s(2i)   / 2¹¹⌋ + 1) / 2⁵³  in (0, 1]
//!                           v =  ⌊s(2i+1) / 2¹¹⌋      / 2⁵³  in [0, 1)
//! ```
//!
//! in f64, where s(k) is the k-th number of the stream. Uniform number i is ⌊s(i) / 2¹¹⌋ / 2⁵³.
//! Logarithm and cosine are pure Rust and square roots are exact, so the bits are the same
//! everywhere.

use std::f64::consts::TAU;

use stepwell_base::random::Stream;

/// 2⁻⁵³.
const UNIT: f64 = 1.0 / (1u64 << 53) as f64;

/// Normal number `index` of the stream, with mean 0 and deviation 1.
pub(crate) fn normal(stream: &Stream, index: u64) -> f64 {
    let bits = |number: u64| (stream.at(number) >> 11) as f64;
    let radius = (-2.0 * libm::log((bits(2 * index) + 1.0) * UNIT)).sqrt();
    radius * libm::cos(TAU * (bits(2 * index + 1) * UNIT))
}

/// Uniform number `index` of the stream, in [0, 1).
pub(crate) fn uniform(stream: &Stream, index: u64) -> f64 {
    (stream.at(index) >> 11) as f64 * UNIT
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed in Python with xxhash.xxh3_64_intdigest, SplitMix64, math.log and math.cos.
    #[test]
    fn published_vectors_hold() {
        let stream = Stream::named(7, b"dense/hidden0/weight");
        let expected = [
            1.003_566_432_487_818_8,
            -1.699_485_658_263_063,
            -0.954_717_003_721_291_1,
            -0.723_981_903_624_870_5,
            -0.454_389_545_624_548_54,
        ];
        for (index, expected) in (0..).zip(expected) {
            let number: f64 = normal(&stream, index);
            assert!((number - expected).abs() < 1e-15, "{index}: {number} {expected}");
        }
        let expected = [0.063_779_042_431_821_86, 0.820_345_222_736_517_2];
        assert_eq!([0, 1].map(|index| uniform(&stream, index)), expected);
    }

    #[test]
    fn moments_are_those_of_normal_numbers() {
        let stream = Stream::named(1, b"moments");
        let numbers: Vec<f64> = (0..200_000).map(|index| normal(&stream, index)).collect();
        let mean = |power: i32| numbers.iter().map(|n| n.powi(power)).sum::<f64>() / 2e5;
        let moments = [1, 2, 3, 4].map(mean);
        for (moment, (expected, deviation)) in
            moments.into_iter().zip([(0.0, 1.0), (1.0, 1.41), (0.0, 3.87), (3.0, 9.8)])
        {
            // Four standard deviations of the mean of 2e5 numbers.
            assert!((moment - expected).abs() < 4.0 * deviation / 2e5f64.sqrt(), "{moments:?}");
        }
    }
}
