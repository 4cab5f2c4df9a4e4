//! Time, behind a trait: measured time reaches reports, never the model.

use std::fmt::Debug;
use std::sync::Mutex;
use std::time::Instant;

/// A monotonic clock.
pub trait Clock: Send + Sync + Debug {
    /// Seconds since some fixed moment.
    fn seconds(&self) -> f64;

    /// Processor time of the calling thread in seconds; 0 if not measured.
    fn thread_seconds(&self) -> f64 {
        0.0
    }

    /// Processor time of all threads of this process in seconds; 0 if not measured.
    fn process_seconds(&self) -> f64 {
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
        seconds_of(rustix::time::ClockId::ThreadCPUTime)
    }

    fn process_seconds(&self) -> f64 {
        seconds_of(rustix::time::ClockId::ProcessCPUTime)
    }
}

fn seconds_of(clock: rustix::time::ClockId) -> f64 {
    let time = rustix::time::clock_gettime(clock);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// A clock that tests move explicitly.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manual_clock_moves_when_it_is_told_to_and_counts_no_threads() {
        let clock = ManualClock::default();
        assert_eq!((clock.seconds(), clock.thread_seconds()), (0.0, 0.0));
        clock.advance(1.5);
        clock.advance(2.0);
        assert_eq!((clock.seconds(), clock.thread_seconds()), (3.5, 0.0));
    }

    #[test]
    fn the_system_clock_goes_on_and_processor_time_is_not_time() {
        let clock = SystemClock::default();
        let (begin, worked) = (clock.seconds(), clock.thread_seconds());
        assert!((0.0..60.0).contains(&begin), "it began just now: {begin}");
        std::thread::sleep(std::time::Duration::from_millis(60));
        let slept = clock.seconds() - begin;
        let during = clock.thread_seconds() - worked;
        assert!((0.06..60.0).contains(&slept), "{slept}");
        assert!((0.0..0.05).contains(&during), "asleep, it worked for {during}");
        // Processor time as measured by the system, with fractions of seconds.
        while clock.thread_seconds() < worked + 0.01 {}
        assert!(clock.thread_seconds() - worked < 5.0);
        assert!(clock.seconds() - begin >= slept);
    }
}
