//! What a store has done and what it holds.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

/// Figures of a store; counts begin when it is made or opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Stats {
    /// Rows that the index points at.
    pub rows_live: u64,
    /// Rows in segments that it no longer points at, merged segments not yet removed included.
    pub rows_stale: u64,
    /// Bytes of live rows with key and sequence number.
    pub bytes_live: u64,
    /// The same of stale rows.
    pub bytes_stale: u64,
    /// Segments in use, the open one included.
    pub segments: u64,
    /// Merged segments that wait for the next commit to be removed.
    pub segments_retired: u64,
    /// Bytes of the index.
    pub index_bytes: u64,
    /// Bytes read from files, for whatever reason.
    pub bytes_read: u64,
    /// Bytes written to files: rows, padding, footers, manifests, merged rows, copies.
    pub bytes_written: u64,
    /// Keys looked up.
    pub lookups: u64,
    /// Lookups of keys that the store does not have.
    pub lookups_absent: u64,
    /// Lookups served from the write buffer.
    pub lookups_buffered: u64,
    /// Lookups served from a page that another lookup of the same call had read.
    pub lookups_merged: u64,
    /// Reads submitted to the disk for lookups.
    pub reads: u64,
    /// Pages that these brought.
    pub pages_read: u64,
    /// Rows put and appended.
    pub rows_put: u64,
    /// Rows put that were not newer than what the store had.
    pub rows_superseded: u64,
    /// Rows that compaction moved.
    pub rows_moved: u64,
    /// Merges of segments.
    pub compactions: u64,
    /// Segments merged away.
    pub segments_merged: u64,
    /// Manifests written.
    pub commits: u64,
}

/// The counting part of [`Stats`], shared by all threads.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) bytes_read: AtomicU64,
    pub(crate) bytes_written: AtomicU64,
    pub(crate) lookups: AtomicU64,
    pub(crate) lookups_absent: AtomicU64,
    pub(crate) lookups_buffered: AtomicU64,
    pub(crate) lookups_merged: AtomicU64,
    pub(crate) reads: AtomicU64,
    pub(crate) pages_read: AtomicU64,
    pub(crate) rows_put: AtomicU64,
    pub(crate) rows_superseded: AtomicU64,
    pub(crate) rows_moved: AtomicU64,
    pub(crate) compactions: AtomicU64,
    pub(crate) segments_merged: AtomicU64,
    pub(crate) commits: AtomicU64,
}

pub(crate) fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

fn get(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

impl Counters {
    pub(crate) fn read(&self, bytes: usize) {
        add(&self.bytes_read, bytes as u64);
    }

    pub(crate) fn wrote(&self, bytes: usize) {
        add(&self.bytes_written, bytes as u64);
    }

    /// Statistics with the counts alone.
    pub(crate) fn counted(&self) -> Stats {
        Stats {
            bytes_read: get(&self.bytes_read),
            bytes_written: get(&self.bytes_written),
            lookups: get(&self.lookups),
            lookups_absent: get(&self.lookups_absent),
            lookups_buffered: get(&self.lookups_buffered),
            lookups_merged: get(&self.lookups_merged),
            reads: get(&self.reads),
            pages_read: get(&self.pages_read),
            rows_put: get(&self.rows_put),
            rows_superseded: get(&self.rows_superseded),
            rows_moved: get(&self.rows_moved),
            compactions: get(&self.compactions),
            segments_merged: get(&self.segments_merged),
            commits: get(&self.commits),
            ..Stats::default()
        }
    }
}
