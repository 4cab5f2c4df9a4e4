//! A policy inside the slab's cache, which knows the keys of the next mini-batches: rows with a
//! known use are evicted only if nothing else can be, the farthest first (Belady within the
//! horizon).
//!
//! Order, as in the planner: the mini-batch that enters the horizon is learned, then the current
//! one is planned, trained and retired.

use stepwell_base::SlotIndex;
use stepwell_mem::Cache;

use crate::Result;
use crate::pages::{Pages, ReadOptions, Reads};
use crate::policy::Candidate;
use crate::sequence::Sequence;

/// Hits of a run, and its reads if they were counted.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Outcome {
    pub(super) hits: usize,
    pub(super) reads: Option<Reads>,
}

/// Runs a policy in a cache of `slots` slots that knows `horizon` mini-batches ahead; counts reads
/// if requested.
///
/// # Errors
/// The trace has keys that were made to collide.
pub(super) fn run(
    sequence: &Sequence,
    slots: usize,
    kind: Candidate,
    horizon: usize,
    reads: Option<ReadOptions>,
) -> Result<Outcome> {
    let pages = reads.map(|options| Pages::new(options, sequence.keys(), slots, horizon));
    let mut run = Run::new(sequence, slots, kind, horizon, pages);
    (0..horizon.min(sequence.batches_count())).for_each(|number| run.learn(number, 0));
    for number in 0..sequence.batches_count() {
        if number + horizon < sequence.batches_count() {
            run.learn(number + horizon, number);
        }
        run.train(number)?;
    }
    let reads = run.pages.map(|pages| pages.count(sequence.accesses()));
    Ok(Outcome { hits: run.hits, reads })
}

struct Run<'a> {
    sequence: &'a Sequence,
    cache: Cache,
    horizon: usize,
    /// Mini-batch that uses the key next. // (look-ups)
    next: Vec<Option<u32>>,
    /// Mini-batch that used the key before. // (look-ups)
    before: Vec<Option<u32>>,
    pages: Option<Pages>,
    hits: usize,
}

impl<'a> Run<'a> {
    fn new(
        sequence: &'a Sequence,
        slots: usize,
        kind: Candidate,
        horizon: usize,
        pages: Option<Pages>,
    ) -> Self {
        let mut batch_of = Vec::with_capacity(sequence.look_ups());
        for (number, batch) in sequence.batches().enumerate() {
            batch_of.resize(batch.first + batch.ids.len(), number as u32);
        }
        let mut before = vec![None; batch_of.len()];
        let mut next = vec![None; batch_of.len()];
        for (at, then) in sequence.next_uses().into_iter().enumerate() {
            let then = then as usize;
            if then < batch_of.len() {
                next[at] = Some(batch_of[then]);
                before[then] = Some(batch_of[at]);
            }
        }
        let cache = Cache::with(slots, horizon, kind.make(slots));
        Self { sequence, cache, horizon, next, before, pages, hits: 0 }
    }

    /// Mini-batch `number` enters the horizon; `planned` is the next to be planned.
    fn learn(&mut self, number: usize, planned: usize) {
        let batch = self.sequence.batch(number);
        for (at, id) in (batch.first..).zip(batch.ids) {
            // If an earlier use is waiting, its planning makes the link.
            if self.before[at].is_some_and(|before| before as usize >= planned) {
                continue;
            }
            if let Some(slot) = self.cache.find(self.sequence.key(*id)) {
                self.cache.expect(slot, Some(number as u32));
            }
        }
    }

    fn train(&mut self, number: usize) -> Result<()> {
        let batch = self.sequence.batch(number);
        let last_known = (number + self.horizon) as u32;
        let mut slots = Vec::with_capacity(batch.ids.len());
        for id in batch.ids {
            let slot = self.cache.find(self.sequence.key(*id));
            if let Some(slot) = slot {
                self.cache.pin(slot);
                self.hits += 1;
            }
            slots.push(slot);
        }
        self.read(number, &slots);
        for (at, slot) in slots.iter_mut().enumerate() {
            let placed = match *slot {
                Some(slot) => slot,
                None => {
                    let placed = self.cache.place(self.sequence.key(batch.ids[at]))?.slot;
                    if let Some(pages) = &mut self.pages {
                        pages.came(placed.at(), batch.ids[at]);
                    }
                    placed
                }
            };
            let next = self.next[batch.first + at];
            if let Some(pages) = &mut self.pages {
                pages.expect(batch.ids[at], next);
            }
            self.cache.expect(placed, next.filter(|next| *next <= last_known));
            *slot = Some(placed);
        }
        for (slot, occurrence) in slots.iter().flatten().zip(batch.occurrences) {
            self.cache.trained(*slot, *occurrence);
        }
        for slot in slots.into_iter().flatten() {
            self.cache.unpin(slot);
        }
        Ok(())
    }

    /// Reads rows of a mini-batch without a slot, before others are evicted for them.
    fn read(&mut self, number: usize, slots: &[Option<SlotIndex>]) {
        let Some(pages) = &mut self.pages else { return };
        for (id, slot) in self.sequence.batch(number).ids.iter().zip(slots) {
            if slot.is_none() {
                pages.miss(number as u32, *id);
            }
        }
        pages.read(number as u32);
    }
}
