//! Turns of the stores that compaction threads serve.

use std::collections::VecDeque;
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use tracing::error;

use crate::Result;

/// A store that compaction threads serve.
pub(crate) trait Compacts: Send + Sync + std::fmt::Debug {
    /// Does a merge if one is due; returns whether it did.
    fn compact_once(&self) -> bool;

    /// Whether a caller waits for compaction.
    fn is_waited_for(&self) -> bool;

    /// Path of the store, for messages.
    fn path(&self) -> &Path;
}

/// The longest wait of a thread before it checks for work.
const LOOK: Duration = Duration::from_secs(1);

/// Rest after a check without result, as a multiple of the check's duration.
const LOOK_SHARE: u32 = 20;

/// Wakes the threads.
#[derive(Debug, Default)]
pub(super) struct Wakeup {
    woken: Mutex<bool>,
    changed: Condvar,
}

impl Wakeup {
    pub(super) fn notify(&self) {
        *self.woken.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_one();
    }

    pub(super) fn notify_all(&self) {
        self.notify();
        self.changed.notify_all();
    }

    fn wait(&self) {
        let woken = self.woken.lock().unwrap_or_else(PoisonError::into_inner);
        let asleep = |woken: &mut bool| !*woken;
        let waited = self.changed.wait_timeout_while(woken, LOOK, asleep);
        *waited.unwrap_or_else(PoisonError::into_inner).0 = false;
    }
}

/// Turns of the stores that threads compact, with at most one thread per store.
#[derive(Debug, Default)]
pub(super) struct Turns {
    list: Mutex<List>,
    /// Signals the end of a turn.
    over: Condvar,
}

#[derive(Debug, Default)]
struct List {
    /// Waiting stores; the first one is next.
    stores: VecDeque<Entry>,
    /// Stores whose turn it is.
    busy: Vec<Weak<dyn Compacts>>,
    threads: usize,
    ended: bool,
}

/// A store whose turn it is, and the weak reference that identifies it afterwards.
type Turn = (Arc<dyn Compacts>, Weak<dyn Compacts>);

#[derive(Debug)]
struct Entry {
    core: Weak<dyn Compacts>,
    /// Time before which the store is not checked again: checks without result take time.
    not_before: Instant,
}

impl Turns {
    fn list(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn stores(&self) -> usize {
        let list = self.list();
        list.stores.len() + list.busy.len()
    }

    pub(super) fn enter(&self, core: Weak<dyn Compacts>) {
        self.list().stores.push_back(Entry { core, not_before: Instant::now() });
    }

    /// Removes a store; if it is its turn, waits until the turn is over.
    pub(super) fn leave(&self, core: &Weak<dyn Compacts>) {
        let mut list = self.list();
        loop {
            list.stores.retain(|entry| !entry.core.ptr_eq(core));
            if !list.busy.iter().any(|busy| busy.ptr_eq(core)) {
                return;
            }
            list = self.over.wait(list).unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub(super) fn end(&self) {
        self.list().ended = true;
    }

    /// Starts the threads that are not running yet.
    pub(super) fn start(
        turns: &Arc<Self>,
        wakeup: &Arc<Wakeup>,
        count: usize,
        path: &Path,
    ) -> Result<()> {
        while turns.list().threads < count {
            let (of_thread, wakeup) = (Arc::clone(turns), Arc::clone(wakeup));
            let builder = thread::Builder::new().name("store-compact".to_owned());
            builder.spawn(move || of_thread.work(&wakeup)).map_err(|error| {
                stepwell_disk::Error::io(stepwell_disk::Operation::Create, path, error)
            })?;
            turns.list().threads += 1;
        }
        Ok(())
    }

    /// Compacts the next store, repeatedly, until the executor ends.
    fn work(&self, wakeup: &Wakeup) {
        loop {
            let (next, ended) = self.next();
            if ended {
                return;
            }
            let Some((core, weak)) = next else {
                wakeup.wait();
                continue;
            };
            let looked = Instant::now();
            // A panic poisons the locks that were held, so that writes are refused from then on.
            let merged = panic::catch_unwind(AssertUnwindSafe(|| core.compact_once()));
            if merged.is_err() {
                let store = core.path().display();
                error!(%store, "a merge panicked: writes are refused until the store is reopened");
            }
            let pause = match merged {
                Ok(true) => Duration::ZERO,
                Ok(false) | Err(_) => looked.elapsed() * LOOK_SHARE,
            };
            // Dropped before the turn ends, so that a closing store's locks are free.
            drop(core);
            let mut list = self.list();
            list.busy.retain(|busy| !busy.ptr_eq(&weak));
            list.stores.push_back(Entry { core: weak, not_before: Instant::now() + pause });
            drop(list);
            self.over.notify_all();
        }
    }

    /// The next store that is not resting; and whether the executor has ended.
    fn next(&self) -> (Option<Turn>, bool) {
        let mut list = self.list();
        let now = Instant::now();
        for _ in 0..list.stores.len() {
            let Some(entry) = list.stores.pop_front() else { break };
            // A store that is being dropped needs no turn.
            let Some(core) = entry.core.upgrade() else { continue };
            if entry.not_before > now && !core.is_waited_for() {
                list.stores.push_back(entry);
                continue;
            }
            list.busy.push(Weak::clone(&entry.core));
            return (Some((core, entry.core)), list.ended);
        }
        (None, list.ended)
    }
}
