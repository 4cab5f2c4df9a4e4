//! Memory that planning takes, for the capacity plan.

use stepwell_base::{Key, SlotIndex};
use stepwell_mem::{PolicyKind, bytes_for, bytes_of_known_uses};

use super::{Planner, WORD_SLOTS};
use crate::next_uses::Future;

impl Planner {
    /// Bytes of a slab of `slots` rows of `row_lanes` f32 for this planner, metadata included.
    pub fn slab_bytes(&self, slots: u64, row_lanes: usize) -> u64 {
        let ring = self.horizon as u64 + 2;
        bytes_for(self.policy, slots, row_lanes, Self::bytes_for, ring)
    }

    /// Bytes of a slot in a large slab, with a row of `row_lanes` f32 and its metadata.
    pub fn slot_bytes(policy: PolicyKind, row_lanes: usize) -> u64 {
        const MANY: u64 = 1 << 20;
        bytes_for(policy, MANY, row_lanes, Self::bytes_for, 0).div_ceil(MANY)
    }

    /// Bytes for `slots` slots in addition to the cache's.
    pub fn bytes_for(slots: u64) -> u64 {
        slots.div_ceil(WORD_SLOTS as u64) * size_of::<u64>() as u64
    }

    /// Bytes in addition to a slab of `slots` slots, for mini-batches of `keys` distinct keys,
    /// `horizon` of them known, and units of `unit` keys.
    pub fn bytes_max(slots: u64, keys: u64, horizon: u64, unit: u64) -> u64 {
        let key = size_of::<Option<SlotIndex>>() + size_of::<Key>() + size_of::<u16>();
        let found = keys * key as u64;
        let counted = unit * size_of::<SlotIndex>() as u64;
        // Next uses are recorded only for known rows in a slot, and again while they are pinned.
        let noted = (keys * horizon).min(2 * slots);
        found + counted + Future::bytes_max(keys * horizon, horizon) + bytes_of_known_uses(noted)
    }
}
