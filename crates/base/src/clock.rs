//! Time, behind a trait: measured time reaches reports, never the model.

use std::fmt::Debug;
use std::sync::Mutex;
use std::time::Instant;

/// A clock that only goes forward.
pub trait Clock: Send + Sync + Debug {
    /// Seconds since some fixed moment.
    fn seconds(&self) -> f64;

    /// Seconds of processor time that the calling thread has used; 0 where nobody counts them.
    fn thread_seconds(&self) -> f64 {
        0.0
    }
}

/// The machine's monotonic clock.
#[derive(Debug)]
pub struct SystemClock(Instant);

impl SystemClock {
    /// A clock that starts at zero now.
    pub fn new() -> Self {
        Self(Instant::now())
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn seconds(&self) -> f64 {
        self.0.elapsed().as_secs_f64()
    }

    fn thread_seconds(&self) -> f64 {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
    }
}

/// A clock that moves when it is told to, for tests.
#[derive(Debug, Default)]
pub struct ManualClock(Mutex<f64>);

impl ManualClock {
    /// Moves the clock forward by `seconds`.
    pub fn advance(&self, seconds: f64) {
        *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner) += seconds;
    }
}

impl Clock for ManualClock {
    fn seconds(&self) -> f64 {
        *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
