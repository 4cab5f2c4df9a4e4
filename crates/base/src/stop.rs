//! The request that a run ends soon, in good order: a signal makes it, or a scheduler, or a test.
//!
//! Whoever works looks at it between two pieces of work; whoever sleeps is woken by the events that
//! were given to it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::queue::Events;

/// A request to stop; clones are the same one. It is made once and never taken back.
#[derive(Clone, Debug, Default)]
pub struct StopRequest(Arc<State>);

#[derive(Debug, Default)]
struct State {
    made: AtomicBool,
    waiters: Mutex<Vec<Weak<Events>>>,
}

impl StopRequest {
    /// A request that nobody has made yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes the request and wakes who sleeps.
    pub fn make(&self) {
        self.0.made.store(true, Ordering::Release);
        let waiters = self.0.waiters.lock().unwrap_or_else(PoisonError::into_inner);
        waiters.iter().filter_map(Weak::upgrade).for_each(|events| events.notify());
    }

    /// Whether it was made.
    pub fn is_made(&self) -> bool {
        self.0.made.load(Ordering::Acquire)
    }

    /// Whoever waits for `events` looks again once the request is made.
    pub fn notifies(&self, events: &Arc<Events>) {
        let mut waiters = self.0.waiters.lock().unwrap_or_else(PoisonError::into_inner);
        waiters.retain(|known| known.strong_count() > 0);
        waiters.push(Arc::downgrade(events));
    }
}

impl PartialEq for StopRequest {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_reaches_clones_and_sleepers() {
        let (stop, events) = (StopRequest::new(), Events::new());
        stop.notifies(&events);
        stop.notifies(&Events::new());
        let seen = events.count();
        assert!(!stop.is_made());
        std::thread::scope(|scope| {
            scope.spawn(|| events.wait_past(seen));
            stop.clone().make();
        });
        assert!(stop.is_made() && events.count() > seen);
        assert!(stop == stop.clone() && stop != StopRequest::new());
    }
}
