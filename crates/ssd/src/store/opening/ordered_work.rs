//! Items that are read ahead and that several threads process, each in order: groups of segments,
//! when a store opens.
//!
//! ```text
//! read, by any idle thread     1 2 3 4 5 6 7 …      a few ahead of the slowest thread
//! processed by thread 0        1 2 3 4 5            each thread processes all of them,
//!              thread 1        1 2 3 4              in order, at its own pace
//! ```
//!
//! - **How.** A thread whose next item was read processes it; otherwise it reads one, unless too
//!   many are held; otherwise it waits. An item is dropped when all threads are done with it. A
//!   single thread alternates between reading and processing.
//! - **Failure.** Returns the error of the first item that fails, after all items before it were
//!   processed, as with one thread: so the error does not depend on the threads.
//! - **Invariants.**
//!   - SSD-I16: some thread can always continue: the first held item is being read, or is the next
//!     item of a thread that is not done with it.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use crate::{Error, Result};

/// Work on a sequence of items.
pub(super) struct Relay<'a, W, T> {
    /// Number of items.
    pub(super) items: usize,
    /// Reads an item.
    pub(in crate::store) read: &'a (dyn Fn(usize) -> Result<T> + Sync),
    /// Does a worker's part of the work on an item.
    pub(in crate::store) work: &'a (dyn Fn(&mut W, usize, &T) -> Result<()> + Sync),
}

/// The most items that `threads` threads hold, being read or processed.
pub(crate) fn held_most(threads: usize) -> usize {
    if threads == 1 { 1 } else { threads + 1 }
}

impl<W: Send, T: Send + Sync> Relay<'_, W, T> {
    /// Runs the work, with a thread for each worker including the caller's.
    pub(in crate::store) fn run(&self, workers: &mut [W]) -> Result<()> {
        let Some((own, others)) = workers.split_first_mut() else { return Ok(()) };
        if others.is_empty() {
            return (0..self.items).try_for_each(|at| (self.work)(own, at, &(self.read)(at)?));
        }
        let threads = 1 + others.len();
        let shared = Shared {
            threads,
            held_most: held_most(threads),
            state: Mutex::new(State { end: self.items, ..State::default() }),
            changed: Condvar::new(),
        };
        thread::scope(|scope| {
            for worker in others {
                scope.spawn(|| self.take_part(&shared, worker));
            }
            self.take_part(&shared, own);
        });
        let state = shared.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        state.error.map_or(Ok(()), Err)
    }

    fn take_part(&self, shared: &Shared<T>, worker: &mut W) {
        let _guard = Guard(shared);
        let mut mine = 0;
        while let Some(job) = shared.next(mine) {
            match job {
                Job::Work(item) => {
                    let outcome = (self.work)(worker, mine, &item);
                    // Dropped before other threads are notified, to keep the bound on held items.
                    drop(item);
                    match outcome {
                        Ok(()) => shared.done(mine),
                        Err(error) => shared.fail(mine, error),
                    }
                    mine += 1;
                }
                Job::Read(at) => match (self.read)(at) {
                    Ok(item) => shared.give(at, item),
                    Err(error) => shared.fail(at, error),
                },
            }
        }
    }
}

struct Shared<T> {
    threads: usize,
    held_most: usize,
    state: Mutex<State<T>>,
    changed: Condvar,
}

struct State<T> {
    /// The first item that is held.
    first: usize,
    /// Items from `first` on that were begun and that some thread is not done with.
    held: VecDeque<Held<T>>,
    /// Number of items to process: all, or those before the first failure.
    end: usize,
    error: Option<Error>,
}

impl<T> Default for State<T> {
    fn default() -> Self {
        Self { first: 0, held: VecDeque::new(), end: 0, error: None }
    }
}

struct Held<T> {
    /// The item, once it is read.
    item: Option<Arc<T>>,
    /// Number of threads that are not done with the item.
    left: usize,
}

enum Job<T> {
    Work(Arc<T>),
    Read(usize),
}

impl<T> Shared<T> {
    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next job of a thread that is done with all items below `mine`; `None` at the end.
    fn next(&self, mine: usize) -> Option<Job<T>> {
        let mut state = self.state();
        loop {
            if mine >= state.end {
                return None;
            }
            let held = state.held.get(mine - state.first);
            if let Some(item) = held.and_then(|held| held.item.as_ref()) {
                return Some(Job::Work(Arc::clone(item)));
            }
            let at = state.first + state.held.len();
            if at < state.end && state.held.len() < self.held_most {
                state.held.push_back(Held { item: None, left: self.threads });
                return Some(Job::Read(at));
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn give(&self, at: usize, item: T) {
        let mut state = self.state();
        let at = at - state.first;
        state.held[at].item = Some(Arc::new(item));
        self.changed.notify_all();
    }

    fn done(&self, at: usize) {
        let mut state = self.state();
        let at = at - state.first;
        state.held[at].left -= 1;
        while state.held.front().is_some_and(|held| held.left == 0) {
            state.held.pop_front();
            state.first += 1;
        }
        self.changed.notify_all();
    }

    fn fail(&self, at: usize, error: Error) {
        let mut state = self.state();
        if at < state.end {
            (state.end, state.error) = (at, Some(error));
        }
        self.changed.notify_all();
    }
}

/// Ends the work of all threads if one panics.
struct Guard<'a, T>(&'a Shared<T>);

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.state().end = 0;
            self.0.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::AssertUnwindSafe;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Processes 100 items, some of which fail; returns each worker's items, and the error's item.
    fn run(threads: usize, reads: &[usize], works: &[usize]) -> (Vec<Vec<usize>>, Option<String>) {
        let held = AtomicUsize::new(0);
        let failing = |at: usize, list: &[usize]| match list.contains(&at) {
            true => Err(Error::Options(at.to_string())),
            false => Ok(()),
        };
        struct Item<'a>(usize, &'a AtomicUsize);
        impl Drop for Item<'_> {
            fn drop(&mut self) {
                self.1.fetch_sub(1, Ordering::SeqCst);
            }
        }
        let relay = Relay {
            items: 100,
            read: &|at| {
                assert!(held.fetch_add(1, Ordering::SeqCst) < held_most(threads));
                let item = Item(at, &held);
                failing(at, reads).map(|()| item)
            },
            work: &|worker: &mut Vec<usize>, at, item: &Item<'_>| {
                assert_eq!(at, item.0);
                if at % 7 == 3 {
                    thread::yield_now();
                }
                failing(at, works)?;
                worker.push(at);
                Ok(())
            },
        };
        let mut workers = vec![Vec::new(); threads];
        let outcome = relay.run(&mut workers);
        assert_eq!(held.into_inner(), 0);
        (workers, outcome.err().map(|error| error.to_string()))
    }

    #[test]
    fn every_worker_goes_through_all_in_order() {
        for threads in [1, 2, 3, 8] {
            let (workers, error) = run(threads, &[], &[]);
            assert!(workers.iter().all(|done| *done == (0..100).collect::<Vec<_>>()));
            assert_eq!(error, None);
        }
    }

    #[test]
    fn the_first_error_is_told_and_what_is_before_it_is_done() {
        for threads in [1, 2, 3, 8] {
            for (reads, works, first) in
                [(&[60, 40][..], &[50][..], 40), (&[60], &[20, 61], 20), (&[0], &[], 0)]
            {
                let (workers, error) = run(threads, reads, works);
                assert!(error.unwrap().contains(&first.to_string()));
                let done = (0..first).collect::<Vec<_>>();
                assert!(workers.iter().all(|worker| worker[..first] == done));
            }
        }
    }

    #[test]
    fn a_panic_ends_all() {
        let relay = Relay {
            items: 1000,
            read: &Ok,
            work: &|worker: &mut usize, at, _: &usize| {
                assert!(*worker != 1 || at < 500, "as asked");
                Ok(())
            },
        };
        let ended = std::panic::catch_unwind(AssertUnwindSafe(|| relay.run(&mut [0, 1, 2])));
        assert!(ended.is_err());
    }
}
