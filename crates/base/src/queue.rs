//! Bounded queues between stages, and the count of events that wakes waiting threads.
//!
//! - **Why.** A stage is a state machine that never blocks inside a queue, so that one thread per
//!   stage and a simulated scheduler can drive the same code. It tries, and if nothing moved, it
//!   waits for the pipeline's single [`Events`], which counts every change of every queue.
//!
//! - **Bounds.** A queue holds at most its capacity in items; its creator accounts for their bytes.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A counter of events with a way to wait for the next one; one per pipeline.
#[derive(Debug, Default)]
pub struct Events {
    state: Mutex<EventsState>,
    more: Condvar,
}

#[derive(Debug, Default)]
struct EventsState {
    count: u64,
    stopped: bool,
    /// Number of threads in `wait_past`; if it is 0, an event makes no system call.
    waiting: u32,
}

impl Events {
    /// A counter at zero.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    fn lock(&self) -> MutexGuard<'_, EventsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts an event and wakes all waiting threads.
    pub fn notify(&self) {
        let mut state = self.lock();
        state.count += 1;
        let waiting = state.waiting > 0;
        drop(state);
        if waiting {
            self.more.notify_all();
        }
    }

    /// Ends the pipeline early: all threads that wait, now or later, return at once.
    pub fn stop(&self) {
        self.lock().stopped = true;
        self.more.notify_all();
    }

    /// Whether the pipeline ends early.
    pub fn is_stopped(&self) -> bool {
        self.lock().stopped
    }

    /// Number of events so far; read it before checking a condition, and pass it to
    /// [`Events::wait_past`].
    pub fn count(&self) -> u64 {
        self.lock().count
    }

    /// Waits until there were more than `seen` events, or the pipeline stopped.
    pub fn wait_past(&self, seen: u64) {
        self.wait(seen, Duration::MAX);
    }

    /// Like [`Events::wait_past`], but waits at most `seconds`.
    pub fn wait_past_for(&self, seen: u64, seconds: f64) {
        self.wait(seen, Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX));
    }

    fn wait(&self, seen: u64, most: Duration) {
        let mut state = self.lock();
        state.waiting += 1;
        let is_waiting = |state: &mut EventsState| state.count <= seen && !state.stopped;
        let mut state = match most {
            Duration::MAX => self.more.wait_while(state, is_waiting),
            most => match self.more.wait_timeout_while(state, most, is_waiting) {
                Ok((state, _)) => Ok(state),
                Err(poisoned) => Ok(poisoned.into_inner().0),
            },
        }
        .unwrap_or_else(PoisonError::into_inner);
        state.waiting -= 1;
    }
}

#[derive(Debug)]
struct Shared<T> {
    state: Mutex<QueueState<T>>,
    capacity: usize,
    events: Arc<Events>,
}

#[derive(Debug)]
struct QueueState<T> {
    items: VecDeque<T>,
    senders: usize,
    receiver_gone: bool,
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, QueueState<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A queue of at most `capacity` items, first in first out.
pub fn bounded<T>(events: &Arc<Events>, capacity: usize) -> (Sender<T>, Receiver<T>) {
    assert!(capacity > 0, "a queue holds at least one item");
    let state = QueueState { items: VecDeque::new(), senders: 1, receiver_gone: false };
    let shared =
        Arc::new(Shared { state: Mutex::new(state), capacity, events: Arc::clone(events) });
    (Sender(Arc::clone(&shared)), Receiver(shared))
}

/// The writing end; the queue closes when the last clone is dropped.
#[derive(Debug)]
pub struct Sender<T>(Arc<Shared<T>>);

/// Why an item could not be sent; contains the item.
#[derive(Debug, PartialEq, Eq)]
pub enum Refused<T> {
    /// The queue is full for now.
    Full(T),
    /// The receiver is gone: items will never be received.
    Closed(T),
}

impl<T> Sender<T> {
    /// Appends `item`.
    ///
    /// # Errors
    /// Returns the item if the queue is full or its receiver is gone.
    pub fn try_send(&self, item: T) -> Result<(), Refused<T>> {
        let mut state = self.0.lock();
        if state.receiver_gone {
            return Err(Refused::Closed(item));
        }
        if state.items.len() >= self.0.capacity {
            return Err(Refused::Full(item));
        }
        state.items.push_back(item);
        drop(state);
        self.0.events.notify();
        Ok(())
    }

    /// Whether an item would currently be refused as `Full`.
    pub fn is_full(&self) -> bool {
        self.0.lock().items.len() >= self.0.capacity
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.0.lock().senders += 1;
        Self(Arc::clone(&self.0))
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.0.lock().senders -= 1;
        self.0.events.notify();
    }
}

/// The reading end.
#[derive(Debug)]
pub struct Receiver<T>(Arc<Shared<T>>);

/// Result of trying to receive.
#[derive(Debug, PartialEq, Eq)]
pub enum Received<T> {
    /// The oldest item.
    Item(T),
    /// No item at the moment.
    Empty,
    /// No item, and none will come.
    Closed,
}

impl<T> Receiver<T> {
    /// Takes the oldest item.
    pub fn try_recv(&self) -> Received<T> {
        let mut state = self.0.lock();
        match state.items.pop_front() {
            Some(item) => {
                drop(state);
                self.0.events.notify();
                Received::Item(item)
            }
            None if state.senders == 0 => Received::Closed,
            None => Received::Empty,
        }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.receiver_gone = true;
        let left = std::mem::take(&mut state.items);
        drop(state);
        drop(left);
        self.0.events.notify();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_order_and_bound() {
        let (sender, receiver) = bounded(&Events::new(), 2);
        assert_eq!(sender.try_send(1), Ok(()));
        assert_eq!(sender.try_send(2), Ok(()));
        assert!(sender.is_full());
        assert_eq!(sender.try_send(3), Err(Refused::Full(3)));
        assert_eq!(receiver.try_recv(), Received::Item(1));
        assert_eq!(receiver.try_recv(), Received::Item(2));
        assert_eq!(receiver.try_recv(), Received::Empty);
    }

    #[test]
    fn closes_when_the_last_sender_goes() {
        let (sender, receiver) = bounded(&Events::new(), 2);
        let second = sender.clone();
        sender.try_send(1).unwrap();
        drop(sender);
        second.try_send(2).unwrap();
        drop(second);
        assert_eq!(receiver.try_recv(), Received::Item(1));
        assert_eq!(receiver.try_recv(), Received::Item(2));
        assert_eq!(receiver.try_recv(), Received::Closed);
    }

    #[test]
    fn refuses_when_the_receiver_is_gone() {
        let (sender, receiver) = bounded(&Events::new(), 1);
        drop(receiver);
        assert_eq!(sender.try_send(9), Err(Refused::Closed(9)));
    }

    #[test]
    fn a_waiter_wakes_for_an_item_and_for_a_stop() {
        let events = Events::new();
        let (sender, receiver) = bounded(&events, 1);
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                loop {
                    let seen = events.count();
                    if let Received::Item(item) = receiver.try_recv() {
                        return item;
                    }
                    events.wait_past(seen);
                }
            });
            sender.try_send(5).unwrap();
            assert_eq!(waiter.join().unwrap(), 5);
            let waiter = scope.spawn(|| events.wait_past(u64::MAX - 1));
            events.stop();
            waiter.join().unwrap();
        });
        assert!(events.is_stopped());
    }

    #[test]
    fn a_waiter_wakes_when_its_time_is_over_or_before() {
        let events = Events::new();
        events.wait_past_for(0, 0.01);
        events.wait_past_for(0, -1.0);
        assert_eq!(events.lock().waiting, 0);
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| events.wait_past_for(0, 1e300));
            events.notify();
            waiter.join().unwrap();
        });
    }

    #[test]
    fn every_change_rings_the_bell_once() {
        let events = Events::new();
        let counted = |change: &mut dyn FnMut()| {
            let before = events.count();
            change();
            events.count() - before
        };
        let (sender, receiver) = bounded(&events, 1);
        assert_eq!(counted(&mut || sender.try_send(1).unwrap()), 1);
        assert_eq!(counted(&mut || _ = sender.try_send(2)), 0, "refused, nothing changed");
        assert_eq!(counted(&mut || _ = receiver.try_recv()), 1);
        assert_eq!(counted(&mut || _ = receiver.try_recv()), 0, "empty, nothing changed");
        let mut second = Some(sender.clone());
        assert_eq!(counted(&mut || drop(second.take())), 1);
        assert_eq!(receiver.try_recv(), Received::Empty, "one sender is left");
        let mut receiver = Some(receiver);
        assert_eq!(counted(&mut || drop(receiver.take())), 1);
    }

    #[test]
    fn what_nobody_will_receive_is_dropped_with_the_receiver() {
        let (sender, receiver) = bounded(&Events::new(), 3);
        let item = Arc::new(());
        sender.try_send(Arc::clone(&item)).unwrap();
        drop(receiver);
        assert_eq!(Arc::strong_count(&item), 1);
        assert!(!sender.is_full());
    }

    #[test]
    fn whoever_waits_is_counted_and_woken_as_often_as_the_bell_is_rung() {
        let events = Events::new();
        std::thread::scope(|scope| {
            for round in 0..3 {
                let seen = events.count();
                let events = &events;
                let waiters = [0; 2].map(|_| scope.spawn(move || events.wait_past(seen)));
                while events.lock().waiting < 2 {
                    std::thread::yield_now();
                }
                assert!(waiters.iter().all(|waiter| !waiter.is_finished()), "round {round}");
                events.notify();
                waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
                assert_eq!(events.lock().waiting, 0);
                assert_eq!(events.count(), seen + 1);
            }
        });
        events.wait_past(events.count() - 1);
        assert!(!events.is_stopped());
    }
}
