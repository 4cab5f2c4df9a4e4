//! Eviction policies: the order in which unpinned rows leave the slab.
//!
//! A policy sees only slots that may leave: a slot that is pinned, or whose next use the planner
//! knows, is detached from it. It is told about use at retire alone, once per mini-batch and key
//! (invariant I7), so prefetching and planning leave no trace in it.
//!
//! Scenarios
//! - a row enters a slot: `admit`, and it stays detached while its batch is in flight;
//! - its batch retires: `touch` for each mini-batch that used it, then `attach`;
//! - a later batch plans it: `detach`;
//! - room is needed: `victim` takes the slot that the policy misses least;
//! - a detached row leaves because its known use is farthest: `admit` of another key is all that
//!   the policy hears.
//!
//! - **Memory.** Six bits of state and three spare bytes in each slot's record ([`Records`]) cost
//!   nothing more, and lie where planning looks anyway. What a policy keeps beyond them, lists
//!   foremost, is in [`PolicyKind::bytes_for`].
//!
//! What it does not do: it knows no bytes and no pins, and it keeps no keys. What it remembers of
//! keys that left (ghosts, sketches) are tags of 32 bits or fewer, which may collide: a collision
//! costs a worse victim, never a wrong row.
//!
//! All policies agree on this: a row that was never trained on since it came leaves before any
//! that was. The first `touch` after `admit` is the use that the row came for, not a second one.
//!
//! - **Invariants.**
//!   - A slot that is attached comes out of `victim` exactly once, unless it is detached before;
//!   - a detached slot never does;
//!   - equal calls give equal victims.

pub mod conformance;
mod ghost;
mod kind;
mod lru_lfu;
mod s3_fifo;
mod sven;

use stepwell_base::{Key, SlotIndex, hash};

pub use kind::PolicyKind;
pub use lru_lfu::LruLfu;
pub use s3_fifo::S3Fifo;
pub use sven::Sven;

use crate::{Links, ListId, Records};

/// How a key occurred in one mini-batch.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Occurrence {
    /// Number of examples that contain the key.
    pub examples: u32,
    /// Number of those with a positive label.
    pub positives: u32,
    /// What the row's history says of its uses before, faded; 0 where it keeps none.
    pub importance: f32,
}

/// An order of eviction over slots.
pub trait Policy: Send + std::fmt::Debug {
    /// The detached `slot` now holds another key: the history of what it held is forgotten.
    fn admit(&mut self, records: &mut Records, slot: SlotIndex);

    /// The key in the detached `slot` occurred in a mini-batch that was trained.
    fn touch(&mut self, records: &mut Records, slot: SlotIndex, occurrence: Occurrence);

    /// `slot` may leave from now on.
    fn attach(&mut self, records: &mut Records, slot: SlotIndex);

    /// `slot` may not leave for now.
    fn detach(&mut self, records: &mut Records, slot: SlotIndex);

    /// [`Policy::touch`], then [`Policy::attach`]: what most rows need when a mini-batch is over.
    fn touch_and_attach(&mut self, records: &mut Records, slot: SlotIndex, occurrence: Occurrence) {
        self.touch(records, slot, occurrence);
        self.attach(records, slot);
    }

    /// Detaches the slot that leaves first, whose key is still in its record.
    fn victim(&mut self, records: &mut Records) -> Option<SlotIndex>;

    /// Asks the processor to fetch what attaching or detaching `slot` changes.
    fn prefetch(&self, slot: SlotIndex) {
        if let Some(links) = self.links() {
            links.prefetch(slot);
        }
    }

    /// Asks the processor to fetch what admitting `key` reads.
    fn prefetch_admit(&self, _records: &Records, _key: Key) {}

    /// The lists that planning a slot will change.
    fn links(&self) -> Option<&Links> {
        None
    }
}

/// What policies remember of a key, by a function that all know: who leaves is the same in every
/// run. Keys chosen to have one tag cost no more time than others, for whatever has a tag is of
/// fixed size: a bucket of eight records, four counters. They are only taken for one another, which
/// may bring a row back too early or too late, and never a wrong one.
pub fn tag_of(key: Key) -> u32 {
    (hash::mix(key) >> 32) as u32
}

/// Puts a slot that is being attached into one of the policy's lists.
pub fn link(links: &mut Links, list: ListId, slot: SlotIndex) {
    assert!(!links.is_linked(slot), "slot {} is attached twice", slot.0);
    links.push(list, slot);
}

/// Takes a slot that is being detached out of its list.
pub fn unlink(links: &mut Links, slot: SlotIndex) {
    assert!(links.is_linked(slot), "slot {} is detached twice", slot.0);
    links.unlink(slot);
}
