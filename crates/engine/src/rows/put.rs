//! Rows that the caller writes.

use stepwell_mem::Occurrence;
use stepwell_optim::Storage;

use super::EmbeddingBags;
use super::working::WorkingRows;
use crate::life::History;

impl EmbeddingBags {
    /// Overwrites the distinct rows of table `table` with `weights` (rows, weights) and resets
    /// their optimizer state. Rows are created even if the table wouldn't admit their keys yet.
    ///
    /// # Panics
    /// If `weights` has another length.
    pub(crate) fn put(&self, rows: &mut WorkingRows<'_>, table: usize, weights: &[f32]) {
        let (spec, of_table) = (&self.tables[table], &mut rows.tables[table]);
        let (count, width) = (of_table.len(), of_table.width());
        assert_eq!(weights.len(), count * width, "lanes for all rows");
        of_table.occurrences.clear();
        of_table.occurrences.resize(count, Occurrence { examples: 1, ..Occurrence::default() });
        let keys = &of_table.request.distinct;
        let (mut slots, _) = of_table.for_update();
        for (row, (key, weights)) in keys.iter().zip(weights.chunks_exact(width)).enumerate() {
            let row = slots.row(row);
            spec.initial_row(*key, row);
            let lanes = &mut row[..spec.weight_lanes()];
            match spec.storage {
                Storage::F32 => lanes.copy_from_slice(weights),
                storage => storage.encode(weights, lanes, spec.rounding(*key, self.steps)),
            }
            if spec.life.is_some() {
                // Later than the last step, whose rows may have been exported already.
                let used = (self.steps + 1) as u32;
                History { used, ..History::default() }.write(&mut row[spec.model_lanes()..]);
            }
        }
    }
}
