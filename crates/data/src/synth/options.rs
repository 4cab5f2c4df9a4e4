//! What a built-in stream is like.

use crate::{DataError, Schema};

/// Distinct ids of each id column in a real day of ad clicks, before scaling.
const VOCABULARIES: [u64; ID_COLUMNS] = [
    24_777, 6_440, 8_356, 2_567, 6_273, 3, 4_789, 922, 23, 21_397, 9_325, 13_755, 9, 1_084, 3_270,
    48, 3, 424, 14, 26_716, 16_156, 23_486, 7_889, 5_773, 38, 32,
];

/// Vocabularies up to this size are lists of things that do not grow with traffic.
const FIXED_VOCABULARY_MAX: u64 = 100;

/// Ids are 40 bits wide, so no id column has more of them.
pub(super) const VOCABULARY_MAX: u64 = 1 << 40;

pub(super) const DENSE: usize = Schema::CRITEO.dense;
pub(super) const ID_COLUMNS: usize = Schema::CRITEO.id_columns;

/// Pairs of id columns that can interact: the first half of them with the second.
pub const INTERACTIONS_MAX: usize = ID_COLUMNS / 2;

/// What a built-in stream is like; the stream is a function of this and of nothing else.
#[derive(Clone, Debug, PartialEq)]
pub struct SynthOptions {
    /// Names the world: ids, effects, examples.
    pub seed: u64,
    /// Length of the stream.
    pub examples: u64,
    /// Times the ids of a real sample of 80,000 examples (184 thousand ids in all).
    pub vocab_scale: f64,
    /// Exponent of the ids' frequencies: the k-th most frequent has weight 1 / k^zipf.
    pub zipf: f64,
    /// Mean click probability.
    pub click_rate: f64,
    /// Standard deviation, in logits, of an id's effect on the click.
    pub id_effect: f32,
    /// Pairs of id columns whose ids act together as well.
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
    /// Length of the stream that everybody means who says nothing else.
    pub const EXAMPLES: u64 = 3_000_000;
    /// Its ids, times those of a real sample: several times what the memory of the built-in
    /// example of `stepwell train` holds.
    pub const VOCAB_SCALE: f64 = 40.0;

    /// Refuses numbers out of range.
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
            return Err(DataError::Options("a stream of 0 examples".to_owned()));
        }
        Ok(())
    }

    /// Ids that each id column can have, the missing one aside.
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
