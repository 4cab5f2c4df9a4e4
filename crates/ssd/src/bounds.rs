//! Bounds of a store's memory, by name.

use stepwell_base::budget::Budget;

use crate::store::{SCAN_BYTES, Sweep};
use crate::{StoreOptions, WRITES_MAX, segment};

impl StoreOptions {
    /// Adds the bounds of everything that a store with these settings holds in memory while
    /// `readers` threads read; `name` says what the store is for.
    pub fn add_bounds(&self, readers: u64, name: &str, budget: &mut Budget) {
        self.add_index(name, budget);
        self.add_writing(name, budget);
        self.add_reading(readers, name, budget);
    }

    /// Adds the same bounds, but for a store that is only read.
    pub fn add_bounds_unchanged(&self, readers: u64, name: &str, budget: &mut Budget) {
        self.add_index(name, budget);
        self.add_reading(readers, name, budget);
    }

    fn add_index(&self, name: &str, budget: &mut Budget) {
        budget.add("store index", self.index_bytes_max, format!("{name}: tiers.index"));
    }

    fn add_writing(&self, name: &str, budget: &mut Budget) {
        let chunk = self.chunk_bytes() as u64;
        // Current, in-flight and spare chunks of the open segment and of a closing one.
        let buffers = 2 * (WRITES_MAX as u64 + 2) * chunk;
        let merge = (2 * (WRITES_MAX as u64 + 2)) * chunk + 3 * self.list_bytes();
        let why = |of: &str| format!("{name}: {of}");
        budget.add("store write buffers", buffers, why("open and closing segment"));
        budget.add("store row lists", 2 * self.list_bytes(), why("open and closing segment"));
        let merge = merge + Sweep::bytes_max(self);
        budget.add(
            "store compaction",
            merge,
            why("reads, writes and lists of a merge, keys of a sweep"),
        );
    }

    fn add_reading(&self, readers: u64, name: &str, budget: &mut Budget) {
        let why = |of: &str| format!("{name}: {of}");
        let reads = readers * self.reader_bytes() as u64 + segment::CHUNK_BYTES;
        budget.add("store opening", self.opening_bytes(), why("footers, deletions"));
        // A bit for each of at most twice the rows that the index has room for, at 8 bytes each.
        let scan = self.index_bytes_max / 32 + SCAN_BYTES + 2 * self.reader_bytes() as u64;
        budget.add("store scan", scan, why("bits of rows, reads of a scan"));
        budget.add("store read queues", reads, why("readers, footers"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bound_is_stated() {
        let mut budget = Budget::default();
        StoreOptions::new(3, 256).add_bounds(2, "rows", &mut budget);
        assert_eq!(budget.bounds().len(), 7);
        assert!(budget.bounds().iter().all(|bound| bound.bytes > 0));
        let mut unchanged = Budget::default();
        StoreOptions::new(3, 256).add_bounds_unchanged(2, "rows", &mut unchanged);
        assert_eq!(unchanged.bounds().len(), 4);
        assert!(unchanged.bounds().iter().all(|bound| budget.bounds().contains(bound)));
    }
}
