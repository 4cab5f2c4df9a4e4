//! Measures the index while it grows without a hint, in a store of small rows.

use std::time::Instant;

use stepwell_base::Key;
use stepwell_ssd::{Store, StoreOptions};

use super::bench::Bench;
use super::figures::Figures;
use super::rows::key;
use crate::Result;
use crate::measure::over;

/// Keys per put.
pub(crate) const KEYS_AT_ONCE: u64 = 1024;
/// Number of rows from which bytes per key count.
pub(super) const ROWS_FIRST: u64 = 1_000_000;
/// Bytes of a row.
const ROW_BYTES: usize = 8;

impl Bench<'_> {
    /// Puts distinct keys and examines the index after every put.
    pub(super) fn growth(&self, figures: &mut Figures, say: &mut dyn FnMut(&str)) -> Result<()> {
        let rows = self.options.index_rows;
        if rows < ROWS_FIRST {
            return Ok(());
        }
        say(&format!("the index, growing to {rows} keys"));
        let options = StoreOptions { index_bytes_max: u64::MAX, ..StoreOptions::new(1, ROW_BYTES) };
        let store = Store::create(self.subdirectory("growth")?, options)?;
        let used = vec![0; KEYS_AT_ONCE as usize];
        for first in (0..rows).step_by(KEYS_AT_ONCE as usize) {
            let keys: Vec<Key> = (first..rows.min(first + KEYS_AT_ONCE)).map(key).collect();
            let bytes: Vec<u8> = keys.iter().flat_map(|key| key.0.to_le_bytes()).collect();
            let started = Instant::now();
            store.put_many(&keys, &used[..keys.len()], &bytes)?;
            let took = started.elapsed().as_secs_f64() * 1e3;
            figures.growing_put_ms_most = figures.growing_put_ms_most.max(took);
            let rows = store.len();
            if rows >= ROWS_FIRST {
                let bytes = over(store.index_bytes_peak() as f64, rows as f64);
                figures.index_bytes_per_key_growing =
                    figures.index_bytes_per_key_growing.max(bytes);
            }
        }
        figures.index_rewrite_ms_longest = store.stats().index_rewrite_ms_longest;
        Ok(())
    }
}
