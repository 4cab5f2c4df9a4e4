//! What a store is told when it is made or opened.

use stepwell_base::budget::Budget;

use crate::layout::{ENTRY_BYTES, Layout};
use crate::{Error, Result, fetch, segment, table};

/// Settings of a store; `table` and `row_bytes` are fixed for its life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreOptions {
    /// Number of the table whose rows these are; part of every page's checksum.
    pub table: u32,
    /// Bytes of a row's payload.
    pub row_bytes: usize,
    /// The most bytes of a segment's file.
    pub segment_bytes: u64,
    /// The most bytes of pages that wait to be written, of each of two buffers.
    pub buffer_bytes: u64,
    /// The most bytes of the index (`tiers.index`).
    pub index_bytes_max: u64,
}

/// Above this, row numbers of a segment might not fit 32 bits.
const SEGMENT_BYTES_MAX: u64 = 64 << 30;
const ROW_BYTES_MAX: usize = 16 << 20;

impl StoreOptions {
    /// The defaults: segments of 64 MiB, buffers of 1 MiB, an index of at most 1 GiB.
    pub fn new(table: u32, row_bytes: usize) -> Self {
        Self {
            table,
            row_bytes,
            segment_bytes: 64 << 20,
            buffer_bytes: 1 << 20,
            index_bytes_max: 1 << 30,
        }
    }

    /// Checks that a store can have these settings.
    ///
    /// # Errors
    /// Names the setting, its value and what is admitted.
    pub fn check(&self) -> Result<()> {
        let fail = |why: String| Err(Error::Options(why));
        if !(1..=ROW_BYTES_MAX).contains(&self.row_bytes) {
            return fail(format!(
                "a row of {} bytes is not admitted: 1 to {ROW_BYTES_MAX}",
                self.row_bytes
            ));
        }
        if self.segment_bytes > SEGMENT_BYTES_MAX {
            return fail(format!(
                "segments of {} bytes are not admitted: at most {SEGMENT_BYTES_MAX}",
                self.segment_bytes
            ));
        }
        let least = self.layout().file_bytes(self.layout().rows_per_page);
        if self.segment_bytes < least {
            return fail(format!(
                "segments of {} bytes cannot hold a page of rows of {} bytes: at least {least}",
                self.segment_bytes, self.row_bytes
            ));
        }
        Ok(())
    }

    pub(crate) fn layout(&self) -> Layout {
        Layout::new(self.table, self.row_bytes)
    }

    /// Rows of a full segment.
    pub fn segment_rows(&self) -> u32 {
        self.layout().rows_max(self.segment_bytes)
    }

    pub(crate) fn buffer_pages(&self) -> u32 {
        let pages = self.buffer_bytes / self.layout().page_bytes as u64;
        pages.clamp(1, u64::from(u32::MAX)) as u32
    }

    /// Adds the bounds of everything that a store with these settings holds in memory, `readers`
    /// threads reading at once.
    pub fn add_bounds(&self, readers: u64, budget: &mut Budget) {
        let page = self.layout().page_bytes as u64;
        let buffers = 4 * u64::from(self.buffer_pages()) * page;
        let rows = u64::from(self.segment_rows());
        // Entries of the open segment and of a merge's output; of a merge also where its rows are.
        let lists = rows * (2 * ENTRY_BYTES + table::MOVE_BYTES + fetch::WANTED_BYTES);
        let window = fetch::TICKETS_MAX as u64 * (fetch::WINDOW_BYTES + fetch::RUN_BYTES + page);
        let why = |of: &str| format!("table {}: {of}", self.table);
        budget.add("store index", self.index_bytes_max, why("tiers.index"));
        budget.add("store write buffers", buffers, why("open segment and merge, two each"));
        budget.add("store row lists", lists, why("open segment and merge"));
        let reads = (readers + 1) * window + segment::CHUNK_BYTES;
        budget.add("store read windows", reads, why("readers, merge, footers"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_settings_are_named() {
        assert!(StoreOptions::new(0, 64).check().is_ok());
        let none = StoreOptions::new(0, 0).check().unwrap_err().to_string();
        assert!(none.contains("row of 0 bytes"), "{none}");
        let small = StoreOptions { segment_bytes: 8192, ..StoreOptions::new(0, 64) };
        let small = small.check().unwrap_err().to_string();
        assert!(small.contains("at least 9056"), "{small}");
        let least = StoreOptions { segment_bytes: 9056, ..StoreOptions::new(0, 64) };
        least.check().unwrap();
        assert_eq!(least.segment_rows(), 51);
        let large = StoreOptions { segment_bytes: 1 << 40, ..StoreOptions::new(0, 64) };
        assert!(large.check().is_err());
    }

    #[test]
    fn every_bound_is_stated() {
        let mut budget = Budget::default();
        StoreOptions::new(3, 256).add_bounds(2, &mut budget);
        assert_eq!(budget.bounds().len(), 4);
        assert!(budget.bounds().iter().all(|bound| bound.bytes > 0));
    }
}
