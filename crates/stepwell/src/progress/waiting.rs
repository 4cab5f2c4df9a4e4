//! What is done before the first step and after the last one: nothing counts it, so that a thread
//! says what it is, once it takes more than a moment.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use rustix::process::{Resource, getrlimit};

use super::{FIRST_LINE, LINE_SECONDS};
use crate::say::say;

/// What is waited for, and a thread that says it.
pub(super) struct Waiting {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// What is done, since when, and when to say that next.
    now: Option<(&'static str, Instant, Instant)>,
    over: bool,
}

impl Waiting {
    /// Begins with waiting for `what`; where there is a `bar` it says so.
    pub(super) fn new(what: &'static str, bar: Option<ProgressBar>) -> Self {
        let state = Mutex::new(State { now: None, over: false });
        let shared = Arc::new(Shared { state, changed: Condvar::new() });
        let told = Arc::clone(&shared);
        // Without a thread nothing is said, and all else goes on.
        let work = move || told.say_now_and_then(bar.as_ref());
        let spawn = || Builder::new().name("waiting".to_owned()).spawn(work).ok();
        let thread = if is_bounded() { None } else { spawn() };
        let waiting = Self { shared, thread };
        waiting.begin(Some(what));
        waiting
    }

    /// From now on it is `what` that is waited for, or nothing.
    pub(super) fn begin(&self, what: Option<&'static str>) {
        let now = Instant::now();
        self.shared.change(|state| state.now = what.map(|what| (what, now, now + FIRST_LINE)));
    }
}

/// Whether the addresses of this process are bounded: what the plan says of them knows nothing of a
/// thread that only talks.
fn is_bounded() -> bool {
    [Resource::As, Resource::Data].into_iter().any(|of| getrlimit(of).current.is_some())
}

impl Shared {
    fn change(&self, how: impl FnOnce(&mut State)) {
        how(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
    }

    fn say_now_and_then(&self, bar: Option<&ProgressBar>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while !state.over {
            let now = Instant::now();
            let left = match &mut state.now {
                None => None,
                Some((what, since, next)) if *next <= now => {
                    let seconds = (now - *since).as_secs();
                    *next = now + Duration::from_secs(if bar.is_some() { 1 } else { LINE_SECONDS });
                    let line = format!("{what}: {seconds} s so far");
                    let next = *next;
                    // What is said may wait for who reads it, and nobody is to wait for that.
                    drop(state);
                    match bar {
                        Some(bar) => bar.set_message(line),
                        None => say!("{line}"),
                    }
                    state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
                    Some(next.saturating_duration_since(Instant::now()))
                }
                Some((_, _, next)) => Some(*next - now),
            };
            if state.over {
                return;
            }
            state = match left {
                Some(left) => {
                    let waited = self.changed.wait_timeout(state, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.shared.change(|state| state.over = true);
        if let Some(thread) = self.thread.take() {
            // It has nothing to say any more, however it ended.
            let _ = thread.join();
        }
    }
}
