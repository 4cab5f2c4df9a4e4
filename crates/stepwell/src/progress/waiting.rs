//! Progress of work before the first step and after the last one, which cannot be counted: a thread
//! reports it if it takes more than a moment.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Resource, getrlimit};

/// Time before the first line: shorter work needs none.
pub(super) const FIRST_LINE: Duration = Duration::from_secs(1);

/// The current work, and the thread that reports it.
pub(super) struct Waiting {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// The work, its start, and the time of the next report.
    now: Option<(&'static str, Instant, Instant)>,
    over: bool,
}

impl Waiting {
    /// Begins to wait for `what`. `tell` gets a line after a second and then at intervals of
    /// `every`.
    pub(super) fn new(
        what: &'static str,
        every: Duration,
        tell: impl Fn(&str) + Send + 'static,
    ) -> Self {
        let state = Mutex::new(State { now: None, over: false });
        let shared = Arc::new(Shared { state, changed: Condvar::new() });
        let told = Arc::clone(&shared);
        // If the thread cannot start, only these reports are missing.
        let work = move || told.say_now_and_then(every, &tell);
        let spawn = || Builder::new().name("waiting".to_owned()).spawn(work).ok();
        let thread = if is_bounded() { None } else { spawn() };
        let waiting = Self { shared, thread };
        waiting.begin(Some(what));
        waiting
    }

    /// Switches to waiting for `what`, or for nothing.
    pub(super) fn begin(&self, what: Option<&'static str>) {
        let now = Instant::now();
        self.shared.change(|state| state.now = what.map(|what| (what, now, now + FIRST_LINE)));
    }
}

/// Whether the process's address space is limited. The plan does not count this thread, so there is
/// none then.
fn is_bounded() -> bool {
    [Resource::As, Resource::Data].into_iter().any(|of| getrlimit(of).current.is_some())
}

impl Shared {
    fn change(&self, how: impl FnOnce(&mut State)) {
        how(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
    }

    fn say_now_and_then(&self, every: Duration, tell: &dyn Fn(&str)) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while !state.over {
            let now = Instant::now();
            let left = match &mut state.now {
                None => None,
                Some((what, since, next)) if *next <= now => {
                    let seconds = (now - *since).as_secs();
                    *next = now + every;
                    let line = format!("{what}: {seconds} s so far");
                    let next = *next;
                    // Printing may block on the reader, and other threads must not wait for that.
                    drop(state);
                    tell(&line);
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
            // The thread's result does not matter.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn what_takes_long_is_said_and_what_does_not_is_not() {
        let ((tell, told), begun) = (channel(), Instant::now());
        let every = Duration::from_millis(10);
        let waiting =
            Waiting::new("reading", every, move |line| tell.send(line.to_owned()).unwrap());
        waiting.begin(Some("opening"));
        if is_bounded() {
            return;
        }
        assert_eq!(told.recv().unwrap(), "opening: 1 s so far");
        assert!(begun.elapsed() >= FIRST_LINE);
        assert!(told.recv().unwrap().starts_with("opening: "));
        waiting.begin(None);
        // A line may already have been sent.
        let left = std::iter::from_fn(|| told.recv_timeout(every * 20).ok()).count();
        assert!(left <= 2 + (begun.elapsed() - FIRST_LINE).as_millis() as usize / 10, "{left}");
        waiting.begin(Some("computing"));
        drop(waiting);
        assert!(told.recv().is_err(), "nothing was said of what was over at once");
    }
}
