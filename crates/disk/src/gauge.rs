//! Counts open files.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

#[derive(Debug, Default)]
pub(crate) struct Gauge {
    open: AtomicUsize,
    most: AtomicUsize,
    pub(crate) kept: AtomicUsize,
    pub(crate) opened_again: AtomicU64,
}

/// Permission for one open file; returned when this is dropped.
#[derive(Debug)]
pub(crate) struct Permit(Arc<Gauge>);

impl Gauge {
    pub(crate) fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    pub(crate) fn most(&self) -> usize {
        self.most.load(Ordering::Relaxed)
    }
}

impl Permit {
    /// Returns a permit if fewer than `bound` are taken.
    pub(crate) fn take(gauge: &Arc<Gauge>, bound: usize) -> Option<Self> {
        let add = |open: usize| (open < bound).then_some(open + 1);
        let before = gauge.open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).ok()?;
        gauge.most.fetch_max(before + 1, Ordering::Relaxed);
        Some(Self(Arc::clone(gauge)))
    }

    /// Returns a permit, however many are taken.
    pub(crate) fn take_beyond(gauge: &Arc<Gauge>) -> Self {
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

/// Numbers of open files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenFilesStats {
    /// The bound on open files, exceeded only while all of them are in use.
    pub bound: usize,
    /// Files open now.
    pub open: usize,
    /// The most files that were open at once.
    pub most: usize,
    /// Files open now that must stay so, since their names are gone.
    pub kept: usize,
    /// Live handles, open or not.
    pub handles: usize,
    /// Number of times that a file was reopened.
    pub opened_again: u64,
}

impl fmt::Display for OpenFilesStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bound, open, most, handles, opened_again, .. } = self;
        write!(
            f,
            "{open} of {handles} files are open, at most {most} at once (above {bound} only while \
             all were in use), {opened_again} were opened again"
        )
    }
}
