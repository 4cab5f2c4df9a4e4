//! Mini-batches that are over, whose memory the next ones get.
//!
//! Their lists are large, so the allocator would give each back to the system when it is dropped,
//! in one thread, and take fresh pages for the next one, in another. What a mini-batch has only
//! from plan to retire is kept apart: it would lie idle in all those that are known ahead.
//!
//! - **Bounds.** As many mini-batches, and working sets, as were ever in flight at once: a new one
//!   is made only where none is kept.

use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::flow::{Cargo, MiniBatch};
use crate::{Part, WorkingSet};

/// A place for them, between the stage that ends them and those that fill them.
#[derive(Debug)]
pub struct Spares<C>(Mutex<Kept<C>>);

#[derive(Debug)]
struct Kept<C> {
    minis: Vec<MiniBatch<C>>,
    /// The working sets of a mini-batch each, by part.
    sets: Vec<Vec<WorkingSet>>,
}

impl<C> Default for Spares<C> {
    fn default() -> Self {
        Self(Mutex::new(Kept { minis: Vec::new(), sets: Vec::new() }))
    }
}

impl<C: Cargo> Spares<C> {
    /// Keeps the memory of `mini`.
    pub(super) fn keep(&self, mut mini: MiniBatch<C>) {
        let take = |part: &mut Part| {
            part.clear();
            mem::take(&mut part.rows)
        };
        let sets = parts(&mut mini).map(take).collect();
        mini.cargo.clear();
        let mut kept = self.kept();
        kept.sets.push(sets);
        kept.minis.push(mini);
    }

    /// Gives `mini`, which is planned now, the memory of earlier working sets, if there is any.
    pub(super) fn lend(&self, mini: &mut MiniBatch<C>) {
        let sets = self.kept().sets.pop().into_iter().flatten();
        parts(mini).zip(sets).for_each(|(part, rows)| part.rows = rows);
    }

    fn kept(&self) -> MutexGuard<'_, Kept<C>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An empty mini-batch with the memory of an earlier one, if there is one.
    pub fn take(&self) -> Option<MiniBatch<C>> {
        self.kept().minis.pop()
    }
}

/// All that has a working set.
fn parts<C: Cargo>(mini: &mut MiniBatch<C>) -> impl Iterator<Item = &mut Part> {
    mini.parts.iter_mut().chain(mini.cargo.parts())
}
