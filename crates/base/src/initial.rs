//! Distributions of a row's initial embedding weights.

use std::f64::consts::TAU;

use crate::ids::{Key, TableId};
use crate::random::{self, Stream};

/// Distribution of initial embedding weights. The weights of a row are a function of seed, table
/// and key alone (invariant I3).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Initial {
    /// Uniform in [-range, range).
    Uniform {
        /// Bound of the weights.
        range: f32,
    },
    /// Normal with mean 0, by the transform of Box and Muller (Annals of Mathematical Statistics
    /// 29, 1958).
    Normal {
        /// Standard deviation.
        std: f32,
    },
    /// All equal.
    Constant {
        /// The weight.
        value: f32,
    },
}

impl Initial {
    /// Writes the initial weights of the row of `key`: the embedding's weights, then zeros.
    #[inline]
    pub fn write(
        &self,
        seed: u64,
        table: TableId,
        key: Key,
        embedding: usize,
        weights: &mut [f32],
    ) {
        match *self {
            Self::Uniform { range } => {
                random::initial_weights(seed, table, key, range, embedding, weights);
            }
            Self::Normal { std } => {
                let (normal, zero) = weights.split_at_mut(embedding);
                write_normal(Stream::of_row(seed, table, key), std, normal);
                zero.fill(0.0);
            }
            Self::Constant { value } => {
                let (constant, zero) = weights.split_at_mut(embedding);
                constant.fill(value);
                zero.fill(0.0);
            }
        }
    }
}

/// Fills `weights` with normal numbers, two from each two uniform ones. The functions are `libm`'s,
/// which have the same bits on every machine, unlike the system's.
fn write_normal(mut stream: Stream, std: f32, weights: &mut [f32]) {
    for pair in weights.chunks_mut(2) {
        // In (0, 1], whose logarithm is finite.
        let radius = libm::sqrt(-2.0 * libm::log(1.0 - stream.next_f64()));
        let (sin, cos) = libm::sincos(TAU * stream.next_f64());
        for (weight, direction) in pair.iter_mut().zip([cos, sin]) {
            *weight = (f64::from(std) * radius * direction) as f32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weights(initial: Initial, key: u64, count: usize) -> Vec<f32> {
        let mut weights = vec![7.0; count + 1];
        initial.write(3, TableId(1), Key(key), count, &mut weights);
        assert_eq!(weights.pop(), Some(0.0), "a first-order weight");
        weights
    }

    #[test]
    fn each_has_its_distribution() {
        let mut moments = [0.0f64; 4];
        for weight in (0..4000).flat_map(|key| weights(Initial::Normal { std: 0.5 }, key, 25)) {
            let z = f64::from(weight) / 0.5;
            moments.iter_mut().zip(1..).for_each(|(sum, power)| *sum += z.powi(power) / 1e5);
        }
        // Standard errors are 0.003, 0.0045, 0.012 and 0.031.
        for (moment, wanted, error) in
            [(0, 0.0, 0.01), (1, 1.0, 0.015), (2, 0.0, 0.05), (3, 3.0, 0.12)]
        {
            assert!((moments[moment] - wanted).abs() < error, "{moment}: {moments:?}");
        }
        assert_eq!(weights(Initial::Constant { value: 0.25 }, 1, 3), [0.25; 3]);
        let uniform = weights(Initial::Uniform { range: 0.1 }, 1, 100);
        assert!(uniform.iter().all(|weight| (-0.1..0.1).contains(weight)));
    }

    /// Checkpoints depend on these bits.
    /// Python's double-precision functions give the same for the numbers of SplitMix64.
    #[test]
    fn normal_weights_have_fixed_bits() {
        let mut weights = [0.0; 3];
        write_normal(Stream::from_state(1_234_567), 1.0, &mut weights);
        assert_eq!(weights, [0.428_487_9, 0.823_534_3, 0.007_685_698_6]);
    }
}
