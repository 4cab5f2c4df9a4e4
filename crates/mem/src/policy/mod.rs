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
//! - room is needed: `victim` takes the slot that the policy misses least.
//!
//! What it does not do: it knows no keys, no bytes and no pins.

mod lru_lfu;

use stepwell_base::SlotIndex;

pub use lru_lfu::LruLfu;

use crate::Links;

/// How a key occurred in one mini-batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Occurrence {
    /// Number of examples that contain the key.
    pub examples: u32,
    /// Number of those with a positive label.
    pub positives: u32,
}

/// An order of eviction over slots.
pub trait Policy: Send + std::fmt::Debug {
    /// Number of lists it wants in [`Links`].
    fn lists(&self) -> usize;

    /// `slot` now holds another key: its history is forgotten.
    fn admit(&mut self, slot: SlotIndex);

    /// The key in the detached `slot` occurred in a mini-batch that was trained.
    fn touch(&mut self, slot: SlotIndex, occurrence: Occurrence);

    /// `slot` may leave from now on.
    fn attach(&mut self, links: &mut Links, slot: SlotIndex);

    /// `slot` may not leave for now.
    fn detach(&mut self, links: &mut Links, slot: SlotIndex);

    /// Detaches the slot that leaves first.
    fn victim(&mut self, links: &mut Links) -> Option<SlotIndex>;
}
