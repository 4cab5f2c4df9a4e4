//! The threads that compact, whose turn it is, and how they give way.
//!
//! While space is within the setting it merges only what is mostly stale, and only between
//! look-ups; above the setting it works a fixed share of the time; while a writer or a commit
//! waits it does not rest. Time enters here alone, and decides when a merge happens, never what
//! a row is.

use std::collections::VecDeque;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use super::Core;
use crate::Result;

/// Part of the time that a merge works while space is above the setting.
const SHARE: f64 = 0.5;
/// How long a merge that is not due rests between looks at the look-ups.
const REST: Duration = Duration::from_millis(1);
/// The longest rest.
const REST_MAX: Duration = Duration::from_millis(20);
/// How often the thread looks without having been woken.
const LOOK: Duration = Duration::from_secs(1);

/// Of the time that looking in vain takes, what passes before the next look.
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

/// Whose turn it is: the stores that threads compact, one thread at a time each.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    list: Mutex<List>,
    /// Somebody's turn is over.
    over: Condvar,
}

#[derive(Debug, Default)]
struct List {
    /// The one whose turn it is next comes first.
    stores: VecDeque<Entry>,
    /// Those whose turn it is.
    busy: Vec<Weak<Core>>,
    threads: usize,
    ended: bool,
}

/// A store whose turn it is, and what it is known by when it is let go.
type Turn = (Arc<Core>, Weak<Core>);

#[derive(Debug)]
struct Entry {
    core: Weak<Core>,
    /// It found nothing to do, and looking takes time: so it rests.
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

    /// Takes a store out; waits until its turn is over, if it is its turn.
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

    /// Starts the threads, unless they work already.
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

    /// Compacts whatever store has its turn, until the executor ends.
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
            // A panic there has poisoned the locks it held, and writes are refused since.
            let merged = panic::catch_unwind(AssertUnwindSafe(|| core.compact_once()));
            let pause = match merged {
                Ok(true) => Duration::ZERO,
                Ok(false) | Err(_) => looked.elapsed() * LOOK_SHARE,
            };
            // The store's locks are free when nobody has it.
            drop(core);
            let mut list = self.list();
            list.busy.retain(|busy| !busy.ptr_eq(&weak));
            list.stores.push_back(Entry { core: weak, not_before: Instant::now() + pause });
            drop(list);
            self.over.notify_all();
        }
    }

    /// The next store that does not rest; and whether the executor has ended.
    fn next(&self) -> (Option<Turn>, bool) {
        let mut list = self.list();
        let now = Instant::now();
        for _ in 0..list.stores.len() {
            let Some(entry) = list.stores.pop_front() else { break };
            // One that is going away leaves by itself.
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

/// How a merge gives way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    /// It does not.
    Full,
    /// It works a share of the time.
    Share,
    /// It waits while there are look-ups.
    Idle,
}

impl Core {
    /// A merge, if one is due; says whether one was done.
    fn compact_once(&self) -> bool {
        if self.closing.load(Ordering::SeqCst) {
            return false;
        }
        let over = self.pressure(&self.state()).is_over();
        let pace = if over { Pace::Share } else { Pace::Idle };
        // A disk that refuses is told to those who write, a page that cannot be read to whoever
        // looks it up; its segment is left alone from now on.
        matches!(self.merge_once(pace), Ok(1..))
    }

    /// Rests as the pace asks, after work that began at `since`.
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
