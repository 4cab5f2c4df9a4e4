//! How many slots fit a budget of bytes, which covers the slab, its index and its metadata.

use stepwell_base::slab::Slab;

use crate::policy::PolicyKind;
use crate::uses::KnownUses;
use crate::{index, records};

/// Bytes of metadata and index for `slots` slots and a horizon of `ring` batches.
pub fn metadata_bytes(policy: PolicyKind, slots: u64, ring: u64) -> u64 {
    let records = slots * records::BYTES_PER_SLOT;
    records + index::bytes_for(slots) + policy.bytes_for(slots) + KnownUses::bytes_for(ring)
}

/// Bytes for the known uses of `rows` rows, the number of keys of the known mini-batches, each
/// noted once. Rows that are pinned and unpinned repeatedly may take twice that.
pub fn bytes_of_known_uses(rows: u64) -> u64 {
    KnownUses::bytes_of_notes(rows)
}

/// Bytes of `slots` slots: rows of `row_lanes` f32, index and metadata, plus the `beside` bytes
/// that callers need for them.
pub fn bytes_for(
    policy: PolicyKind,
    slots: u64,
    row_lanes: usize,
    beside: impl Fn(u64) -> u64,
    ring: u64,
) -> u64 {
    Slab::bytes_for(slots, row_lanes) + beside(slots) + metadata_bytes(policy, slots, ring)
}

/// Maximum number of slots whose rows of `row_lanes` f32, index and metadata fit `bytes`, together
/// with the `beside` bytes that callers need for them.
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
    fn the_default_policy_stays_below_25_bytes_a_row() {
        for slots in [100_000, 16_000_000, 1 << 31] {
            // Including the two bits per slot of slab and planner.
            let bytes = metadata_bytes(PolicyKind::default(), slots, 16) + slots / 4;
            assert!(bytes < 25 * slots, "{slots} slots: {} bytes", bytes as f64 / slots as f64);
        }
    }

    #[test]
    fn the_budget_is_kept_and_used() {
        for kind in PolicyKind::ALL {
            for bytes in [0u64, 100, 10_000, 1 << 20, 64 << 20, 3 << 30] {
                let slots = slots_within(kind, bytes, 34, |slots| 4 * slots, 8);
                let rows = |n| Slab::bytes_for(n, 34) + n * 4;
                let total = |n| rows(n) + metadata_bytes(kind, n, 8);
                assert!(slots == 0 || total(slots) <= bytes, "{kind}, {bytes}");
                assert!(total(slots + 1) > bytes, "{kind}, {bytes}");
            }
        }
    }

    #[test]
    fn every_part_is_counted_once() {
        let (slots, ring, lanes) = (1000, 700, 34);
        for kind in PolicyKind::ALL {
            let parts = [16 * slots, index::bytes_for(slots), kind.bytes_for(slots)];
            let metadata = parts.iter().sum::<u64>() + KnownUses::bytes_for(ring);
            assert_eq!(metadata_bytes(kind, slots, ring), metadata, "{kind}");
            let rows = slots * 4 * lanes as u64 + slots.div_ceil(64) * 8;
            let all = bytes_for(kind, slots, lanes, |slots| 5 * slots, ring);
            assert_eq!(all, rows + 5 * slots + metadata, "{kind}");
        }
    }

    #[test]
    fn slots_are_numbered_however_large_the_budget_is() {
        let slots = slots_within(PolicyKind::default(), u64::MAX, 1, |_| 0, 8);
        assert_eq!(slots, u64::from(u32::MAX) / 2 - 1);
    }
}
