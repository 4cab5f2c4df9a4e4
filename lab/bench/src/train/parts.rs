//! Groups ids of similar frequency.

use super::stream::Ids;

/// Ranks above this are grouped in steps of a thousandth.
const EXACT_RANKS: u64 = 10_000;

/// Rows of one slot with similar frequencies.
pub(super) struct Part {
    pub(super) rows: f64,
    /// Probability of each row per example.
    pub(super) probability: f64,
}

/// The parts of all slots.
pub(super) fn parts(ids: &Ids) -> Vec<Part> {
    ids.vocabularies.iter().flat_map(|count| parts_of_slot(*count, ids.skew)).collect()
}

fn parts_of_slot(count: u64, skew: f64) -> impl Iterator<Item = Part> {
    let total = weight(count, skew);
    weighted(count, skew).map(move |(rows, weight)| Part { rows, probability: weight / total })
}

/// Sum of the ranks' weights, rank^-skew.
pub(super) fn weight(count: u64, skew: f64) -> f64 {
    weighted(count, skew).map(|(rows, weight)| rows * weight).sum()
}

/// Pairs of a number of rows and the weight of each.
fn weighted(count: u64, skew: f64) -> impl Iterator<Item = (f64, f64)> {
    let mut first = 1;
    std::iter::from_fn(move || {
        let width = if first < EXACT_RANKS { 1 } else { first / 1000 };
        let end = count.min(first + width - 1);
        if first > end {
            return None;
        }
        let middle = 0.5 * (first + end) as f64;
        let rows = (end - first + 1) as f64;
        first = end + 1;
        Some((rows, libm::pow(middle, -skew)))
    })
}
