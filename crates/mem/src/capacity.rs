//! How many slots fit a budget of bytes: the slab, its index and its metadata, nothing else.

use stepwell_base::slab::Slab;

use crate::cache::BYTES_PER_SLOT;
use crate::index;
use crate::policy::PolicyKind;

/// Bytes of metadata and index for `slots` slots and a horizon of `ring` batches.
pub fn metadata_bytes(policy: PolicyKind, slots: u64, ring: u64) -> u64 {
    let heads = (policy.lists() as u64 + ring) * 8;
    let per_slot = (BYTES_PER_SLOT + policy.bytes_per_slot()) as u64;
    slots * per_slot + heads + policy.bytes_fixed() as u64 + index::bytes_for(slots)
}

/// Bytes of `slots` slots: rows of `row_lanes` f32, index and metadata, and what others keep
/// `beside` so many.
pub fn bytes_for(
    policy: PolicyKind,
    slots: u64,
    row_lanes: usize,
    beside: impl Fn(u64) -> u64,
    ring: u64,
) -> u64 {
    Slab::bytes_for(slots, row_lanes) + beside(slots) + metadata_bytes(policy, slots, ring)
}

/// The largest number of slots whose rows of `row_lanes` f32, index and metadata fit `bytes`,
/// with the bytes that others keep `beside` so many.
pub fn slots_within(
    policy: PolicyKind,
    bytes: u64,
    row_lanes: usize,
    beside: impl Fn(u64) -> u64,
    ring: u64,
) -> u64 {
    let total = |slots: u64| bytes_for(policy, slots, row_lanes, &beside, ring);
    let (mut fits, mut too_many) = (0, bytes / (row_lanes * size_of::<f32>()) as u64 + 1);
    too_many = too_many.min(u64::from(u32::MAX) / 2);
    while fits + 1 < too_many {
        let middle = fits + (too_many - fits) / 2;
        if total(middle) <= bytes {
            fits = middle;
        } else {
            too_many = middle;
        }
    }
    fits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_budget_is_kept_and_used() {
        for kind in PolicyKind::ALL {
            for bytes in [10_000u64, 1 << 20, 64 << 20, 3 << 30] {
                let slots = slots_within(kind, bytes, 34, |slots| 4 * slots, 8);
                let rows = |n| Slab::bytes_for(n, 34) + n * 4;
                let total = |n| rows(n) + metadata_bytes(kind, n, 8);
                assert!(total(slots) <= bytes, "{kind}, {bytes}");
                assert!(slots == 0 || total(slots + 1) > bytes, "{kind}, {bytes}");
            }
        }
    }
}
