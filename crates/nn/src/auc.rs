//! Area under the ROC curve: exact while the scores fit a buffer, binned beyond it.
//!
//! A score is stored as 32 bits that sort like the numbers. Negatives fill one buffer from the
//! front, positives from the back, and both parts are sorted in place. When the buffer is full,
//! scores are counted in 2²⁰ bins by the top 20 of their 32 bits (sign, exponent, 11 bits of
//! mantissa). Two scores in one bin count as a tie, so the error is at most half the tied pairs,
//! and is reported with the value.
//!
//! Scores may be ranked as displayed, by a nondecreasing function: scores with the same display are
//! ties. The function is applied at the end, to the collected scores.
//!
//! Once a label is strictly between 0 and 1, all scores are stored with their labels, and measured
//! by [`WeightedAuc`].
//!
//! - **Bounds.** 4 bytes per score up to 4 Mi scores; beyond that, 16 MiB of bins instead. With
//!   labels between 0 and 1, 36 bytes per score up to 256 Ki scores; beyond that, the bins.

use crate::calibration::CalibrationBins;
use crate::score_bits::{
    AucValue, BIN_BITS, EXACT_SCORES_MAX, Ranked, middle, number, ordered, shown_bits,
    shown_together,
};
use crate::weighted_auc::WeightedAuc;

/// Most scores that are stored individually once a label is between 0 and 1.
const EXACT_BETWEEN_MAX: usize = 256 << 10;

/// Accumulates an AUC.
#[derive(Debug)]
pub struct Auc {
    exact_max: usize,
    buffer: Vec<u32>,
    negatives: usize,
    positives: usize,
    bins: Vec<[u64; 2]>,
    /// All scores, once a label is between 0 and 1.
    between: Option<WeightedAuc>,
}

impl Auc {
    /// An accumulator that stores up to `exact` scores individually.
    pub fn new(exact: usize) -> Self {
        let exact_max = exact.min(EXACT_SCORES_MAX);
        Self {
            exact_max,
            buffer: Vec::new(),
            negatives: 0,
            positives: 0,
            bins: Vec::new(),
            between: None,
        }
    }

    /// Most bytes for `examples` scores.
    pub fn bytes_max(examples: u64) -> u64 {
        let exact = examples.min(EXACT_SCORES_MAX as u64) * 4;
        let between = WeightedAuc::bytes_max(examples.min(EXACT_BETWEEN_MAX as u64));
        // The buffer still exists while its scores move to the bins.
        let bins = if examples > EXACT_BETWEEN_MAX as u64 { 16 << BIN_BITS } else { 0 };
        exact.max(between) + bins
    }

    /// Adds scores with their labels.
    pub fn add(&mut self, scores: &[f32], labels: &[f32]) {
        for (score, label) in scores.iter().zip(labels) {
            match &mut self.between {
                None if *label == 0.0 || *label == 1.0 => {
                    self.add_one(ordered(*score), *label == 1.0);
                }
                None => {
                    let mut all = self.with_labels();
                    all.add(*score, *label, 1.0);
                    self.between = Some(all);
                }
                Some(all) => all.add(*score, *label, 1.0),
            }
        }
    }

    /// Moves all scores so far, with their labels, to a [`WeightedAuc`].
    fn with_labels(&mut self) -> WeightedAuc {
        let exact_max = self.exact_max.min(EXACT_BETWEEN_MAX);
        if self.negatives + self.positives > exact_max {
            self.pour();
        }
        if !self.bins.is_empty() {
            return WeightedAuc::of_bins(&std::mem::take(&mut self.bins));
        }
        let mut all = WeightedAuc::new(exact_max);
        let buffer = std::mem::take(&mut self.buffer);
        let first_positive = buffer.len() - std::mem::take(&mut self.positives);
        let negatives = &buffer[..std::mem::take(&mut self.negatives)];
        negatives.iter().for_each(|score| all.add_ordered(*score, 0.0, 1.0));
        buffer[first_positive..].iter().for_each(|score| all.add_ordered(*score, 1.0, 1.0));
        all
    }

    fn add_one(&mut self, score: u32, positive: bool) {
        if self.bins.is_empty() && self.negatives + self.positives == self.exact_max {
            self.pour();
        }
        if !self.bins.is_empty() {
            self.bins[(score >> (32 - BIN_BITS)) as usize][usize::from(positive)] += 1;
            return;
        }
        if self.buffer.is_empty() {
            self.buffer = vec![0; self.exact_max];
        }
        if positive {
            self.positives += 1;
            let last = self.exact_max - self.positives;
            self.buffer[last] = score;
        } else {
            self.buffer[self.negatives] = score;
            self.negatives += 1;
        }
    }

    fn pour(&mut self) {
        self.bins = vec![[0; 2]; 1 << BIN_BITS];
        let first_positive = self.buffer.len() - self.positives;
        for score in &self.buffer[..self.negatives] {
            self.bins[(score >> (32 - BIN_BITS)) as usize][0] += 1;
        }
        for score in &self.buffer[first_positive..] {
            self.bins[(score >> (32 - BIN_BITS)) as usize][1] += 1;
        }
        self.buffer = Vec::new();
        (self.negatives, self.positives) = (0, 0);
    }

    /// Returns the value and resets; `None` unless both labels occurred.
    pub fn take(&mut self) -> Option<AucValue> {
        self.take_shown(|score| score).auc
    }

    /// Like [`Self::take`], for the scores as displayed by `shown`, a nondecreasing function whose
    /// values are the predictions.
    pub fn take_shown(&mut self, shown: fn(f32) -> f32) -> Ranked {
        if let Some(mut all) = self.between.take() {
            return all.take_shown(shown);
        }
        let value = if self.bins.is_empty() { self.exact(shown) } else { self.binned(shown) };
        self.buffer = Vec::new();
        self.bins = Vec::new();
        (self.negatives, self.positives) = (0, 0);
        value
    }

    fn exact(&mut self, shown: fn(f32) -> f32) -> Ranked {
        let first_positive = self.buffer.len() - self.positives;
        let (front, positives) = self.buffer.split_at_mut(first_positive);
        let negatives = &mut front[..self.negatives];
        let scores = negatives.iter_mut().chain(positives.iter_mut());
        scores.for_each(|score| *score = shown_bits(*score, shown));
        negatives.sort_unstable();
        positives.sort_unstable();
        let calibration_error = calibration_error(negatives, positives);
        let (mut below, mut not_above) = (0, 0);
        let mut twice_won = 0u128;
        for score in positives.iter() {
            while below < negatives.len() && negatives[below] < *score {
                below += 1;
            }
            not_above = not_above.max(below);
            while not_above < negatives.len() && negatives[not_above] <= *score {
                not_above += 1;
            }
            twice_won += (below + not_above) as u128;
        }
        let auc = value(twice_won, 0, self.positives as u64, self.negatives as u64);
        Ranked { auc, calibration_error }
    }

    fn binned(&self, shown: fn(f32) -> f32) -> Ranked {
        let (mut negatives, mut positives) = (0u64, 0u64);
        let (mut twice_won, mut tied) = (0u128, 0u128);
        let is_filled = |bin: &usize| self.bins[*bin] != [0, 0];
        let filled: Vec<usize> = (0..self.bins.len()).filter(is_filled).collect();
        let all: u64 = filled.iter().flat_map(|bin| self.bins[*bin]).sum();
        let mut calibration = CalibrationBins::new(all as f64);
        for (bins, alike) in shown_together(&filled, shown) {
            let sum = |bins: &[usize], label: usize| {
                bins.iter().map(|bin| self.bins[*bin][label]).sum::<u64>()
            };
            let pairs = |bins| u128::from(sum(bins, 0)) * u128::from(sum(bins, 1));
            let [negative, positive] = [0, 1].map(|label| sum(bins, label));
            twice_won += u128::from(positive) * u128::from(2 * negatives + negative);
            tied += pairs(bins) - pairs(alike);
            let last = bins[bins.len() - 1];
            calibration.add(shown(middle(last)), [negative as f64, positive as f64]);
            negatives += negative;
            positives += positive;
        }
        let auc = value(twice_won, tied, positives, negatives);
        Ranked { auc, calibration_error: calibration.error() }
    }
}

/// The calibration error of sorted predictions, as ordered bits.
fn calibration_error(mut negatives: &[u32], mut positives: &[u32]) -> Option<f64> {
    let mut bins = CalibrationBins::new((negatives.len() + positives.len()) as f64);
    while let Some(next) = negatives.first().into_iter().chain(positives.first()).min().copied() {
        let count = |of: &[u32]| of.iter().take_while(|score| **score == next).count();
        let both = [count(negatives), count(positives)];
        (negatives, positives) = (&negatives[both[0]..], &positives[both[1]..]);
        bins.add(number(next), both.map(|count| count as f64));
    }
    bins.error()
}

fn value(twice_won: u128, tied: u128, positives: u64, negatives: u64) -> Option<AucValue> {
    if positives == 0 || negatives == 0 {
        return None;
    }
    let pairs = positives as f64 * negatives as f64;
    Some(AucValue { auc: twice_won as f64 / 2.0 / pairs, error_max: tied as f64 / 2.0 / pairs })
}

#[cfg(test)]
mod tests {
    use stepwell_base::random::Stream;

    use super::*;

    /// Compares all pairs.
    fn by_definition(scores: &[f32], labels: &[f32]) -> f64 {
        let (mut won, mut pairs) = (0.0, 0.0);
        for (p, _) in scores.iter().zip(labels).filter(|(_, label)| **label > 0.5) {
            for (n, _) in scores.iter().zip(labels).filter(|(_, label)| **label < 0.5) {
                pairs += 1.0;
                won += if p > n {
                    1.0
                } else if p == n {
                    0.5
                } else {
                    0.0
                };
            }
        }
        won / pairs
    }

    fn sample(seed: u64, count: usize, levels: f32) -> (Vec<f32>, Vec<f32>) {
        let mut random = Stream::from_state(seed);
        let scores: Vec<f32> =
            (0..count).map(|_| (random.next_symmetric(levels)).round() / 3.0).collect();
        let labels =
            scores.iter().map(|score| f32::from(random.next_f32() < 0.3 + 0.05 * score)).collect();
        (scores, labels)
    }

    #[test]
    fn exact_with_ties() {
        for seed in 0..20 {
            let (scores, labels) = sample(seed, 200, 10.0);
            let mut auc = Auc::new(1000);
            auc.add(&scores, &labels);
            let value = auc.take().unwrap();
            assert!((value.auc - by_definition(&scores, &labels)).abs() < 1e-12);
            assert_eq!(value.error_max, 0.0);
        }
    }

    #[test]
    fn binned_within_its_bound() {
        for seed in 0..20 {
            let (mut scores, labels) = sample(seed, 500, 1000.0);
            scores.iter_mut().enumerate().for_each(|(i, s)| *s += i as f32 * 1e-5);
            let mut auc = Auc::new(100);
            auc.add(&scores, &labels);
            let value = auc.take().unwrap();
            let error = (value.auc - by_definition(&scores, &labels)).abs();
            assert!(error <= value.error_max + 1e-12, "{error} > {}", value.error_max);
            assert!(value.error_max < 0.01);
        }
    }

    #[test]
    fn scores_that_are_shown_as_one_are_ties() {
        let shown: fn(f32) -> f32 = |score| score.clamp(-100.0, 200.0);
        for seed in 0..20 {
            let (mut scores, labels) = sample(seed, 500, 1000.0);
            scores.iter_mut().enumerate().for_each(|(i, s)| *s += i as f32 * 1e-5);
            let clamped: Vec<f32> = scores.iter().map(|score| shown(*score)).collect();
            let wanted = by_definition(&clamped, &labels);
            let [exact, binned] = [1000, 100].map(|kept| {
                let mut auc = Auc::new(kept);
                auc.add(&scores, &labels);
                auc.take_shown(shown).auc.unwrap()
            });
            assert!((exact.auc - wanted).abs() < 1e-12 && exact.error_max == 0.0);
            assert!((binned.auc - wanted).abs() <= binned.error_max + 1e-12);
            assert!(binned.error_max < 0.01, "{binned:?}");
        }
    }

    #[test]
    fn one_label_alone_has_no_auc() {
        let mut auc = Auc::new(10);
        assert_eq!(auc.take(), None);
        auc.add(&[0.1, 0.2], &[1.0, 1.0]);
        assert_eq!(auc.take(), None);
    }

    #[test]
    fn zeros_of_both_signs_tie() {
        let mut auc = Auc::new(10);
        auc.add(&[0.0, -0.0], &[1.0, 0.0]);
        assert_eq!(auc.take().map(|value| value.auc), Some(0.5));
    }
}
