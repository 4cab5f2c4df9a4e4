//! How many slots fit a budget of bytes: the slab, its index and its metadata, nothing else.

use stepwell_base::slab::Slab;

use crate::cache::BYTES_PER_SLOT;
use crate::index;
use crate::policy::LruLfu;

/// Bytes of metadata and index for `slots` slots and a horizon of `ring` batches.
pub fn metadata_bytes(slots: u64, ring: u64) -> u64 {
    let heads = (LruLfu::LISTS as u64 + ring) * 8;
    slots * BYTES_PER_SLOT as u64 + heads + index::bytes_for(slots)
}

/// The largest number of slots whose rows of `row_lanes` f32, index and metadata fit `bytes`,
/// with `beside` bytes a slot that others keep.
pub fn slots_within(bytes: u64, row_lanes: usize, beside: u64, ring: u64) -> u64 {
    let per_slot = Slab::bytes_per_slot(row_lanes) + beside;
    let total = |slots: u64| slots * per_slot + metadata_bytes(slots, ring);
    let (mut fits, mut too_many) = (0, bytes / Slab::bytes_per_slot(row_lanes) + 1);
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
        for bytes in [10_000u64, 1 << 20, 64 << 20, 3 << 30] {
            let slots = slots_within(bytes, 34, 4, 8);
            let total = |n| n * (Slab::bytes_per_slot(34) + 4) + metadata_bytes(n, 8);
            assert!(total(slots) <= bytes, "{bytes}");
            assert!(slots == 0 || total(slots + 1) > bytes, "{bytes}");
        }
    }
}
