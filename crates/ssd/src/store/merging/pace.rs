//! How merges yield to look-ups and writers.
//!
//! While space is within the setting, a background merge takes only segments that are mostly stale,
//! and runs only between look-ups. Above the setting, it works a fixed share of the time; while a
//! writer or commit waits, it does not rest. Time is used only here and by the
//! [`executor`](crate::executor): it decides when merges happen, never a row's contents.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use stepwell_base::clock::{Clock, SystemClock};

use crate::executor::Compacts;
use crate::stats::add;
use crate::store::core::Core;

/// Part of the time that merges run while space is above the setting.
const SHARE: f64 = 0.5;
/// Interval at which a merge that is not urgent checks for look-ups.
const REST: Duration = Duration::from_millis(1);
/// The longest rest of a merge that runs a share of the time.
const REST_MAX: Duration = Duration::from_millis(20);

/// How a merge yields to other work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    /// Doesn't yield.
    Full,
    /// Runs a share of the time.
    Share,
    /// Waits while there are look-ups.
    Idle,
}

impl Compacts for Core {
    fn compact_once(&self) -> bool {
        if self.closing.load(Ordering::SeqCst) {
            return false;
        }
        let over = self.pressure(&self.state()).is_over();
        let pace = if over { Pace::Share } else { Pace::Idle };
        let clock = SystemClock::new();
        let begin = clock.thread_seconds();
        let merged = self.merge_once(pace);
        let cpu_us = (clock.thread_seconds() - begin) * 1e6;
        add(&self.counters.compaction_cpu_us, cpu_us as u64);
        // Writers get a disk's errors, and look-ups those of unreadable pages; later merges skip
        // their segments.
        matches!(merged, Ok(1..))
    }

    fn is_waited_for(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) > 0
    }

    fn path(&self) -> &Path {
        self.home().path()
    }
}

impl Core {
    /// Rests as `pace` requires, after work since `since`.
    pub(super) fn rest(&self, pace: Pace, since: Instant) {
        let hurries = || self.is_waited_for() || self.closing.load(Ordering::SeqCst);
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
