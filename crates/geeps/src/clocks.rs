//! Vector clocks: how often each worker clocked a table, as known to a shard.
//!
//! - **Data age.** The least of them: all updates of all workers up to that clock are included.
//!   Source: Cui et al., GeePS (2016), section 4.2; Ho et al., "More effective distributed ML via a
//!   Stale Synchronous Parallel parameter server" (NIPS 2013).

use crate::settings::Staleness;

/// How often each worker clocked. // (ranks)
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct VectorClock(Vec<u64>);

impl VectorClock {
    pub(crate) fn new(workers: usize) -> Self {
        Self(vec![0; workers])
    }

    pub(crate) fn of(&self, worker: usize) -> u64 {
        self.0[worker]
    }

    /// Advances a worker's clock; returns whether the data age changed.
    pub(crate) fn tick(&mut self, worker: usize) -> bool {
        let before = self.age();
        self.0[worker] += 1;
        self.age() > before
    }

    pub(crate) fn set(&mut self, worker: usize, clock: u64) {
        assert!(clock >= self.0[worker], "clocks never go back");
        self.0[worker] = clock;
    }

    pub(crate) fn age(&self) -> u64 {
        self.0.iter().copied().min().unwrap_or(0)
    }
}

/// The data age that a worker at `clock` needs.
pub(crate) fn age_needed(clock: u64, staleness: Staleness) -> u64 {
    match staleness {
        Staleness::Clocks(slack) => clock.saturating_sub(slack),
        Staleness::Unbounded => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_age_is_that_of_the_slowest() {
        let mut clocks = VectorClock::new(3);
        assert!(!clocks.tick(0) && !clocks.tick(0) && !clocks.tick(1));
        assert_eq!((clocks.age(), clocks.of(0), clocks.of(1)), (0, 2, 1));
        assert!(clocks.tick(2));
        assert_eq!(clocks.age(), 1);
        clocks.set(2, 5);
        assert_eq!(clocks.age(), 1);
        clocks.set(1, 4);
        assert_eq!(clocks.age(), 2);
    }

    #[test]
    fn a_worker_at_clock_t_needs_what_was_committed_up_to_t_less_one_less_the_slack() {
        // Data of age a has updates of clocks 0 to a - 1.
        assert_eq!(age_needed(5, Staleness::BSP), 5);
        assert_eq!(age_needed(5, Staleness::Clocks(2)), 3);
        assert_eq!(age_needed(1, Staleness::Clocks(2)), 0);
        assert_eq!(age_needed(5, Staleness::Unbounded), 0);
    }
}
