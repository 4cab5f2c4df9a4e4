//! Counts units and rows that the planner plans.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::unit::GroupUnit;

/// Counts of the planner.
#[derive(Debug, Default)]
pub struct Counters {
    hits: AtomicU64,
    misses: AtomicU64,
    evictions: AtomicU64,
    units: AtomicU64,
    in_flight: AtomicU64,
}

/// A snapshot of [`Counters`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Planned {
    /// Distinct keys per planned unit that were in the slab.
    pub hits: u64,
    /// Distinct keys per planned unit that were not in the slab.
    pub misses: u64,
    /// Rows that left their slots.
    pub evictions: u64,
    /// Units planned.
    pub units: u64,
    /// Units in flight after each unit was planned, summed over all units.
    pub in_flight: u64,
}

impl Counters {
    /// Counts the moves of one table group for a unit.
    pub(super) fn planned(&self, moves: &GroupUnit) {
        self.hits.fetch_add(moves.hits, Ordering::Relaxed);
        self.misses.fetch_add(moves.fills.len() as u64, Ordering::Relaxed);
        self.evictions.fetch_add(moves.evictions, Ordering::Relaxed);
    }

    /// Counts a planned unit, after which `units` are in flight.
    pub(super) fn in_flight(&self, units: usize) {
        self.units.fetch_add(1, Ordering::Relaxed);
        self.in_flight.fetch_add(units as u64, Ordering::Relaxed);
    }

    /// Returns the counts so far.
    pub fn count(&self) -> Planned {
        Planned {
            hits: self.hits.load(Ordering::Relaxed),
            misses: self.misses.load(Ordering::Relaxed),
            evictions: self.evictions.load(Ordering::Relaxed),
            units: self.units.load(Ordering::Relaxed),
            in_flight: self.in_flight.load(Ordering::Relaxed),
        }
    }
}
