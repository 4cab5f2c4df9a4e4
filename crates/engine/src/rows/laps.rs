//! Measurements of an update.

/// Receives time and bytes of the threads' parts of an update.
pub trait Laps: Sync {
    /// Seconds of processor time of the calling thread.
    fn now(&self) -> f64;

    /// Ends a part that began at `begin` and read and wrote `bytes` of rows and gradients.
    fn over(&self, begin: f64, bytes: u64);
}

/// Ignores all measurements.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoLaps;

impl Laps for NoLaps {
    fn now(&self) -> f64 {
        0.0
    }

    fn over(&self, _begin: f64, _bytes: u64) {}
}
