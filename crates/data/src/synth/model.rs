//! The planted model: draws an example's columns and its click.

use stepwell_base::random::{Stream, finalize};

use super::options::{DENSE, ID_COLUMNS, SynthOptions};
use super::zipf::Zipf;
use crate::log1p::Log1p;

/// Means a missing id; real ones have 40 bits.
pub(super) const MISSING: u64 = u64::MAX;

const ID_MASK: u64 = (1 << 40) - 1;

/// Weights of dense features are within plus and minus this.
const DENSE_WEIGHT: f32 = 0.15;

/// Number of examples for calibrating the intercept.
const CALIBRATION_EXAMPLES: u64 = 4096;

/// Share of missing values, mean and standard deviation of ln(1 + x), for each dense feature of
/// a real sample.
const DENSE_SHAPES: [(f32, f32, f32); DENSE] = [
    (0.20, 2.24, 1.20),
    (0.10, 5.20, 1.58),
    (0.23, 1.69, 0.89),
    (0.26, 3.57, 1.70),
    (0.41, 2.15, 1.23),
    (0.07, 0.46, 0.82),
    (0.02, 0.07, 0.29),
    (0.00, 2.22, 2.10),
    (0.00, 1.83, 1.23),
    (0.07, 0.22, 0.36),
    (0.41, 1.31, 0.72),
    (0.01, 7.57, 2.78),
    (0.23, 1.76, 0.93),
];

/// Share of missing ids, in hundredths, for each id column of a real sample.
const MISSING_PERCENT: [u64; ID_COLUMNS] =
    [4, 0, 0, 0, 0, 0, 0, 0, 0, 4, 4, 0, 0, 42, 0, 42, 42, 0, 0, 4, 4, 4, 42, 0, 0, 0];

/// An example, before it becomes text or keys.
#[derive(Clone, Debug)]
pub(super) struct Example {
    pub(super) dense: [Option<u32>; DENSE],
    /// 40 bits each, or [`MISSING`].
    pub(super) ids: [u64; ID_COLUMNS],
    /// Probability of a click.
    pub(super) truth: f64,
    pub(super) click: bool,
}

/// Features of an example.
struct Features {
    dense: [Option<u32>; DENSE],
    ids: [u64; ID_COLUMNS],
    /// Sum of their effects.
    logit: f64,
}

/// Distribution of a column's ids.
#[derive(Clone, Debug)]
struct IdColumn {
    zipf: Zipf,
    /// Draws below this are missing.
    missing: u64,
    /// Separates the ids of this column from those of other columns.
    id_salt: u64,
    effect_salt: u64,
}

/// Parameters from which examples are drawn.
#[derive(Clone, Debug)]
pub(super) struct Model {
    seed: u64,
    id_columns: Vec<IdColumn>,
    dense_weights: [f32; DENSE],
    /// An id's effect is uniform within plus and minus this.
    effect_range: f32,
    interactions: usize,
    interaction_scale: f32,
    intercept: f64,
}

impl Model {
    pub(super) fn new(options: &SynthOptions) -> Self {
        let vocabularies = options.vocabularies();
        let column = |column: usize| column_of(options, column, vocabularies[column]);
        let mut weights = Stream::named(options.seed, b"dense weights");
        // The standard deviation of a uniform number within plus and minus r is r / sqrt(3).
        let effect_range = options.id_effect * 3f32.sqrt();
        let mut model = Self {
            seed: options.seed,
            id_columns: (0..ID_COLUMNS).map(column).collect(),
            dense_weights: std::array::from_fn(|_| weights.next_symmetric(DENSE_WEIGHT)),
            effect_range,
            interactions: options.interactions,
            // Latents are uniform within plus and minus 1, so their product has deviation 1/3.
            interaction_scale: 3.0 * options.id_effect,
            intercept: 0.0,
        };
        model.intercept = model.intercept_for(options.click_rate);
        model
    }

    /// Example number `index`, a function of only the options and the index.
    pub(super) fn example(&self, index: u64) -> Example {
        let mut stream = example_stream(self.seed, b"example ", index);
        let Features { dense, ids, logit } = self.features(&mut stream);
        let truth = sigmoid(self.intercept + logit);
        Example { dense, ids, truth, click: stream.next_f64() < truth }
    }

    #[inline]
    fn features(&self, stream: &mut Stream) -> Features {
        let log1p = Log1p::new();
        let mut sum = 0.0f32;
        let dense = std::array::from_fn(|column| {
            let (missing, mean, deviation) = DENSE_SHAPES[column];
            let value = dense_value(stream.next_u64(), missing, mean, deviation)?;
            sum += self.dense_weights[column] * log1p.of(value);
            Some(value)
        });
        let (mut ids, mut latents) = ([MISSING; ID_COLUMNS], [0.0f32; ID_COLUMNS]);
        for (column, (id, latent)) in self.id_columns.iter().zip(ids.iter_mut().zip(&mut latents)) {
            *id = column.id(stream);
            let bits = finalize(*id ^ column.effect_salt);
            sum += symmetric(bits >> 40) * self.effect_range;
            *latent = symmetric(bits & 0xFF_FFFF);
        }
        let (left, right) = latents.split_at(ID_COLUMNS / 2);
        let pairs = left.iter().zip(right).take(self.interactions);
        let together: f32 = pairs.map(|(a, b)| a * b * self.interaction_scale).sum();
        Features { dense, ids, logit: f64::from(sum + together) }
    }

    /// Finds, by bisection, the intercept for a mean click probability of `rate`.
    fn intercept_for(&self, rate: f64) -> f64 {
        let logit = |index| {
            let mut stream = example_stream(self.seed, b"intercpt", index);
            self.features(&mut stream).logit
        };
        let logits: Vec<f64> = (0..CALIBRATION_EXAMPLES).map(logit).collect();
        let mean = |intercept: f64| {
            let sum: f64 = logits.iter().map(|logit| sigmoid(intercept + logit)).sum();
            sum / logits.len() as f64
        };
        let (mut low, mut high) = (-200.0, 200.0);
        for _ in 0..40 {
            let middle = 0.5 * (low + high);
            if mean(middle) < rate { low = middle } else { high = middle }
        }
        0.5 * (low + high)
    }

    pub(super) fn distinct_ids(&self, examples: u64) -> f64 {
        let distinct = |column: &IdColumn| {
            let missing = column.missing as f64 / u64::MAX as f64;
            let seen_missing = -libm::expm1(examples as f64 * libm::log1p(-missing));
            column.zipf.distinct(examples as f64 * (1.0 - missing)) + seen_missing
        };
        self.id_columns.iter().map(distinct).sum()
    }

    pub(super) fn bytes(&self) -> usize {
        let id_columns =
            self.id_columns.iter().map(|column| size_of::<IdColumn>() + column.zipf.bytes());
        id_columns.sum()
    }
}

fn column_of(options: &SynthOptions, column: usize, vocabulary: u64) -> IdColumn {
    let mut name = *b"slot 000";
    name[5..].copy_from_slice(format!("{column:03}").as_bytes());
    let mut salts = Stream::named(options.seed, &name);
    IdColumn {
        zipf: Zipf::new(vocabulary, options.zipf),
        missing: MISSING_PERCENT[column] * (u64::MAX / 100),
        id_salt: salts.next_u64(),
        effect_salt: salts.next_u64(),
    }
}

/// Random numbers of one example.
#[inline]
fn example_stream(seed: u64, purpose: &[u8; 8], index: u64) -> Stream {
    let mut name = [0; 16];
    name[..8].copy_from_slice(purpose);
    name[8..].copy_from_slice(&index.to_le_bytes());
    Stream::named(seed, &name)
}

impl IdColumn {
    #[inline]
    fn id(&self, stream: &mut Stream) -> u64 {
        if self.missing > 0 && stream.next_u64() < self.missing {
            return MISSING;
        }
        let rank = self.zipf.rank(stream.next_u64(), stream.next_u64());
        scatter(rank, self.id_salt)
    }
}

/// A bijection of 40-bit numbers, so that distinct ranks have distinct ids.
#[inline]
fn scatter(rank: u64, salt: u64) -> u64 {
    // Xor, odd factors and xor-shifts are bijections on 40 bits.
    let mut x = (rank ^ salt) & ID_MASK;
    x = x.wrapping_mul(0x9E_3779_B97F) & ID_MASK;
    x ^= x >> 21;
    x = x.wrapping_mul(0xBF_5847_6D1D) & ID_MASK;
    x ^ (x >> 19)
}

/// Turns 24 bits into a number uniform in [-1, 1).
#[inline]
fn symmetric(bits: u64) -> f32 {
    bits as f32 * (2.0 / (1u32 << 24) as f32) - 1.0
}

/// An integer whose ln(1 + x) is nearly normal, or a missing value.
#[inline]
fn dense_value(bits: u64, missing: f32, mean: f32, deviation: f32) -> Option<u32> {
    let part = |shift: u32| ((bits >> shift) & 0xFFFF) as f32 / 65_536.0;
    if part(0) < missing {
        return None;
    }
    // The sum of three uniform numbers has mean 3/2 and variance 1/4.
    let normal = 2.0 * (part(16) + part(32) + part(48) - 1.5);
    Some((libm::expf(mean + deviation * normal) - 0.5).max(0.0) as u32)
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + libm::exp(-x))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log1p::log1p_of;
    use std::collections::HashSet;

    #[test]
    fn distinct_ranks_have_distinct_ids() {
        let ids: HashSet<u64> = (1..=100_000).map(|rank| scatter(rank, 0x1234_5678_9abc)).collect();
        assert_eq!(ids.len(), 100_000);
        assert!(ids.iter().all(|id| *id <= ID_MASK));
        // Few leading zeros: low bits affect high digits.
        assert!(ids.iter().filter(|id| **id < 1 << 32).count() < 1000);
    }

    #[test]
    fn dense_values_have_the_shape_asked_for() {
        let mut stream = Stream::named(1, b"shape");
        let mut value = || dense_value(stream.next_u64(), 0.2, 5.2, 1.58);
        let values: Vec<Option<u32>> = (0..20_000).map(|_| value()).collect();
        let known: Vec<f32> = values.iter().flatten().map(|x| log1p_of(i64::from(*x))).collect();
        let mean = known.iter().sum::<f32>() / known.len() as f32;
        assert!((mean - 5.2).abs() < 0.1, "{mean}");
        let share = 1.0 - known.len() as f32 / values.len() as f32;
        assert!((share - 0.2).abs() < 0.02, "{share}");
    }
}
