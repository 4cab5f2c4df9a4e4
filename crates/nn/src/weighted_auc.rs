//! Area under the ROC curve of examples that count for more or less: a pair of a positive and a
//! negative one counts as the product of their weights.
//!
//! As [`Auc`](crate::Auc): exact while the scores fit a stated buffer, in bins of their top 20 bits
//! beyond it. Weights of equal scores are summed in the order in which they came, so that the same
//! data gives the same bits.
//!
//! - **Bounds.** 8 bytes a score up to 4 Mi scores; then 16 MiB of bins instead.

use crate::AucValue;
use crate::auc::{BIN_BITS, EXACT_SCORES_MAX, ordered, shown_bits, shown_together};

/// A weighted AUC in the making.
#[derive(Debug)]
pub struct WeightedAuc {
    exact_max: usize,
    /// Scores in their order, and weights: those of negatives with a sign.
    scores: Vec<(u32, f32)>,
    /// Weights of negatives and positives.
    bins: Vec<[f64; 2]>,
}

impl WeightedAuc {
    /// Keeps up to `exact` scores one by one.
    pub fn new(exact: usize) -> Self {
        let exact_max = exact.min(EXACT_SCORES_MAX);
        Self { exact_max, scores: Vec::new(), bins: Vec::new() }
    }

    /// The most bytes that it takes for `examples` scores.
    pub fn bytes_max(examples: u64) -> u64 {
        let kept = examples.min(EXACT_SCORES_MAX as u64) * size_of::<(u32, f32)>() as u64;
        // A list that grows has room for twice as many; sorting in order takes half as much again.
        let kept = 3 * kept;
        if examples > EXACT_SCORES_MAX as u64 { kept + (16 << BIN_BITS) } else { kept }
    }

    /// Adds a score with its label and weight, 0 or more.
    pub fn add(&mut self, score: f32, is_positive: bool, weight: f32) {
        if self.bins.is_empty() && self.scores.len() == self.exact_max {
            self.bins = vec![[0.0; 2]; 1 << BIN_BITS];
            for (score, weight) in std::mem::take(&mut self.scores) {
                put(&mut self.bins, score, weight);
            }
        }
        let signed = if is_positive { weight } else { -weight };
        match self.bins.is_empty() {
            true => self.scores.push((ordered(score), signed)),
            false => put(&mut self.bins, ordered(score), signed),
        }
    }

    /// The value, `None` unless both labels occurred with some weight; empty afterwards.
    pub fn take(&mut self) -> Option<AucValue> {
        self.take_shown(|score| score)
    }

    /// The same of the scores as they are `shown`, which never falls where they rise.
    pub fn take_shown(&mut self, shown: fn(f32) -> f32) -> Option<AucValue> {
        let (mut scores, bins) = (std::mem::take(&mut self.scores), std::mem::take(&mut self.bins));
        let mut sums = Sums::default();
        if bins.is_empty() {
            scores.iter_mut().for_each(|(score, _)| *score = shown_bits(*score, shown));
            // In the order in which they came where they are equal.
            scores.sort_by_key(|(score, _)| *score);
            for equal in scores.chunk_by(|one, other| one.0 == other.0) {
                let mut both = [0.0; 2];
                equal.iter().for_each(|(_, weight)| add(&mut both, *weight));
                sums.add(both, both);
            }
        } else {
            let is_filled = |bin: &usize| bins[*bin] != [0.0; 2];
            let filled: Vec<usize> = (0..bins.len()).filter(is_filled).collect();
            for (of, alike) in shown_together(&filled, shown) {
                let sum = |of: &[usize]| {
                    [0, 1].map(|label| of.iter().map(|bin| bins[*bin][label]).sum::<f64>())
                };
                sums.add(sum(of), sum(alike));
            }
        }
        sums.value()
    }
}

fn put(bins: &mut [[f64; 2]], score: u32, weight: f32) {
    add(&mut bins[(score >> (32 - BIN_BITS)) as usize], weight);
}

/// Adds a weight to those of the negatives, whose weights have a sign, or of the positives.
fn add(both: &mut [f64; 2], weight: f32) {
    both[usize::from(weight.is_sign_positive())] += f64::from(weight.abs());
}

/// Weights of all scores so far, and of the pairs that they make.
#[derive(Default)]
struct Sums {
    negatives: f64,
    positives: f64,
    won: f64,
    tied: f64,
}

impl Sums {
    /// Adds scores that count as equal, and which of them are.
    fn add(&mut self, [negative, positive]: [f64; 2], alike: [f64; 2]) {
        self.won += positive * (self.negatives + negative / 2.0);
        self.tied += positive * negative - alike[0] * alike[1];
        self.negatives += negative;
        self.positives += positive;
    }

    fn value(&self) -> Option<AucValue> {
        let pairs = self.positives * self.negatives;
        let value = AucValue { auc: self.won / pairs, error_max: self.tied / 2.0 / pairs };
        (pairs > 0.0).then_some(value)
    }
}

#[cfg(test)]
mod tests {
    use stepwell_base::random::Stream;

    use super::*;
    use crate::Auc;

    /// Scores with ties, labels, and small whole weights.
    fn sample(seed: u64) -> Vec<(f32, bool, u32)> {
        let mut random = Stream::from_state(seed);
        let mut one = || {
            let score = random.next_symmetric(20.0).round() / 3.0;
            (score, random.next_f32() < 0.4 + 0.05 * score, (random.next_u64() % 4) as u32)
        };
        (0..300).map(|_| one()).collect()
    }

    #[test]
    fn an_example_of_weight_three_is_three_examples() {
        for (seed, exact) in (0..20).zip([1000, 100].into_iter().cycle()) {
            let (mut weighted, mut plain) = (WeightedAuc::new(exact), Auc::new(1000));
            for (score, label, weight) in sample(seed) {
                weighted.add(score, label, weight as f32);
                (0..weight).for_each(|_| plain.add(&[score], &[f32::from(u8::from(label))]));
            }
            let (found, expected) = (weighted.take().unwrap(), plain.take().unwrap());
            let off = (found.auc - expected.auc).abs();
            assert!(off <= found.error_max + 1e-12, "{found:?} {expected:?}");
            assert_eq!(found.error_max == 0.0, exact == 1000);
        }
    }

    #[test]
    fn weight_of_both_labels_makes_an_auc() {
        let mut auc = WeightedAuc::new(10);
        assert_eq!(auc.take(), None);
        auc.add(0.5, true, 1.0);
        auc.add(0.25, false, 0.0);
        assert_eq!(auc.take(), None);
        auc.add(0.5, true, 1.0);
        auc.add(0.25, false, 0.5);
        assert_eq!(auc.take().map(|value| value.auc), Some(1.0));
    }
}
