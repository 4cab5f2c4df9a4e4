//! Restores the order of items that several workers finish out of order.
//!
//! Bounds: at most `capacity` items wait. The next item in order is always accepted, so workers
//! that take their work in order can't deadlock.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stepwell_base::queue::Events;

/// Buffer between workers and a reader that takes items by number.
#[derive(Debug)]
pub struct Ordered<T> {
    state: Mutex<State<T>>,
    capacity: u64,
    events: Arc<Events>,
}

#[derive(Debug)]
struct State<T> {
    next: u64,
    waiting: BTreeMap<u64, T>,
}

impl<T> Ordered<T> {
    pub(super) fn new(events: &Arc<Events>, capacity: usize) -> Arc<Self> {
        let state = Mutex::new(State { next: 0, waiting: BTreeMap::new() });
        Arc::new(Self { state, capacity: capacity.max(1) as u64, events: Arc::clone(events) })
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds item `number`; returns it if it is too far ahead.
    pub(super) fn try_put(&self, number: u64, item: T) -> Result<(), T> {
        let mut state = self.lock();
        if number >= state.next + self.capacity {
            return Err(item);
        }
        let twice = state.waiting.insert(number, item);
        assert!(twice.is_none(), "item {number} was put twice");
        drop(state);
        self.events.notify();
        Ok(())
    }

    /// The next item in order, if it is finished.
    pub fn try_take(&self) -> Option<T> {
        let mut state = self.lock();
        let next = state.next;
        let item = state.waiting.remove(&next)?;
        state.next += 1;
        drop(state);
        self.events.notify();
        Some(item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_restored_within_the_bound() {
        let ordered = Ordered::new(&Events::new(), 2);
        assert_eq!(ordered.try_put(1, 'b'), Ok(()));
        assert_eq!(ordered.try_put(2, 'c'), Err('c'));
        assert_eq!(ordered.try_take(), None);
        assert_eq!(ordered.try_put(0, 'a'), Ok(()));
        assert_eq!(ordered.try_take(), Some('a'));
        assert_eq!(ordered.try_put(2, 'c'), Ok(()));
        assert_eq!((ordered.try_take(), ordered.try_take()), (Some('b'), Some('c')));
    }
}
