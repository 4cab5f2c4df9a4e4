//! How far an AUC may be off by chance.

/// Half the width of a 95 % confidence interval, in standard errors.
const ERRORS: f64 = 1.959_963_984_540_054;

/// Numbers of examples of the two classes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Classes {
    pub(super) positives: f64,
    pub(super) negatives: f64,
}

impl Classes {
    /// The 95 % confidence interval of `auc`, within 0 and 1 (Hanley and McNeil, "The Meaning and
    /// Use of the Area under a ROC Curve", Radiology 143, 1982). It assumes independent examples.
    pub(super) fn interval(self, auc: f64) -> [f64; 2] {
        let Self { positives, negatives } = self;
        let square = auc * auc;
        // The probabilities that two positives rank above one negative, and one above two.
        let (two_above, above_two) = (auc / (2.0 - auc), 2.0 * square / (1.0 + auc));
        let sum = auc * (1.0 - auc)
            + (positives - 1.0).max(0.0) * (two_above - square)
            + (negatives - 1.0).max(0.0) * (above_two - square);
        let half = ERRORS * (sum.max(0.0) / (positives * negatives)).sqrt();
        [auc - half, auc + half].map(|bound| bound.clamp(0.0, 1.0))
    }
}

#[cfg(test)]
mod tests {
    use stepwell_base::random::Stream;

    use super::*;

    /// (0.095551 + 50 · 0.009231 + 57 · 0.045071) / (51 · 58) is 0.032512 squared.
    #[test]
    fn a_standard_error_by_hand() {
        let classes = Classes { positives: 51.0, negatives: 58.0 };
        let [low, high] = classes.interval(0.893);
        let error = (high - low) / 2.0 / ERRORS;
        assert!((error - 0.032512).abs() < 1e-6, "{error}");
    }

    #[test]
    fn bounds_stay_within_0_and_1() {
        let few = Classes { positives: 1.0, negatives: 1.0 };
        assert_eq!(few.interval(1.0), [1.0, 1.0]);
        assert_eq!(few.interval(0.5), [0.0, 1.0]);
        let [low, high] = Classes { positives: 0.3, negatives: 0.7 }.interval(0.9);
        assert!((0.0..0.9).contains(&low) && high == 1.0, "{low} {high}");
    }

    /// Among many draws of scores of a known AUC, about 95 % of the intervals have it.
    #[test]
    fn an_interval_usually_has_the_true_area() {
        const DRAWS: usize = 1000;
        let (positives, negatives) = (40, 60);
        let classes = Classes { positives: positives as f64, negatives: negatives as f64 };
        let mut random = Stream::named(1, b"auc");
        let mut within = 0;
        for _ in 0..DRAWS {
            // The larger of two uniform numbers is above a third one with probability 2/3.
            let high: Vec<f64> =
                (0..positives).map(|_| random.next_f64().max(random.next_f64())).collect();
            let low: Vec<f64> = (0..negatives).map(|_| random.next_f64()).collect();
            let above = high.iter().flat_map(|of| low.iter().filter(move |other| of > *other));
            let auc = above.count() as f64 / (positives * negatives) as f64;
            let [from, to] = classes.interval(auc);
            within += usize::from((from..=to).contains(&(2.0 / 3.0)));
        }
        assert!((925..=975).contains(&within), "{within} of {DRAWS}");
    }
}
