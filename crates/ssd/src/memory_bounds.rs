//! Bounds of a store's memory, by name.

use stepwell_base::Key;
use stepwell_base::budget::Budget;

use crate::numbers::PageNumber;
use crate::options::{StoreOptions, WRITES_MAX};
use crate::row_versions::Deletion;
use crate::segment_sizes::Sizes;
use crate::store::{self, Sweep};
use crate::{index, segment};

/// Number of rows sorted by index shard at a time while a store opens: some hundreds a shard.
const ROWS_TOGETHER: u64 = 400_000;
/// Least and greatest values of [`StoreOptions::stale_noted`].
const STALE_NOTED: [u64; 2] = [1 << 10, 1 << 18];
/// Least and greatest values of [`StoreOptions::deletions_held`].
const DELETIONS_HELD: [u64; 2] = [1 << 14, 1 << 20];

impl StoreOptions {
    /// Name of the bound of what exists only while the store opens.
    pub const OPENING: &'static str = "store opening";

    /// Adds the bounds of everything that a store with these settings holds in memory while
    /// `readers` threads read; `name` says what the store is for.
    pub fn add_bounds(&self, readers: u64, name: &str, budget: &mut Budget) {
        self.add_index(name, budget);
        self.add_writing(name, budget);
        self.add_reading(readers, name, budget);
    }

    /// Same as [`StoreOptions::add_bounds`], but for a store that is only read.
    pub fn add_bounds_unchanged(&self, readers: u64, name: &str, budget: &mut Budget) {
        self.add_index(name, budget);
        self.add_reading(readers, name, budget);
    }

    /// The most bytes of a segment's footer and list of keys, once an index this large is full.
    pub(crate) fn list_bytes(&self) -> u64 {
        let sizes = Sizes::new(self);
        let size = sizes.most(self.index_bytes_max);
        let rows = u64::from(size.rows);
        // Keys and key shards in a list and in the footer, plus decoded keys; deletions likewise. A
        // footer being read, with its rows and their keys, takes the same.
        rows * (2 * 9 + 8) + u64::from(size.deletions()) * 2 * 16
    }

    /// The most rows that are added to the index together when a store opens, unless one segment
    /// has more.
    pub(crate) fn rows_together(&self) -> u64 {
        ROWS_TOGETHER.min(Sizes::index_rows(self.index_bytes_max))
    }

    /// Bytes that opening takes in addition to the index. Each thread adds a footer, a map of its
    /// deletions, a list of rows, a read, and headers of the index's shards.
    pub(crate) fn opening_bytes(&self) -> u64 {
        let threads = self.open_threads_most();
        // A map's entries are half as large again as deletions, and it is half full.
        let sizes = Sizes::new(self);
        let size = sizes.most(self.index_bytes_max);
        let map = 3 * u64::from(size.deletions()) * size_of::<Deletion>() as u64;
        let rows = store::listed_bytes(self.rows_together().max(u64::from(size.rows)));
        let each = self.list_bytes() + map + rows + self.footer_bytes() + index::BYTES_MIN;
        self.deletions_held() as u64 * size_of::<Deletion>() as u64
            + threads as u64 * each
            + store::held_most(threads) as u64 * rows
    }

    /// The most bytes of a footer that are read at once.
    fn footer_bytes(&self) -> u64 {
        segment::READ_BYTES.min(self.list_bytes())
    }

    /// Number of rows that went stale while a scan begins, above which writers wait for it.
    pub(crate) fn stale_noted(&self) -> usize {
        self.rows_within(8, STALE_NOTED)
    }

    /// The most deletions that are kept from the first reading of footers.
    pub(crate) fn deletions_held(&self) -> usize {
        self.rows_within(1, DELETIONS_HELD)
    }

    /// One in `part` of the rows that the index holds, within bounds.
    fn rows_within(&self, part: u64, [least, most]: [u64; 2]) -> usize {
        (Sizes::index_rows(self.index_bytes_max) / part).clamp(least, most) as usize
    }

    fn add_index(&self, name: &str, budget: &mut Budget) {
        budget.add("store index", self.index_bytes_max, format!("{name}: tiers.index"));
    }

    fn add_writing(&self, name: &str, budget: &mut Budget) {
        let buffer = self.write_buffer_bytes() as u64;
        // Current, in-flight and spare buffers of the open segment and of a closing one.
        let buffers = 2 * (WRITES_MAX as u64 + 2) * buffer;
        let merge = (2 * (WRITES_MAX as u64 + 2)) * buffer + 3 * self.list_bytes();
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
        let reads = readers * self.reader_bytes() as u64 + self.footer_bytes();
        budget.add(Self::OPENING, self.opening_bytes(), why("footers, deletions"));
        // A bit for each of at most twice the rows that the index has room for, at 8 bytes each.
        let stale = (self.stale_noted() * size_of::<(PageNumber, Key)>()) as u64;
        let scan = self.index_bytes_max / 32 + stale + 2 * self.reader_bytes() as u64;
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
