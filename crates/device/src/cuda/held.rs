//! What streams use, until it is over.
//!
//! ```text
//! line of a stream     1     2     3     4          5     6
//!                    keeps keeps keeps behind(B,7) keeps keeps
//!                                      │              ▲
//!                    line of B up to 7 ┘              └ an event recorded here stands for "6"
//! ```
//!
//! - **Why.** The library does not say which operations are over; events do. Memory that a copy
//!   uses must live until then, and whoever waited for an event may touch it at once.
//! - **How.** Each operation has a number in its stream's line, with what it keeps. Once an event
//!   is over, all goes up to the number it stands for, and, where the stream had waited for another
//!   line, all of that one up to there.
//! - **Invariants.** H1: what came before an event is gone when anybody is told that it is over,
//!   whoever let it go: [`Lines::let_go`] lets one at a time in, until it is done. H2: nothing is
//!   let go while a line is locked, for what is let go may be the last to have anything.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::driver::Keeps;

/// What an operation of a line needs.
enum Held {
    /// What it uses.
    Keeps(Keeps),
    /// Operations of another line, up to a number, that it is behind.
    Behind(Arc<Line>, u64),
}

#[derive(Default)]
struct Operations {
    /// Those that may not be over, by number.
    held: VecDeque<(u64, Held)>,
    /// The last number.
    last: u64,
    /// The last number whose operation is known to be over.
    over: u64,
}

/// The operations of a stream.
#[derive(Default)]
pub(super) struct Line(Mutex<Operations>);

impl std::fmt::Debug for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Lines may name each other in a circle.
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

    /// An operation that was begun, and its number.
    pub(super) fn keep(&self, keeps: Keeps) -> u64 {
        self.add(Held::Keeps(keeps))
    }

    /// All from now on is behind another line's operations up to `number`.
    pub(super) fn follow(&self, other: &Arc<Self>, number: u64) {
        self.add(Held::Behind(Arc::clone(other), number));
    }

    /// The number of the last operation.
    pub(super) fn last(&self) -> u64 {
        self.operations().last
    }

    /// How many may not be over.
    pub(super) fn under_way(&self) -> u64 {
        let operations = self.operations();
        operations.last - operations.over
    }

    /// Whether all up to `number` are known to be over.
    pub(super) fn is_over(&self, number: u64) -> bool {
        self.operations().over >= number
    }

    /// Takes out what operations up to `number` need.
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
    /// Lets go of what `line` needed up to `number`, which is over, and of what that was behind.
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

    /// Something that is kept, and how many keep it.
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

    /// Who is told second, too, finds that all is gone.
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
