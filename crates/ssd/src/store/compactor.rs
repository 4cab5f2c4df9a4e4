//! The thread that compacts, and how it gives way.
//!
//! While space is within the setting it merges only what is mostly stale, and only between
//! look-ups; above the setting it works a fixed share of the time; while a writer or a commit
//! waits it does not rest. Time enters here alone, and decides when a merge happens, never what
//! a row is.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::Core;
use crate::Result;

/// Part of the time that a merge works while space is above the setting.
const SHARE: f64 = 0.5;
/// How long a merge that is not due rests between looks at the look-ups.
const REST: Duration = Duration::from_millis(1);
/// The longest rest.
const REST_MAX: Duration = Duration::from_millis(20);
/// How often the thread looks without having been rung for.
const LOOK: Duration = Duration::from_secs(1);

/// Of the time that looking in vain takes, what passes before the next look.
const LOOK_SHARE: u32 = 20;

/// Wakes the thread.
#[derive(Debug, Default)]
pub(super) struct Bell {
    rung: Mutex<bool>,
    heard: Condvar,
}

impl Bell {
    pub(super) fn ring(&self) {
        *self.rung.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.heard.notify_one();
    }

    fn wait(&self) {
        let rung = self.rung.lock().unwrap_or_else(PoisonError::into_inner);
        let unrung = |rung: &mut bool| !*rung;
        let waited = self.heard.wait_timeout_while(rung, LOOK, unrung);
        *waited.unwrap_or_else(PoisonError::into_inner).0 = false;
    }
}

/// The thread; ends when it is dropped.
pub(super) struct Compactor {
    core: Arc<Core>,
    thread: Option<JoinHandle<()>>,
}

impl Compactor {
    pub(super) fn start(core: &Arc<Core>) -> Result<Self> {
        let of_thread = Arc::clone(core);
        let builder = thread::Builder::new().name("store-compact".to_owned());
        let spawned = builder.spawn(move || of_thread.compact_until_closed());
        let thread = spawned.map_err(|error| {
            let path = core.home().path();
            stepwell_disk::Error::io(stepwell_disk::Operation::Create, path, error)
        })?;
        Ok(Self { core: Arc::clone(core), thread: Some(thread) })
    }
}

impl Drop for Compactor {
    fn drop(&mut self) {
        self.core.closing.store(true, Ordering::SeqCst);
        self.core.bell.ring();
        if let Some(thread) = self.thread.take() {
            // A panic there has poisoned the locks it held, and writes are refused since.
            let _ = thread.join();
        }
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
    fn compact_until_closed(&self) {
        let mut not_before = Instant::now();
        while !self.closing.load(Ordering::SeqCst) {
            if Instant::now() < not_before && self.waiting.load(Ordering::SeqCst) == 0 {
                self.bell.wait();
                continue;
            }
            let looked = Instant::now();
            let over = self.pressure(&self.state()).is_over();
            let pace = if over { Pace::Share } else { Pace::Idle };
            match self.merge_once(pace) {
                Ok(merged) if merged > 0 => {}
                // A disk that refuses is told to those who write, a page that cannot be read to
                // whoever looks it up; its segment is left alone from now on.
                Ok(_) | Err(_) => {
                    not_before = Instant::now() + looked.elapsed() * LOOK_SHARE;
                    self.bell.wait();
                }
            }
        }
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
