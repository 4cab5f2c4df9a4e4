//! Eviction policies: the order in which unpinned rows are evicted from the slab.
//!
//! A policy sees only slots that may be evicted: a slot that is pinned, or has a known next use, is
//! detached from it. Uses are reported only at retire, once per mini-batch and key (invariant I7),
//! so prefetching and planning leave no trace in it.
//!
//! Scenarios:
//! - a row enters a slot: `admit`; the slot stays detached while its batch is in flight;
//! - its batch retires: `touch` for each mini-batch that used it, then `attach`;
//! - a later batch plans it: `detach`;
//! - room is needed: `victim` returns the slot that the policy values least;
//! - a detached row is evicted because its known use is farthest: the policy sees only `admit` of
//!   another key.
//!
//! A policy that may begin late ([`Policy::may_begin_late`]) sees no `attach` or `detach` before
//! the first known use or victim. Several victims may be chosen before the `admit` of the first
//! one's slot.
//!
//! - **Memory.** Six bits of state and three spare bytes in each slot's record ([`Records`]) are
//!   free, and in memory that planning reads anyway. [`PolicyKind::bytes_for`] has what a policy
//!   needs beyond them, mainly lists.
//!
//! A policy knows no bytes and no pins, and keeps no keys. It remembers evicted keys (in ghosts and
//! sketches) by tags of at most 32 bits, which may collide: a collision costs a worse victim, never
//! a wrong row.
//!
//! In all policies, a row that wasn't trained since it was admitted is evicted before any that was.
//! The first `touch` after `admit` is the use that the row was admitted for, not a second one.
//!
//! - **Invariants.**
//!   - `victim` returns an attached slot exactly once, unless it is detached before;
//!   - `victim` never returns a detached slot;
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

use crate::links::{Links, ListId};
use crate::records::Records;

/// How a key occurred in one mini-batch.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Occurrence {
    /// Number of examples that contain the key.
    pub examples: u32,
    /// Number of examples among these with a positive label.
    pub positives: u32,
    /// Importance of earlier uses from the row's history, decayed; 0 if it keeps none.
    pub importance: f32,
}

/// An order of eviction over slots.
pub trait Policy: Send + std::fmt::Debug {
    /// The detached `slot` now has another key: forget the history of the previous one.
    fn admit(&mut self, records: &mut Records, slot: SlotIndex);

    /// The key in the detached `slot` occurred in a mini-batch that was trained.
    fn touch(&mut self, records: &mut Records, slot: SlotIndex, occurrence: Occurrence);

    /// Makes `slot` a candidate for eviction.
    fn attach(&mut self, records: &mut Records, slot: SlotIndex);

    /// Protects `slot` from eviction until it is attached again.
    fn detach(&mut self, records: &mut Records, slot: SlotIndex);

    /// [`Policy::touch`], then [`Policy::attach`]: the usual sequence when a mini-batch retires.
    fn touch_and_attach(&mut self, records: &mut Records, slot: SlotIndex, occurrence: Occurrence) {
        self.touch(records, slot, occurrence);
        self.attach(records, slot);
    }

    /// Detaches the slot to evict first, whose key is still in its record.
    fn victim(&mut self, records: &mut Records) -> Option<SlotIndex>;

    /// Whether slots may all be attached before the first known use or `victim`, in the order in
    /// which they were admitted, instead of after each use. `touch` is called in any case.
    fn may_begin_late(&self) -> bool {
        false
    }

    /// Prefetches what attaching or detaching `slot` changes.
    fn prefetch(&self, slot: SlotIndex) {
        if let Some(links) = self.links() {
            links.prefetch(slot);
        }
    }

    /// Prefetches what admitting `key` reads.
    fn prefetch_admit(&self, _records: &Records, _key: Key) {}

    /// The lists that planning a slot changes.
    fn links(&self) -> Option<&Links> {
        None
    }
}

/// Tag by which policies remember a key, from a public hash function, so that evictions are the
/// same in every run. Keys chosen to share a tag cost no more time than others, as data structures
/// by tag have fixed size: a bucket of eight records, four counters. Such keys are only confused,
/// which may load a row too early or too late, but never a wrong one.
pub fn tag_of(key: Key) -> u32 {
    (hash::mix(key) >> 32) as u32
}

/// Puts a slot that is being attached into one of the policy's lists.
pub fn link(links: &mut Links, list: ListId, slot: SlotIndex) {
    assert!(!links.is_linked(slot), "slot {} is attached twice", slot.0);
    links.push(list, slot);
}

/// Removes a slot that is being detached from its list.
pub fn unlink(links: &mut Links, slot: SlotIndex) {
    assert!(links.is_linked(slot), "slot {} is detached twice", slot.0);
    links.unlink(slot);
}
