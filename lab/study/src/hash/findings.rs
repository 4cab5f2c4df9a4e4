//! What the results say about hashing.

use serde::Serialize;

use super::Row;
use super::inputs::Examples;

/// Standard errors by which a difference has to exceed 0.
const ERRORS: f64 = 2.0;

/// Mean, minimum and maximum.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// Mean.
    pub mean: f64,
    /// Minimum.
    pub least: f64,
    /// Maximum.
    pub most: f64,
}

impl Spread {
    /// The spread of some values, at least one.
    fn of(values: &[f64]) -> Self {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Self { mean, least, most }
    }

    /// Standard error of the mean of `values`; `None` for a single one.
    fn error(values: &[f64]) -> Option<f64> {
        let (count, mean) = (values.len() as f64, Self::of(values).mean);
        let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
        (values.len() > 1).then(|| (squares / (count - 1.0) / count).sqrt())
    }
}

/// How OP+OSRP compares with the modulo.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Its AUC is higher.
    Better,
    /// Its AUC is lower.
    Worse,
    /// The difference is within two standard errors of its mean over seeds.
    Equal,
    /// One seed doesn't tell.
    Unknown,
}

/// What the results say.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Findings {
    /// AUC lost per halving of k, between adjacent k: the mean from the largest k to the smallest,
    /// and the minimum and maximum.
    pub auc_lost_per_halving: Spread,
    /// The same of the modulo.
    pub auc_lost_per_halving_modulo: Spread,
    /// Smallest k whose mean AUC is at least that of logistic regression; a larger k may be below
    /// it.
    pub bins_equal_to_lr: Option<u64>,
    /// The same of the modulo.
    pub bins_equal_to_lr_modulo: Option<u64>,
    /// AUC of OP+OSRP minus that of the modulo with as many outputs: mean over all k; minimum and
    /// maximum of this mean over seeds.
    pub auc_over_modulo: Spread,
    /// Standard error of that mean over seeds; `None` for one seed.
    pub auc_over_modulo_error: Option<f64>,
    /// Whether OP+OSRP beats the modulo.
    pub op_osrp: Verdict,
    /// Standard error of an AUC because the test examples are few, by Hanley and McNeil. Models
    /// share the test examples, so their differences are more certain.
    pub auc_error: f64,
}

impl Findings {
    pub(super) fn of(lr: &Row, hashed: &[Row], examples: &Examples) -> Self {
        let own = |row: &Row| row.auc;
        let modulo = |row: &Row| row.modulo.as_ref().map_or(f64::NAN, |of| of.auc_modulo);
        let over = over_modulo(hashed);
        let (difference, error) = (Spread::of(&over), Spread::error(&over));
        Self {
            auc_lost_per_halving: lost(hashed, own),
            auc_lost_per_halving_modulo: lost(hashed, modulo),
            bins_equal_to_lr: reaches(hashed, lr.auc, own),
            bins_equal_to_lr_modulo: reaches(hashed, lr.auc, modulo),
            auc_over_modulo: difference,
            auc_over_modulo_error: error,
            op_osrp: verdict(difference.mean, error),
            auc_error: auc_error(lr.auc, examples),
        }
    }
}

/// AUC lost per halving between adjacent rows, which have ascending k.
pub(super) fn losses(rows: &[Row], auc: impl Fn(&Row) -> f64) -> Vec<f64> {
    let lost = |pair: &[Row]| (auc(&pair[1]) - auc(&pair[0])) / (log2(&pair[1]) - log2(&pair[0]));
    rows.windows(2).map(lost).collect()
}

fn lost(rows: &[Row], auc: impl Fn(&Row) -> f64) -> Spread {
    let [first, .., last] = rows else { return Spread { mean: 0.0, least: 0.0, most: 0.0 } };
    let mean = (auc(last) - auc(first)) / (log2(last) - log2(first));
    Spread { mean, ..Spread::of(&losses(rows, auc)) }
}

/// Logarithm of a row's k.
pub(super) fn log2(row: &Row) -> f64 {
    row.bins.map_or(f64::NAN, |bins| (bins as f64).log2())
}

fn reaches(rows: &[Row], enough: f64, auc: impl Fn(&Row) -> f64) -> Option<u64> {
    rows.iter().find(|row| auc(row) >= enough).and_then(|row| row.bins)
}

/// For each seed, the mean difference over all k.
fn over_modulo(rows: &[Row]) -> Vec<f64> {
    let seeds = rows.first().map_or(0, |row| row.aucs.len());
    let of_seed = |seed: usize| {
        let differences = rows.iter().filter_map(|row| {
            row.modulo.as_ref().map(|modulo| row.aucs[seed] - modulo.aucs_modulo[seed])
        });
        differences.sum::<f64>() / rows.len() as f64
    };
    (0..seeds).map(of_seed).collect()
}

fn verdict(difference: f64, error: Option<f64>) -> Verdict {
    match error {
        None => Verdict::Unknown,
        Some(error) if difference > ERRORS * error => Verdict::Better,
        Some(error) if difference < -ERRORS * error => Verdict::Worse,
        Some(_) => Verdict::Equal,
    }
}

/// Standard error of an AUC of the test examples (Hanley and McNeil, "The meaning and use of the
/// area under a receiver operating characteristic (ROC) curve", Radiology 1982).
fn auc_error(auc: f64, examples: &Examples) -> f64 {
    let clicks = examples.test_clicks() as f64;
    let others = (examples.count() - examples.train) as f64 - clicks;
    let square = auc * auc;
    let (of_clicks, of_others) = (auc / (2.0 - auc) - square, 2.0 * square / (1.0 + auc) - square);
    let sum = auc - square + (clicks - 1.0) * of_clicks + (others - 1.0) * of_others;
    (sum / (clicks * others)).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::Modulo;

    fn row(bins: u64, aucs: [f64; 2], aucs_modulo: [f64; 2]) -> Row {
        let mean = |aucs: [f64; 2]| (aucs[0] + aucs[1]) / 2.0;
        Row {
            model: "hash_dnn",
            bins: Some(bins),
            nonzero_weights: bins,
            ids_per_example: 2.0,
            auc: mean(aucs),
            aucs: aucs.to_vec(),
            log_loss: 0.5,
            modulo: Some(Modulo {
                auc_modulo: mean(aucs_modulo),
                aucs_modulo: aucs_modulo.to_vec(),
                log_loss_modulo: 0.5,
                nonzero_weights_modulo: bins,
                ids_per_example_modulo: 2.0,
            }),
        }
    }

    #[test]
    fn losses_are_per_halving_and_the_crossing_is_the_first() {
        let rows = [
            row(256, [0.70, 0.72], [0.71; 2]),
            row(512, [0.62, 0.62], [0.71; 2]),
            row(2048, [0.73, 0.75], [0.71; 2]),
            row(4096, [0.74, 0.74], [0.71; 2]),
        ];
        let lost = lost(&rows, |row| row.auc);
        assert!((lost.mean - 0.03 / 4.0).abs() < 1e-12, "{lost:?}");
        assert!((lost.least + 0.09).abs() < 1e-12 && (lost.most - 0.06).abs() < 1e-12, "{lost:?}");
        assert_eq!(reaches(&rows, 0.70, |row| row.auc), Some(256));
        assert_eq!(reaches(&rows, 0.735, |row| row.auc), Some(2048));
        assert_eq!(reaches(&rows, 0.76, |row| row.auc), None);
        let over = over_modulo(&rows);
        assert!((over[0] + 0.0125).abs() < 1e-12 && (over[1] + 0.0025).abs() < 1e-12, "{over:?}");
    }

    #[test]
    fn a_difference_counts_beyond_two_errors() {
        assert_eq!(verdict(0.01, None), Verdict::Unknown);
        assert_eq!(verdict(0.01, Some(0.004)), Verdict::Better);
        assert_eq!(verdict(-0.01, Some(0.004)), Verdict::Worse);
        assert_eq!(verdict(-0.01, Some(0.006)), Verdict::Equal);
        assert_eq!(Spread::error(&[1.0]), None);
        assert!((Spread::error(&[1.0, 3.0]).unwrap() - 1.0).abs() < 1e-12);
    }
}
