//! Counts of rows that move between memory and disk.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::harvest::BasketCount;

/// Counts of rows that moved between the tiers.
#[derive(Debug, Default)]
pub struct Traffic {
    forwarded: AtomicU64,
    refilled: AtomicU64,
    initialized: AtomicU64,
    written_back: AtomicU64,
    harvested: AtomicU64,
    harvest_used: AtomicU64,
    harvest_dropped: AtomicU64,
    disk_bytes_peak: AtomicU64,
}

/// A snapshot of [`Traffic`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrafficCount {
    /// Rows served from staging, because they were needed again before the store had them.
    pub forwarded: u64,
    /// Rows read from the store.
    pub refilled: u64,
    /// Rows that started from their initial value.
    pub initialized: u64,
    /// Dirty rows written to the store.
    pub written_back: u64,
    /// Rows harvested from pages read for other rows.
    pub harvested: u64,
    /// Harvested rows that were needed later.
    pub harvest_used: u64,
    /// Harvested rows that found no room or were displaced.
    pub harvest_dropped: u64,
    /// Maximum bytes of segment files that the store held after a write.
    pub disk_bytes_peak: u64,
}

impl Traffic {
    pub(crate) fn pulled(&self, count: TrafficCount) {
        self.forwarded.fetch_add(count.forwarded, Ordering::Relaxed);
        self.refilled.fetch_add(count.refilled, Ordering::Relaxed);
        self.initialized.fetch_add(count.initialized, Ordering::Relaxed);
    }

    pub(super) fn wrote_back(&self, rows: u64) {
        self.written_back.fetch_add(rows, Ordering::Relaxed);
    }

    pub(super) fn on_disk(&self, bytes: u64) {
        self.disk_bytes_peak.fetch_max(bytes, Ordering::Relaxed);
    }

    pub(crate) fn harvested(&self, count: BasketCount) {
        self.harvested.fetch_add(count.harvested, Ordering::Relaxed);
        self.harvest_used.fetch_add(count.used, Ordering::Relaxed);
        self.harvest_dropped.fetch_add(count.dropped, Ordering::Relaxed);
    }

    /// Returns the counts so far.
    pub fn count(&self) -> TrafficCount {
        TrafficCount {
            forwarded: self.forwarded.load(Ordering::Relaxed),
            refilled: self.refilled.load(Ordering::Relaxed),
            initialized: self.initialized.load(Ordering::Relaxed),
            written_back: self.written_back.load(Ordering::Relaxed),
            harvested: self.harvested.load(Ordering::Relaxed),
            harvest_used: self.harvest_used.load(Ordering::Relaxed),
            harvest_dropped: self.harvest_dropped.load(Ordering::Relaxed),
            disk_bytes_peak: self.disk_bytes_peak.load(Ordering::Relaxed),
        }
    }
}
