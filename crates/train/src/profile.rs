//! Where the time of the steps goes: seconds, flops and bytes by kernel.
//!
//! Seconds are processor time of all compute threads together, each measured around its own part of
//! the work; waiting for the slowest thread at the end of a part belongs to nobody.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;
use stepwell_base::clock::Clock;

/// Nanoseconds of a second.
const NANOS: f64 = 1e9;

/// A part of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kernel {
    /// Rows into the input of the graph.
    Gather,
    /// The graph forwards.
    Forward,
    /// Loss and its gradients.
    Loss,
    /// The graph backwards.
    Backward,
    /// Gradients by row, and the row optimizer.
    Rows,
    /// Gradients over blocks, and the dense optimizer.
    Dense,
}

impl Kernel {
    const ALL: [Self; 6] =
        [Self::Gather, Self::Forward, Self::Loss, Self::Backward, Self::Rows, Self::Dense];

    fn name(self) -> &'static str {
        match self {
            Self::Gather => "gather",
            Self::Forward => "forward",
            Self::Loss => "loss",
            Self::Backward => "backward",
            Self::Rows => "rows",
            Self::Dense => "dense",
        }
    }
}

/// What a kernel did in a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct KernelReport {
    /// Name of the kernel.
    pub name: String,
    /// Seconds of processor time, of all threads.
    pub seconds: f64,
    /// Floating-point operations, where they are what it is about.
    pub flops: u64,
    /// Bytes of rows, or of parameters, that it reads and writes.
    pub bytes: u64,
    /// Operations per second of a thread.
    pub flops_per_second: f64,
    /// Bytes per second of a thread.
    pub bytes_per_second: f64,
}

#[derive(Debug, Default)]
struct Sum {
    nanos: AtomicU64,
    flops: AtomicU64,
    bytes: AtomicU64,
}

/// Sums by kernel; threads add to it.
#[derive(Debug)]
pub(crate) struct Profile {
    clock: Arc<dyn Clock>,
    sums: [Sum; Kernel::ALL.len()],
}

impl Profile {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, sums: Default::default() }
    }

    /// Runs `work` and counts its time.
    pub(crate) fn time<R>(&self, kernel: Kernel, work: impl FnOnce() -> R) -> R {
        let begin = self.clock.thread_seconds();
        let result = work();
        let nanos = (self.clock.thread_seconds() - begin).max(0.0) * NANOS;
        self.sums[kernel as usize].nanos.fetch_add(nanos as u64, Ordering::Relaxed);
        result
    }

    /// Counts work that was done.
    pub(crate) fn count(&self, kernel: Kernel, flops: u64, bytes: u64) {
        let sum = &self.sums[kernel as usize];
        sum.flops.fetch_add(flops, Ordering::Relaxed);
        sum.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// What was summed so far.
    pub(crate) fn report(&self) -> Vec<KernelReport> {
        let of = |kernel: Kernel| {
            let sum = &self.sums[kernel as usize];
            let seconds = sum.nanos.load(Ordering::Relaxed) as f64 / NANOS;
            let (flops, bytes) =
                (sum.flops.load(Ordering::Relaxed), sum.bytes.load(Ordering::Relaxed));
            let rate = |count: u64| if seconds > 0.0 { count as f64 / seconds } else { 0.0 };
            KernelReport {
                name: kernel.name().to_owned(),
                seconds,
                flops,
                bytes,
                flops_per_second: rate(flops),
                bytes_per_second: rate(bytes),
            }
        };
        Kernel::ALL.into_iter().map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[derive(Debug, Default)]
    struct Busy(Mutex<f64>);

    impl Busy {
        fn work(&self, seconds: f64) {
            *self.0.lock().unwrap() += seconds;
        }
    }

    impl Clock for Busy {
        fn seconds(&self) -> f64 {
            0.0
        }

        fn thread_seconds(&self) -> f64 {
            *self.0.lock().unwrap()
        }
    }

    #[test]
    fn kernels_have_their_own_sums() {
        let clock = Arc::new(Busy::default());
        let profile = Profile::new(Arc::clone(&clock) as Arc<dyn Clock>);
        for _ in 0..2 {
            profile.time(Kernel::Rows, || clock.work(0.25));
            profile.count(Kernel::Rows, 0, 3);
        }
        let report = profile.report();
        let rows = &report[Kernel::Rows as usize];
        assert_eq!((rows.name.as_str(), rows.bytes), ("rows", 6));
        assert!((rows.seconds - 0.5).abs() < 1e-6 && (rows.bytes_per_second - 12.0).abs() < 1e-3);
        assert_eq!(report[Kernel::Gather as usize].seconds, 0.0);
    }
}
