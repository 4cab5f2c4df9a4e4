//! Options of a built-in stream.

use crate::error::DataError;
use crate::schema::Schema;

/// Distinct ids of each id column in a real day of ad clicks, before scaling.
const VOCABULARIES: [u64; ID_COLUMNS] = [
    24_777, 6_440, 8_356, 2_567, 6_273, 3, 4_789, 922, 23, 21_397, 9_325, 13_755, 9, 1_084, 3_270,
    48, 3, 424, 14, 26_716, 16_156, 23_486, 7_889, 5_773, 38, 32,
];

/// Vocabularies up to this size are enumerations, which don't grow with traffic.
const FIXED_VOCABULARY_MAX: u64 = 100;

/// Ids have 40 bits, which bounds the ids of a column.
pub(super) const VOCABULARY_MAX: u64 = 1 << 40;

pub(super) const DENSE: usize = Schema::CRITEO.dense;
pub(super) const ID_COLUMNS: usize = Schema::CRITEO.id_columns;

/// Most pairs of interacting id columns: the first half of the columns with the second.
pub const INTERACTIONS_MAX: usize = ID_COLUMNS / 2;

/// Options of a built-in stream, which determine it completely.
#[derive(Clone, Debug, PartialEq)]
pub struct SynthOptions {
    /// Seed of ids, effects and examples.
    pub seed: u64,
    /// Length of the stream.
    pub examples: u64,
    /// Number of ids, relative to a real sample of 80,000 examples with 184 thousand ids.
    pub vocab_scale: f64,
    /// Exponent of the ids' frequencies: the k-th most frequent one has weight 1 / k^zipf.
    pub zipf: f64,
    /// Mean click probability.
    pub click_rate: f64,
    /// Standard deviation, in logits, of an id's effect on the click.
    pub id_effect: f32,
    /// Pairs of id columns whose ids also interact.
    pub interactions: usize,
}

impl Default for SynthOptions {
    fn default() -> Self {
        Self {
            seed: 1,
            examples: Self::EXAMPLES,
            vocab_scale: Self::VOCAB_SCALE,
            zipf: 1.05,
            click_rate: 0.25,
            id_effect: 0.35,
            interactions: 6,
        }
    }
}

impl SynthOptions {
    /// Default length of the stream.
    pub const EXAMPLES: u64 = 3_000_000;
    /// Default scale of the vocabulary: several times what fits in memory in the built-in example
    /// of `stepwell train`.
    pub const VOCAB_SCALE: f64 = 40.0;

    /// Checks the range of every option.
    ///
    /// # Errors
    /// [`DataError::Options`] with the name, the value and the range.
    pub fn check(&self) -> Result<(), DataError> {
        let within = |name: &str, value: f64, least: f64, most: f64| {
            if (least..=most).contains(&value) {
                return Ok(());
            }
            Err(DataError::Options(format!("{name} is {value}, not within {least} to {most}")))
        };
        within("vocab_scale", self.vocab_scale, 1e-6, 1e7)?;
        within("zipf", self.zipf, 0.0, 10.0)?;
        within("click_rate", self.click_rate, 0.001, 0.999)?;
        within("id_effect", f64::from(self.id_effect), 0.0, 10.0)?;
        within("interactions", self.interactions as f64, 0.0, INTERACTIONS_MAX as f64)?;
        if self.examples == 0 {
            return Err(DataError::Options("a stream of 0 examples: give at least 1".to_owned()));
        }
        Ok(())
    }

    /// Vocabulary size of each id column, without the missing id.
    pub fn vocabularies(&self) -> [u64; ID_COLUMNS] {
        VOCABULARIES.map(|ids| {
            if ids <= FIXED_VOCABULARY_MAX {
                return ids;
            }
            let scaled = libm::round(ids as f64 * self.vocab_scale) as u64;
            scaled.clamp(1, VOCABULARY_MAX)
        })
    }
}
