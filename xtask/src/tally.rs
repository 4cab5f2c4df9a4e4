//! How many tests passed and failed, for the last line of a run.

use std::sync::atomic::{AtomicU64, Ordering};

static PASSED: AtomicU64 = AtomicU64::new(0);
static FAILED: AtomicU64 = AtomicU64::new(0);

/// Passed and failed tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    passed: u64,
    failed: u64,
}

impl Tally {
    /// Reads the results that a program of tests printed. A program without any counts as one test;
    /// one that failed without a failed test, because it crashed or was killed, as a failed one.
    pub(crate) fn of(printed: &str, succeeded: bool) -> Self {
        let mut tally = Self::default();
        for line in printed.lines().filter_map(|line| line.strip_prefix("test result: ")) {
            let count = |what: &str| {
                let part = line.split(['.', ';']).find_map(|part| part.trim().strip_suffix(what));
                part.and_then(|number| number.trim().parse::<u64>().ok()).unwrap_or(0)
            };
            tally.passed += count(" passed");
            tally.failed += count(" failed");
        }
        if tally == Self::default() && !printed.contains("test result: ") {
            tally.passed = u64::from(succeeded);
        }
        if !succeeded {
            tally.failed = tally.failed.max(1);
        }
        tally
    }

    /// Adds these tests to the counts of the run.
    pub(crate) fn add(self) {
        PASSED.fetch_add(self.passed, Ordering::Relaxed);
        FAILED.fetch_add(self.failed, Ordering::Relaxed);
    }

    /// All tests of the run so far.
    pub(crate) fn of_run() -> Self {
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Self { passed: get(&PASSED), failed: get(&FAILED) }
    }

    /// The last line of a run; `None` if it ran no test.
    pub(crate) fn line(self, skipped: usize) -> Option<String> {
        let Self { passed, failed } = self;
        (passed + failed > 0)
            .then(|| format!("{passed} passed, {failed} failed, {skipped} skipped"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_a_program_are_summed() {
        let printed = "running 3 tests\n..F\ntest result: FAILED. 2 passed; 1 failed; 0 ignored\n\
                       test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured\n";
        assert_eq!(Tally::of(printed, false), Tally { passed: 14, failed: 1 });
        assert_eq!(Tally::of("", true), Tally { passed: 1, failed: 0 });
        assert_eq!(Tally::of("test a ... ", false), Tally { passed: 0, failed: 1 });
        let none = "test result: ok. 0 passed; 0 failed; 0 ignored";
        assert_eq!(Tally::of(none, true), Tally::default());
        assert_eq!(Tally::default().line(3), None);
        let line = Tally { passed: 14, failed: 1 }.line(3).unwrap();
        assert_eq!(line, "14 passed, 1 failed, 3 skipped");
    }
}
