//! The cold rows of a cache that always holds the truly most frequent rows.

use super::stream::Ids;

/// Ranks above this are taken in steps of a thousandth of themselves.
const EXACT_RANKS: u64 = 10_000;

/// Rows of one slot that are about as frequent as each other.
struct Part {
    rows: f64,
    /// Probability of each in one example.
    probability: f64,
}

/// Cold rows an example where the `slots` most frequent rows are in memory and a mini-batch of
/// `mini_batch` examples asks for each row once.
pub(super) fn cold_rows_per_example(ids: &Ids, slots: u64, mini_batch: u64) -> f64 {
    let mut parts: Vec<Part> =
        ids.vocabularies.iter().flat_map(|count| parts(*count, ids.skew)).collect();
    parts.sort_by(|a, b| b.probability.total_cmp(&a.probability));
    let (mut room, mut cold) = (slots as f64, 0.0);
    for part in parts {
        let here = part.rows.min(room);
        room -= here;
        // The share of mini-batches that have the row at all.
        let asked = -(mini_batch as f64 * (-part.probability).ln_1p()).exp_m1();
        cold += (part.rows - here) * asked;
    }
    cold / mini_batch as f64
}

fn parts(count: u64, skew: f64) -> Vec<Part> {
    let mut ranges = Vec::new();
    let mut first = 1;
    while first <= count {
        let width = if first < EXACT_RANKS { 1 } else { first / 1000 };
        let end = count.min(first + width - 1);
        let rows = (end - first + 1) as f64;
        let middle = 0.5 * (first + end) as f64;
        ranges.push((rows, middle.powf(-skew)));
        first = end + 1;
    }
    let total: f64 = ranges.iter().map(|(rows, weight)| rows * weight).sum();
    ranges.into_iter().map(|(rows, weight)| Part { rows, probability: weight / total }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_in_memory_has_no_cold_row_and_nothing_has_all() {
        let ids = Ids::new(100_000, false, 1.05);
        assert!(cold_rows_per_example(&ids, ids.count(), 64).abs() < 1e-9);
        // One example of a mini-batch asks for a row of each slot.
        let all = cold_rows_per_example(&ids, 0, 1);
        assert!((all - 26.0).abs() < 1e-6, "{all}");
        let some = cold_rows_per_example(&ids, ids.count() / 10, 4096);
        assert!(some > 0.0 && some < all, "{some}");
    }
}
