//! Memory accounting.

use std::sync::atomic::{AtomicU64, Ordering};

/// Unit in bytes in which allocations are counted, as devices align them.
pub(crate) const ALIGNMENT: usize = 256;

/// A budget of bytes.
#[derive(Debug)]
pub(crate) struct Pool {
    bytes: u64,
    used: AtomicU64,
    peak: AtomicU64,
}

impl Pool {
    pub(crate) fn new(bytes: u64) -> Self {
        Self { bytes, used: AtomicU64::new(0), peak: AtomicU64::new(0) }
    }

    /// Bytes that an allocation of `bytes` counts as.
    pub(crate) fn counted(bytes: usize) -> u64 {
        bytes.max(1).next_multiple_of(ALIGNMENT) as u64
    }

    /// Takes `bytes` bytes; returns `false` if there is no room.
    pub(crate) fn take(&self, bytes: usize) -> bool {
        let wanted = Self::counted(bytes);
        let more = |used: u64| used.checked_add(wanted).filter(|sum| *sum <= self.bytes);
        let taken = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        if let Ok(before) = taken {
            self.peak.fetch_max(before + wanted, Ordering::Relaxed);
        }
        taken.is_ok()
    }

    pub(crate) fn give_back(&self, bytes: usize) {
        let before = self.used.fetch_sub(Self::counted(bytes), Ordering::Relaxed);
        assert!(before >= Self::counted(bytes), "more bytes were returned than taken");
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn free(&self) -> u64 {
        self.bytes - self.used.load(Ordering::Relaxed)
    }

    pub(crate) fn peak(&self) -> u64 {
        self.peak.load(Ordering::Relaxed)
    }
}
