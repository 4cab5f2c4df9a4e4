//! Sums of work and time, and rates that follow from them.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

/// Nanoseconds of a second.
const NANOS: f64 = 1e9;

/// A limit, and how close to it something came.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Bound {
    /// Name: `gemm`, `gather` or `memcpy`.
    pub name: &'static str,
    /// Rate that one thread can reach: operations for `gemm`, bytes for the others.
    pub per_second: f64,
    /// Achieved part of the limit; 1 is all.
    pub achieved: f64,
}

/// Operations or bytes per second; 0 without time.
pub(super) fn rate(count: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
}

/// Work and time, to which threads add.
#[derive(Debug, Default)]
pub(super) struct Sum {
    nanos: AtomicU64,
    flops: AtomicU64,
    bytes: AtomicU64,
}

impl Sum {
    /// Counts the time from `begin` to `end`.
    pub(super) fn time(&self, begin: f64, end: f64) {
        let nanos = (end - begin).max(0.0) * NANOS;
        self.nanos.fetch_add(nanos as u64, Ordering::Relaxed);
    }

    /// Counts completed work.
    pub(super) fn count(&self, flops: u64, bytes: u64) {
        self.flops.fetch_add(flops, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn seconds(&self) -> f64 {
        self.nanos.load(Ordering::Relaxed) as f64 / NANOS
    }

    pub(super) fn flops(&self) -> u64 {
        self.flops.load(Ordering::Relaxed)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}
