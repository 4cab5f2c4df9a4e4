//! Area under the ROC curve of weighted examples: a pair of a positive and a negative example
//! counts as the product of their weights. An example with label p is a positive one with fraction
//! p of its weight, and a negative one with the rest.
//!
//! Like [`Auc`](crate::Auc), exact while the scores fit a buffer, and in bins of their top 20 bits
//! beyond it. Weights of equal scores are summed in the order of arrival, so that the same data
//! gives the same bits.
//!
//! - **Bounds.** 12 bytes per score up to 4 Mi scores; beyond that, 16 MiB of bins instead.

use crate::calibration::CalibrationBins;
use crate::score_bits::{
    AucValue, BIN_BITS, EXACT_SCORES_MAX, Ranked, middle, number, ordered, shown_bits,
    shown_together,
};

/// Accumulates a weighted AUC.
#[derive(Debug)]
pub struct WeightedAuc {
    exact_max: usize,
    scores: Vec<Entry>,
    /// Weights of negatives and positives per bin.
    bins: Vec<[f64; 2]>,
}

/// A stored score.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Bits that sort like scores.
    score: u32,
    label: f32,
    weight: f32,
}

impl WeightedAuc {
    /// An accumulator that stores up to `exact` scores individually.
    pub fn new(exact: usize) -> Self {
        let exact_max = exact.min(EXACT_SCORES_MAX);
        Self { exact_max, scores: Vec::new(), bins: Vec::new() }
    }

    /// Most bytes for `examples` scores.
    pub fn bytes_max(examples: u64) -> u64 {
        let kept = examples.min(EXACT_SCORES_MAX as u64) * size_of::<Entry>() as u64;
        // A growing vector may allocate twice its length; stable sorting takes half of that again.
        let kept = 3 * kept;
        if examples > EXACT_SCORES_MAX as u64 { kept + (16 << BIN_BITS) } else { kept }
    }

    /// An accumulator that starts with `counts`, the unweighted negatives and positives of each
    /// bin.
    pub(crate) fn of_bins(counts: &[[u64; 2]]) -> Self {
        let bins = counts.iter().map(|both| both.map(|count| count as f64)).collect();
        Self { exact_max: 0, scores: Vec::new(), bins }
    }

    /// Adds a score with its label, from 0 to 1, and its weight, at least 0.
    pub fn add(&mut self, score: f32, label: f32, weight: f32) {
        self.add_ordered(ordered(score), label, weight);
    }

    /// Adds a score given by its ordered bits.
    pub(crate) fn add_ordered(&mut self, score: u32, label: f32, weight: f32) {
        if self.bins.is_empty() && self.scores.len() == self.exact_max {
            self.bins = vec![[0.0; 2]; 1 << BIN_BITS];
            for entry in std::mem::take(&mut self.scores) {
                put(&mut self.bins, entry);
            }
        }
        let entry = Entry { score, label, weight };
        match self.bins.is_empty() {
            true => self.scores.push(entry),
            false => put(&mut self.bins, entry),
        }
    }

    /// Returns the value and resets; `None` unless both labels occurred with some weight.
    pub fn take(&mut self) -> Option<AucValue> {
        self.take_shown(|score| score).auc
    }

    /// Like [`Self::take`], for the scores as displayed by `shown`, a nondecreasing function whose
    /// values are the predictions.
    pub fn take_shown(&mut self, shown: fn(f32) -> f32) -> Ranked {
        let (mut scores, bins) = (std::mem::take(&mut self.scores), std::mem::take(&mut self.bins));
        let mut sums = Sums::default();
        let all = scores.iter().map(|entry| f64::from(entry.weight)).sum::<f64>()
            + bins.iter().flatten().sum::<f64>();
        let mut calibration = CalibrationBins::new(all);
        if bins.is_empty() {
            scores.iter_mut().for_each(|entry| entry.score = shown_bits(entry.score, shown));
            // Stable: equal scores stay in the order of arrival.
            scores.sort_by_key(|entry| entry.score);
            for equal in scores.chunk_by(|one, other| one.score == other.score) {
                let mut both = [0.0; 2];
                equal.iter().for_each(|entry| add(&mut both, *entry));
                sums.add(both, both);
                calibration.add(number(equal[0].score), both);
            }
        } else {
            let is_filled = |bin: &usize| bins[*bin] != [0.0; 2];
            let filled: Vec<usize> = (0..bins.len()).filter(is_filled).collect();
            for (of, alike) in shown_together(&filled, shown) {
                let sum = |of: &[usize]| {
                    [0, 1].map(|label| of.iter().map(|bin| bins[*bin][label]).sum::<f64>())
                };
                sums.add(sum(of), sum(alike));
                calibration.add(shown(middle(of[of.len() - 1])), sum(of));
            }
        }
        Ranked { auc: sums.value(), calibration_error: calibration.error() }
    }
}

fn put(bins: &mut [[f64; 2]], entry: Entry) {
    add(&mut bins[(entry.score >> (32 - BIN_BITS)) as usize], entry);
}

/// Splits the weight of an example between negatives and positives.
fn add(both: &mut [f64; 2], Entry { label, weight, .. }: Entry) {
    let (label, weight) = (f64::from(label), f64::from(weight));
    both[0] += weight * (1.0 - label);
    both[1] += weight * label;
}

/// Weights of all scores so far, and of their pairs.
#[derive(Default)]
struct Sums {
    negatives: f64,
    positives: f64,
    won: f64,
    tied: f64,
}

impl Sums {
    /// Adds the weights of scores that count as tied; `alike` are those known to be equal.
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

    /// Scores with ties, labels, and small integer weights.
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
                let label = f32::from(u8::from(label));
                weighted.add(score, label, weight as f32);
                (0..weight).for_each(|_| plain.add(&[score], &[label]));
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
        auc.add(0.5, 1.0, 1.0);
        auc.add(0.25, 0.0, 0.0);
        assert_eq!(auc.take(), None);
        auc.add(0.5, 1.0, 1.0);
        auc.add(0.25, 0.0, 0.5);
        assert_eq!(auc.take().map(|value| value.auc), Some(1.0));
    }

    /// Sums over all pairs.
    fn by_definition(examples: &[(f32, f32, f32)]) -> f64 {
        let (mut won, mut pairs) = (0.0, 0.0);
        for (one, one_label, one_weight) in examples {
            for (other, other_label, other_weight) in examples {
                let positive = f64::from(*one_label) * f64::from(*one_weight);
                let pair = positive * (1.0 - f64::from(*other_label)) * f64::from(*other_weight);
                pairs += pair;
                won += match one.partial_cmp(other).unwrap() {
                    std::cmp::Ordering::Greater => pair,
                    std::cmp::Ordering::Equal => pair / 2.0,
                    std::cmp::Ordering::Less => 0.0,
                };
            }
        }
        won / pairs
    }

    #[test]
    fn labels_between_are_partly_of_both() {
        let mut random = Stream::from_state(7);
        for (seed, exact) in (0..20).zip([1000, 100].into_iter().cycle()) {
            let of = |(score, label, weight): (f32, bool, u32)| {
                let label = if label { 1.0 } else { random.next_f32() };
                (score, label, weight as f32 / 3.0)
            };
            let examples: Vec<(f32, f32, f32)> = sample(seed).into_iter().map(of).collect();
            let mut weighted = WeightedAuc::new(exact);
            examples
                .iter()
                .for_each(|(score, label, weight)| weighted.add(*score, *label, *weight));
            let (found, wanted) = (weighted.take().unwrap(), by_definition(&examples));
            assert!((found.auc - wanted).abs() <= found.error_max + 1e-12, "{found:?} {wanted}");
            // Unweighted scores give the same value once there is such a label.
            let mut alike = Auc::new(exact);
            let mut weighted = WeightedAuc::new(1000);
            for (score, label, _) in &examples {
                alike.add(&[*score], &[*label]);
                weighted.add(*score, *label, 1.0);
            }
            let (found, wanted) = (alike.take().unwrap(), weighted.take().unwrap());
            let off = (found.auc - wanted.auc).abs();
            assert!(off <= found.error_max + 1e-12, "{found:?} {wanted:?}");
            assert_eq!(found.error_max == 0.0, exact == 1000);
        }
    }
}
