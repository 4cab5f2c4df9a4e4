//! The request that a run ends soon, in good order: a signal makes it, or a scheduler, or a test.
//!
//! Whoever works looks at it between two pieces of work; whoever sleeps is woken by the bells that
//! were given to it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::queue::Bell;

/// A request to stop; clones are the same one. It is made once and never taken back.
#[derive(Clone, Debug, Default)]
pub struct StopRequest(Arc<State>);

#[derive(Debug, Default)]
struct State {
    made: AtomicBool,
    bells: Mutex<Vec<Weak<Bell>>>,
}

impl StopRequest {
    /// A request that nobody has made yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes the request and wakes who sleeps.
    pub fn make(&self) {
        self.0.made.store(true, Ordering::Release);
        let bells = self.0.bells.lock().unwrap_or_else(PoisonError::into_inner);
        bells.iter().filter_map(Weak::upgrade).for_each(|bell| bell.ring());
    }

    /// Whether it was made.
    pub fn is_made(&self) -> bool {
        self.0.made.load(Ordering::Acquire)
    }

    /// Whoever waits for `bell` looks again once the request is made.
    pub fn rings(&self, bell: &Arc<Bell>) {
        let mut bells = self.0.bells.lock().unwrap_or_else(PoisonError::into_inner);
        bells.retain(|known| known.strong_count() > 0);
        bells.push(Arc::downgrade(bell));
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
        let (stop, bell) = (StopRequest::new(), Bell::new());
        stop.rings(&bell);
        stop.rings(&Bell::new());
        let seen = bell.count();
        assert!(!stop.is_made());
        std::thread::scope(|scope| {
            scope.spawn(|| bell.wait_past(seen));
            stop.clone().make();
        });
        assert!(stop.is_made() && bell.count() > seen);
        assert!(stop == stop.clone() && stop != StopRequest::new());
    }
}
