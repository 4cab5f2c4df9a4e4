//! Cold rows of a cache that always contains the truly most frequent rows.

use super::parts::parts;
use super::stream::Ids;

/// Cold rows per example if the `slots` most frequent rows are in memory, and a mini-batch of
/// `mini_batch` examples reads each row once.
pub(super) fn cold_rows_per_example(ids: &Ids, slots: u64, mini_batch: u64) -> f64 {
    let mut parts = parts(ids);
    parts.sort_by(|a, b| b.probability.total_cmp(&a.probability));
    let (mut room, mut cold) = (slots as f64, 0.0);
    for part in parts {
        let here = part.rows.min(room);
        room -= here;
        // Probability that a mini-batch contains the row.
        let asked = -(mini_batch as f64 * (-part.probability).ln_1p()).exp_m1();
        cold += (part.rows - here) * asked;
    }
    cold / mini_batch as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_in_memory_has_no_cold_row_and_nothing_has_all() {
        let ids = Ids::new(100_000, false, 1.05);
        assert!(cold_rows_per_example(&ids, ids.count(), 64).abs() < 1e-9);
        // One example per mini-batch reads a row of each slot.
        let all = cold_rows_per_example(&ids, 0, 1);
        assert!((all - 26.0).abs() < 1e-6, "{all}");
        let some = cold_rows_per_example(&ids, ids.count() / 10, 4096);
        assert!(some > 0.0 && some < all, "{some}");
    }
}
