//! Counts open files.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

#[derive(Debug, Default)]
pub(super) struct Gauge {
    open: AtomicUsize,
    most: AtomicUsize,
    pub(super) kept: AtomicUsize,
    pub(super) opened_again: AtomicU64,
}

/// Permission for one open file; returned when this is dropped.
#[derive(Debug)]
pub(crate) struct Permit(Arc<Gauge>);

impl Gauge {
    pub(super) fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    pub(super) fn most(&self) -> usize {
        self.most.load(Ordering::Relaxed)
    }
}

impl Permit {
    /// Returns a permit if fewer than `bound` are taken.
    pub(super) fn take(gauge: &Arc<Gauge>, bound: usize) -> Option<Self> {
        let add = |open: usize| (open < bound).then_some(open + 1);
        let before = gauge.open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).ok()?;
        gauge.most.fetch_max(before + 1, Ordering::Relaxed);
        Some(Self(Arc::clone(gauge)))
    }

    /// Returns a permit, however many are taken.
    pub(super) fn take_beyond(gauge: &Arc<Gauge>) -> Self {
        let before = gauge.open.fetch_add(1, Ordering::Relaxed);
        gauge.most.fetch_max(before + 1, Ordering::Relaxed);
        Self(Arc::clone(gauge))
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}
