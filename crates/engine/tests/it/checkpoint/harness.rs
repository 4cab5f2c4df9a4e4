//! Runs many cases on threads, and reports the one that failed.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Prints the case that a panic belongs to.
pub(crate) struct Told(pub(crate) String);

impl Drop for Told {
    fn drop(&mut self) {
        if thread::panicking() {
            #[expect(clippy::print_stderr, reason = "a panic is being reported")]
            {
                eprintln!("this was {}", self.0);
            }
        }
    }
}

/// Calls `work` with every case, on as many threads as there are cores.
pub(crate) fn in_threads<T: Sync>(cases: &[T], work: &(dyn Fn(&T) + Sync)) {
    let next = AtomicUsize::new(0);
    let count = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..count {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    work(case);
                }
            });
        }
    });
}
