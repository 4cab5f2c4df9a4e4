//! Events of emulated devices.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// An event: how often it was recorded, and how many recordings are over.
#[derive(Debug, Default)]
pub(super) struct EventState {
    counts: Mutex<Counts>,
    moved: Condvar,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    recorded: u64,
    over: u64,
}

impl EventState {
    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a recording and returns its number.
    pub(super) fn record(&self) -> u64 {
        let mut counts = self.counts();
        counts.recorded += 1;
        counts.recorded
    }

    /// Number of the last recording.
    pub(super) fn last(&self) -> u64 {
        self.counts().recorded
    }

    /// Marks recording `number` as over.
    pub(super) fn signal(&self, number: u64) {
        let mut counts = self.counts();
        counts.over = counts.over.max(number);
        self.moved.notify_all();
    }

    pub(super) fn is_over(&self, number: u64) -> bool {
        self.counts().over >= number
    }

    pub(super) fn wait(&self, number: u64) {
        let counts = self.counts();
        let waits = |counts: &mut Counts| counts.over < number;
        drop(self.moved.wait_while(counts, waits).unwrap_or_else(PoisonError::into_inner));
    }
}

/// Events by number.
#[derive(Debug, Default)]
pub(super) struct Events(Mutex<(u64, HashMap<u64, Arc<EventState>>)>);

impl Events {
    fn inner(&self) -> MutexGuard<'_, (u64, HashMap<u64, Arc<EventState>>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self) -> u64 {
        let (last, events) = &mut *self.inner();
        *last += 1;
        events.insert(*last, Arc::default());
        *last
    }

    pub(super) fn remove(&self, number: u64) {
        self.inner().1.remove(&number);
    }

    pub(super) fn get(&self, number: u64) -> Arc<EventState> {
        let inner = self.inner();
        let event = inner.1.get(&number);
        event.map_or_else(|| panic!("no event {number}"), Arc::clone)
    }
}
