//! Finished mini-batches, whose memory later ones reuse.
//!
//! The lists of a mini-batch are large, so the allocator would return each to the system when it is
//! dropped, in one thread, and map fresh pages for the next one, in another. Memory needed only
//! from plan to retire is kept separately, as it would be idle in all mini-batches known ahead.
//!
//! - **Bounds.** At most as many mini-batches and working sets as were ever in flight at once: new
//!   ones are made only if none is kept.

use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::mini_batch::{Cargo, MiniBatch};
use crate::working_set::{Part, WorkingSet};

/// Pool between the stage that finishes mini-batches and those that fill them.
#[derive(Debug)]
pub struct Spares<C>(Mutex<Kept<C>>);

#[derive(Debug)]
struct Kept<C> {
    minis: Vec<MiniBatch<C>>,
    /// Working sets of finished mini-batches, by part.
    sets: Vec<Vec<WorkingSet>>,
}

impl<C> Default for Spares<C> {
    fn default() -> Self {
        Self(Mutex::new(Kept { minis: Vec::new(), sets: Vec::new() }))
    }
}

impl<C: Cargo> Spares<C> {
    /// Keeps the memory of `mini`, which was not planned.
    pub(crate) fn give_back(&self, mut mini: MiniBatch<C>) {
        parts(&mut mini).for_each(Part::clear);
        mini.cargo.clear();
        self.kept().minis.push(mini);
    }

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

    /// Gives `mini`, which is being planned, the memory of earlier working sets, if any.
    pub(super) fn lend(&self, mini: &mut MiniBatch<C>) {
        let sets = self.kept().sets.pop().into_iter().flatten();
        parts(mini).zip(sets).for_each(|(part, rows)| part.rows = rows);
    }

    fn kept(&self) -> MutexGuard<'_, Kept<C>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An empty mini-batch with the memory of an earlier one, if any.
    pub fn take(&self) -> Option<MiniBatch<C>> {
        self.kept().minis.pop()
    }
}

/// All parts with a working set.
fn parts<C: Cargo>(mini: &mut MiniBatch<C>) -> impl Iterator<Item = &mut Part> {
    mini.parts.iter_mut().chain(mini.cargo.parts())
}
