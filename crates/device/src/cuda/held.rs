//! Keeps alive what streams use, until their operations are over.
//!
//! ```text
//! line of a stream     1     2     3     4          5     6
//!                    keeps keeps keeps behind(B,7) keeps keeps
//!                                      │              ▲
//!                   line of B up to 7 ┘              └ an event recorded here means "up to 6"
//! ```
//!
//! - **Why.** The library reports when events are over, not operations. Memory that a copy uses
//!   must live until then, and callers that waited for an event may use it at once.
//! - **How.** Each operation has a number in its stream's line, which holds the memory that the
//!   operation uses. When an event is over, everything up to its number is released; where the
//!   stream had waited for another line, that line is released up to there as well.
//! - **Invariants.**
//!   - DEVICE-I1: everything before an event is released when any caller learns that it is over, by
//!     whichever thread: [`Lines::let_go`] admits one at a time, until it is done.
//!   - DEVICE-I2: nothing is released while a line is locked, since dropping it may have any
//!     effect.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::driver::Keeps;

/// Data or operations that an operation of a line needs.
enum Held {
    /// Data that it uses.
    Keeps(Keeps),
    /// Operations of another line, up to a number, that it waits for.
    Behind(Arc<Line>, u64),
}

#[derive(Default)]
struct Operations {
    /// Needs of the operations that may not be over, by number.
    held: VecDeque<(u64, Held)>,
    /// Number of the last operation.
    last: u64,
    /// Number of the last operation known to be over.
    over: u64,
}

/// The operations of a stream.
#[derive(Default)]
pub(super) struct Line(Mutex<Operations>);

impl std::fmt::Debug for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Lines may refer to each other in cycles.
        write!(f, "Line({} of {} over)", self.operations().over, self.operations().last)
    }
}

impl Line {
    fn operations(&self) -> MutexGuard<'_, Operations> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, held: Held) -> u64 {
        let operations = &mut *self.operations();
        operations.last += 1;
        operations.held.push_back((operations.last, held));
        operations.last
    }

    /// Adds an operation that was begun, and returns its number.
    pub(super) fn keep(&self, keeps: Keeps) -> u64 {
        self.add(Held::Keeps(keeps))
    }

    /// Makes later operations follow another line's, up to `number`.
    pub(super) fn follow(&self, other: &Arc<Self>, number: u64) {
        self.add(Held::Behind(Arc::clone(other), number));
    }

    /// Number of the last operation.
    pub(super) fn last(&self) -> u64 {
        self.operations().last
    }

    /// Number of operations that may not be over.
    pub(super) fn under_way(&self) -> u64 {
        let operations = self.operations();
        operations.last - operations.over
    }

    /// Whether all up to `number` are known to be over.
    pub(super) fn is_over(&self, number: u64) -> bool {
        self.operations().over >= number
    }

    /// Removes what operations up to `number` need.
    fn take(&self, number: u64) -> Vec<Held> {
        let operations = &mut *self.operations();
        operations.over = operations.over.max(number.min(operations.last));
        let count = operations.held.partition_point(|(own, _)| *own <= number);
        operations.held.drain(..count).map(|(_, held)| held).collect()
    }
}

/// All lines of a process that may follow each other.
#[derive(Debug, Default)]
pub(super) struct Lines(Mutex<()>);

impl Lines {
    /// Releases what `line` needed up to `number`, which is over, and what that followed.
    pub(super) fn let_go(&self, line: &Arc<Line>, number: u64) {
        let _one_at_a_time = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut over = vec![(Arc::clone(line), number)];
        while let Some((line, number)) = over.pop() {
            for held in line.take(number) {
                match held {
                    Held::Keeps(keeps) => drop(keeps),
                    Held::Behind(line, number) => over.push((line, number)),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kept object, and a function that makes operations keep it.
    fn kept() -> (Arc<u32>, impl Fn(&Arc<u32>) -> Keeps) {
        (Arc::new(7), |kept: &Arc<u32>| vec![Arc::clone(kept) as _])
    }

    #[test]
    fn what_came_before_goes_and_the_rest_stays() {
        let (lines, line) = (Lines::default(), Arc::<Line>::default());
        let (thing, keeps) = kept();
        let numbers: Vec<u64> = (0..5).map(|_| line.keep(keeps(&thing))).collect();
        assert_eq!(numbers, [1, 2, 3, 4, 5]);
        lines.let_go(&line, 3);
        assert_eq!((Arc::strong_count(&thing), line.under_way()), (3, 2));
        assert!(line.is_over(3) && !line.is_over(4));
        lines.let_go(&line, 2);
        assert_eq!((Arc::strong_count(&thing), line.under_way()), (3, 2));
        lines.let_go(&line, u64::MAX);
        assert_eq!((Arc::strong_count(&thing), line.under_way()), (1, 0));
        assert_eq!(line.keep(keeps(&thing)), 6);
        assert!(!line.is_over(6), "what comes later is not over");
    }

    #[test]
    fn what_a_line_followed_goes_with_it_also_round_in_circles() {
        let lines = Lines::default();
        let [a, b, c] = [(); 3].map(|()| Arc::<Line>::default());
        let (thing, keeps) = kept();
        for _ in 0..1000 {
            for (from, to) in [(&a, &b), (&b, &c), (&c, &a)] {
                let number = from.keep(keeps(&thing));
                to.follow(from, number);
            }
        }
        let behind = a.keep(keeps(&thing));
        let after = [&b, &c].map(|line| line.keep(keeps(&thing)));
        lines.let_go(&a, behind);
        assert_eq!(Arc::strong_count(&thing), 3, "what nobody waited for stays");
        lines.let_go(&b, after[0]);
        lines.let_go(&c, after[1]);
        assert_eq!(Arc::strong_count(&thing), 1);
    }

    /// A second thread, too, learns of the end only after everything is released.
    #[test]
    fn nobody_is_told_before_all_is_gone() {
        struct Slow(Arc<Mutex<bool>>);
        impl Drop for Slow {
            fn drop(&mut self) {
                std::thread::sleep(std::time::Duration::from_millis(50));
                *self.0.lock().unwrap() = true;
            }
        }
        let (lines, line) = (Lines::default(), Arc::<Line>::default());
        let gone = Arc::<Mutex<bool>>::default();
        line.keep(vec![Arc::new(Slow(Arc::clone(&gone)))]);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    lines.let_go(&line, 1);
                    assert!(*gone.lock().unwrap());
                });
            }
        });
    }
}
