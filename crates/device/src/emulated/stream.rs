//! Queue of a stream.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::events::EventState;
use crate::driver::{Operation, STREAM_OPERATIONS_MAX};

/// Work of a stream.
#[derive(Debug)]
pub(super) enum Work {
    Do(Operation),
    Signal(Arc<EventState>, u64),
    Await(Arc<EventState>, u64),
}

#[derive(Debug, Default)]
struct Queue {
    work: VecDeque<Work>,
    ended: bool,
}

/// State of a stream.
#[derive(Debug)]
pub(super) struct StreamState {
    pub(super) number: u64,
    pub(super) name: &'static str,
    queue: Mutex<Queue>,
    moved: Condvar,
}

impl StreamState {
    pub(super) fn new(number: u64, name: &'static str) -> Self {
        Self { number, name, queue: Mutex::default(), moved: Condvar::new() }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds work; returns it if the stream is full.
    pub(super) fn try_push(&self, work: Work) -> Result<(), Work> {
        let mut queue = self.queue();
        if queue.work.len() >= STREAM_OPERATIONS_MAX {
            return Err(work);
        }
        queue.work.push_back(work);
        self.moved.notify_all();
        Ok(())
    }

    /// Adds work, waiting for room.
    pub(super) fn push(&self, work: Work) {
        let full = |queue: &mut Queue| queue.work.len() >= STREAM_OPERATIONS_MAX;
        let queue = self.moved.wait_while(self.queue(), full);
        queue.unwrap_or_else(PoisonError::into_inner).work.push_back(work);
        self.moved.notify_all();
    }

    /// Ends the queue: no more work will be added.
    pub(super) fn end(&self) {
        self.queue().ended = true;
        self.moved.notify_all();
    }

    /// Takes the next work, waiting for it; `None` once the stream has ended and is empty.
    pub(super) fn take(&self) -> Option<Work> {
        let idle = |queue: &mut Queue| queue.work.is_empty() && !queue.ended;
        let queue = self.moved.wait_while(self.queue(), idle);
        let work = queue.unwrap_or_else(PoisonError::into_inner).work.pop_front();
        self.moved.notify_all();
        work
    }

    /// Takes the next work, if it doesn't wait for an event.
    pub(super) fn take_runnable(&self) -> Option<Work> {
        let mut queue = self.queue();
        match queue.work.front() {
            Some(Work::Await(event, number)) if !event.is_over(*number) => None,
            _ => queue.work.pop_front(),
        }
    }

    /// Whether the stream has ended and is empty.
    pub(super) fn is_done(&self) -> bool {
        let queue = self.queue();
        queue.ended && queue.work.is_empty()
    }
}
