//! Expected calibration error: how far predictions are from labels, over bins of equal mass.
//!
//! Predictions are sorted and cut into ten bins with equal sums of weights (Naeini et al., AAAI
//! 2015; equal mass as in Nixon et al., CVPR Workshops 2019). The error is the sum over the bins of
//! |sum of labels - sum of predictions|, over the sum of all weights. Equal predictions that a cut
//! falls between go to both bins in proportion, so the order of examples doesn't matter.

/// Number of bins.
const BINS: u32 = 10;

/// Adds up predictions in ascending order.
#[derive(Debug)]
pub(crate) struct CalibrationBins {
    all: f64,
    /// The bin being filled, and the mass of all bins so far.
    bin: u32,
    mass: f64,
    /// Sum of labels minus predictions in this bin.
    off: f64,
    /// Sum over the bins before.
    error: f64,
}

impl CalibrationBins {
    /// Bins for examples with this sum of weights.
    pub(crate) fn new(all: f64) -> Self {
        Self { all, bin: 0, mass: 0.0, off: 0.0, error: 0.0 }
    }

    /// Adds negatives and positives, by weight, with a prediction that is no less than those so
    /// far.
    pub(crate) fn add(&mut self, prediction: f32, [negatives, positives]: [f64; 2]) {
        let prediction = f64::from(prediction);
        let mut left = negatives + positives;
        if left <= 0.0 {
            return;
        }
        let off = positives / left - prediction;
        while self.bin + 1 < BINS {
            let end = self.all * f64::from(self.bin + 1) / f64::from(BINS);
            let room = (end - self.mass).max(0.0);
            if left < room {
                break;
            }
            self.mass = end;
            self.error += (self.off + room * off).abs();
            (self.off, self.bin, left) = (0.0, self.bin + 1, left - room);
        }
        self.mass += left;
        self.off += left * off;
    }

    /// The error; `None` without examples.
    pub(crate) fn error(self) -> Option<f64> {
        (self.all > 0.0).then(|| (self.error + self.off.abs()) / self.all)
    }
}

#[cfg(test)]
mod tests {
    use stepwell_base::random::Stream;

    use crate::{Auc, WeightedAuc};

    /// A prediction, a label and a whole weight.
    type Example = (f32, f32, u32);

    /// Cuts each example into ten, each with the mean label of equal predictions, so that bins have
    /// whole numbers of them.
    fn by_definition(examples: &[Example]) -> Option<f64> {
        let mut pieces = Vec::new();
        for (prediction, _, weight) in examples {
            let equal = examples.iter().filter(|(other, ..)| other == prediction);
            let sum = |of: fn(&Example) -> f64| equal.clone().map(of).sum::<f64>();
            let (labels, all) = (
                sum(|(_, label, weight)| f64::from(*label) * f64::from(*weight)),
                sum(|(.., weight)| f64::from(*weight)),
            );
            let piece = (f64::from(*prediction), labels / all);
            pieces.extend(std::iter::repeat_n(piece, 10 * *weight as usize));
        }
        pieces.sort_by(|one, other| one.0.total_cmp(&other.0));
        let off = |bin: &[(f64, f64)]| bin.iter().map(|(p, label)| label - p).sum::<f64>().abs();
        let bins = pieces.chunks((pieces.len() / 10).max(1));
        (!pieces.is_empty()).then(|| bins.map(off).sum::<f64>() / pieces.len() as f64)
    }

    fn sample(seed: u64, count: usize, levels: f32, weights: u64) -> Vec<Example> {
        let mut random = Stream::named(seed, b"calibration");
        let mut one = || {
            let prediction = (random.next_f32() * levels).round() / levels;
            let label = f32::from(u8::from(random.next_f32() < prediction * prediction));
            (prediction, label, (random.next_u64() % weights + 1) as u32)
        };
        (0..count).map(|_| one()).collect()
    }

    #[test]
    fn errors_are_those_of_ten_bins_of_equal_mass() {
        for seed in 0..40 {
            let (count, levels) =
                ([1, 3, 10, 37, 400][seed as usize % 5], [2.0, 9.0, 1e6][seed as usize % 3]);
            let alike = sample(seed, count, levels, 1);
            let weighed = sample(seed, count, levels, 4);
            for exact in [1000, 1] {
                let (mut plain, mut weighted) = (Auc::new(exact), WeightedAuc::new(exact));
                alike.iter().for_each(|(score, label, _)| plain.add(&[*score], &[*label]));
                weighed
                    .iter()
                    .for_each(|(p, label, weight)| weighted.add(*p, *label, *weight as f32));
                let found = [plain.take_shown(|p| p), weighted.take_shown(|p| p)];
                // Bins are as wide as 2^-11 of a prediction.
                let most = if exact == 1000 { 1e-9 } else { 1e-3 };
                for (found, of) in found.into_iter().zip([&alike, &weighed]) {
                    let (found, wanted) =
                        (found.calibration_error.unwrap(), by_definition(of).unwrap());
                    assert!((found - wanted).abs() < most, "{seed} {exact}: {found} {wanted}");
                }
            }
        }
        assert_eq!(by_definition(&[]), Auc::new(10).take_shown(|p| p).calibration_error);
    }

    #[test]
    fn labels_between_0_and_1_are_partly_of_both() {
        let examples: Vec<Example> =
            (0..50).map(|n| (n as f32 / 60.0, (n % 5) as f32 / 4.0, 1)).collect();
        let mut auc = Auc::new(100);
        examples.iter().for_each(|(score, label, _)| auc.add(&[*score], &[*label]));
        let found = auc.take_shown(|p| p).calibration_error.unwrap();
        assert!((found - by_definition(&examples).unwrap()).abs() < 1e-9, "{found}");
    }
}
