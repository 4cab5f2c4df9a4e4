//! What the planner counts of the units that it plans.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::GroupUnit;

/// Counts of the planner.
#[derive(Debug, Default)]
pub struct Counters {
    hits: AtomicU64,
    misses: AtomicU64,
    evictions: AtomicU64,
    units: AtomicU64,
    in_flight: AtomicU64,
}

/// [`Counters`] at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Planned {
    /// Distinct keys per planned unit that were in the slab.
    pub hits: u64,
    /// Those that were not.
    pub misses: u64,
    /// Rows that left their slot.
    pub evictions: u64,
    /// Units planned.
    pub units: u64,
    /// Sum over them of the units in flight once each was planned.
    pub in_flight: u64,
}

impl Counters {
    /// What moves in one table group for a unit.
    pub(super) fn planned(&self, moves: &GroupUnit) {
        self.hits.fetch_add(moves.hits, Ordering::Relaxed);
        self.misses.fetch_add(moves.fills.len() as u64, Ordering::Relaxed);
        self.evictions.fetch_add(moves.evictions, Ordering::Relaxed);
    }

    /// A unit was planned; `units` are in flight now.
    pub(super) fn in_flight(&self, units: usize) {
        self.units.fetch_add(1, Ordering::Relaxed);
        self.in_flight.fetch_add(units as u64, Ordering::Relaxed);
    }

    /// The counts so far.
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
