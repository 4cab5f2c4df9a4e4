//! The compaction threads, how they take turns, and how they yield.
//!
//! While space is within the setting, a thread merges only segments that are mostly stale, and only
//! between look-ups. Above the setting, it works a fixed share of the time; while a writer or
//! commit waits, it does not rest. Time is used only here: it decides when merges happen, never a
//! row's contents.

use std::collections::VecDeque;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use super::Core;
use crate::Result;

/// Part of the time that merges run while space is above the setting.
const SHARE: f64 = 0.5;
/// Interval at which a merge that is not urgent checks for look-ups.
const REST: Duration = Duration::from_millis(1);
/// The longest rest of a merge that runs a share of the time.
const REST_MAX: Duration = Duration::from_millis(20);
/// The longest wait of a thread before it checks for work.
const LOOK: Duration = Duration::from_secs(1);

/// Rest after a check without result, as a multiple of the check's duration.
const LOOK_SHARE: u32 = 20;

/// Wakes the threads.
#[derive(Debug, Default)]
pub(crate) struct Wakeup {
    woken: Mutex<bool>,
    changed: Condvar,
}

impl Wakeup {
    pub(crate) fn notify(&self) {
        *self.woken.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_one();
    }

    pub(crate) fn notify_all(&self) {
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
pub(crate) struct Turns {
    list: Mutex<List>,
    /// Signals the end of a turn.
    over: Condvar,
}

#[derive(Debug, Default)]
struct List {
    /// Waiting stores; the first one is next.
    stores: VecDeque<Entry>,
    /// Stores whose turn it is.
    busy: Vec<Weak<Core>>,
    threads: usize,
    ended: bool,
}

/// A store whose turn it is, and the weak reference that identifies it afterwards.
type Turn = (Arc<Core>, Weak<Core>);

#[derive(Debug)]
struct Entry {
    core: Weak<Core>,
    /// When it may be checked again: checks without result take time.
    not_before: Instant,
}

impl Turns {
    fn list(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn stores(&self) -> usize {
        let list = self.list();
        list.stores.len() + list.busy.len()
    }

    pub(crate) fn enter(&self, core: Weak<Core>) {
        self.list().stores.push_back(Entry { core, not_before: Instant::now() });
    }

    /// Removes a store; if it is its turn, waits until the turn is over.
    pub(crate) fn leave(&self, core: &Weak<Core>) {
        let mut list = self.list();
        loop {
            list.stores.retain(|entry| !entry.core.ptr_eq(core));
            if !list.busy.iter().any(|busy| busy.ptr_eq(core)) {
                return;
            }
            list = self.over.wait(list).unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub(crate) fn end(&self) {
        self.list().ended = true;
    }

    /// Starts the threads that are not running yet.
    pub(crate) fn start(
        turns: &Arc<Self>,
        wakeup: &Arc<Wakeup>,
        count: usize,
        core: &Core,
    ) -> Result<()> {
        while turns.list().threads < count {
            let (of_thread, wakeup) = (Arc::clone(turns), Arc::clone(wakeup));
            let builder = thread::Builder::new().name("store-compact".to_owned());
            builder.spawn(move || of_thread.work(&wakeup)).map_err(|error| {
                let path = core.home().path();
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
            if entry.not_before > now && core.waiting.load(Ordering::SeqCst) == 0 {
                list.stores.push_back(entry);
                continue;
            }
            list.busy.push(Weak::clone(&entry.core));
            return (Some((core, entry.core)), list.ended);
        }
        (None, list.ended)
    }
}

/// How a merge yields to other work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    /// Not at all.
    Full,
    /// It runs a share of the time.
    Share,
    /// It waits while there are look-ups.
    Idle,
}

impl Core {
    /// Does a merge if one is due; returns whether it did.
    fn compact_once(&self) -> bool {
        if self.closing.load(Ordering::SeqCst) {
            return false;
        }
        let over = self.pressure(&self.state()).is_over();
        let pace = if over { Pace::Share } else { Pace::Idle };
        // Writers get a disk's errors, and look-ups those of unreadable pages; later merges skip
        // their segments.
        matches!(self.merge_once(pace), Ok(1..))
    }

    /// Rests as `pace` requires, after work since `since`.
    pub(super) fn rest(&self, pace: Pace, since: Instant) {
        let hurries =
            || self.waiting.load(Ordering::SeqCst) > 0 || self.closing.load(Ordering::SeqCst);
        match pace {
            Pace::Full => {}
            Pace::Share => {
                let worked = since.elapsed();
                let until = worked.mul_f64((1.0 - SHARE) / SHARE).min(REST_MAX);
                if !hurries() {
                    thread::sleep(until);
                }
            }
            Pace::Idle => {
                let looking = || self.looking.load(Ordering::Relaxed) > 0;
                let rests = Instant::now();
                while looking() && !hurries() && rests.elapsed() < 10 * REST_MAX {
                    thread::sleep(REST);
                }
            }
        }
    }
}
