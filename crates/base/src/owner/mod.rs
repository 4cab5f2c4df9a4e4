//! Owners of keys: how ranks and stores divide a table's keys.
//!
//! - **Why.** Everyone needs to know a key's owner, also for another number of ranks. So it is a
//!   published function of the key alone, whose bits are used for nothing else: if tables in memory
//!   used them to choose places, the keys of one rank would leave most places empty.
//! - **How.** A key is in one of 256 key shards, by a hash used for nothing else. Owners have
//!   adjacent shards, divided as evenly as possible: for another number of owners, whole shards
//!   move, and stores and checkpoints are split by shard.
//! - **Claims.** XXH3-64 of the 8 bytes of a key shares neither rounds nor constants with the
//!   finalizer of SplitMix64, by which tables scatter keys (`hash::mix`, `scatter`), policies tag
//!   them and sketches count them: `tests/it/owner.rs`, and tests of each of those tables, fill
//!   them with the keys of one owner and check that they are spread as evenly as any keys.
//! - **Bounds.** At most 256 owners. Their numbers of shards differ by at most one: of three
//!   owners, one has 86 shards and two have 85.

pub mod conformance;

use std::ops::Range;

use crate::hash;
use crate::ids::Key;

/// A rank, and the number of ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankOf {
    /// Number of the rank.
    pub rank: usize,
    /// Number of ranks.
    pub ranks: usize,
}

impl RankOf {
    /// The only rank.
    pub const ALONE: Self = Self { rank: 0, ranks: 1 };
}

/// Number of key shards of a table.
pub const KEY_SHARDS: usize = 256;

/// Description of [`key_shard`].
pub const KEY_SHARD_NAME: &str = "highest 8 bits of xxh3-64 of (key u64)";

/// The key shard of a key: the highest 8 bits of the XXH3-64 of its 8 bytes, little-endian.
///
/// The function is published and has no seed: the shard of a key is no secret, and never changes.
#[inline]
pub fn key_shard(key: Key) -> u8 {
    (hash::checksum(&key.0.to_le_bytes()) >> 56) as u8
}

/// Owner of a key shard, among `owners` owners: owner n has the shards from ⌊256 n / owners⌋ up to,
/// but without, ⌊256 (n + 1) / owners⌋.
///
/// # Panics
/// If an owner would have no key shard.
#[inline]
pub fn owner_of_shard(shard: u8, owners: usize) -> usize {
    assert!((1..=KEY_SHARDS).contains(&owners), "{owners} owners of {KEY_SHARDS} key shards");
    ((usize::from(shard) + 1) * owners - 1) / KEY_SHARDS
}

/// The key shards of owner `owner` of `owners`.
///
/// # Panics
/// If there is no such owner, or one would have no key shard.
pub fn shards_of(owner: usize, owners: usize) -> Range<usize> {
    assert!(owner < owners && owners <= KEY_SHARDS, "owner {owner} of {owners}");
    owner * KEY_SHARDS / owners..(owner + 1) * KEY_SHARDS / owners
}

/// The owner, among `owners`, of a key.
///
/// ```
/// use stepwell_base::Key;
/// use stepwell_base::owner::{key_shard, owner};
///
/// assert_eq!(key_shard(Key(1)), 47);
/// assert_eq!([1, 2, 8, 256].map(|owners| owner(Key(1), owners)), [0, 0, 1, 47]);
/// ```
///
/// # Panics
/// If an owner would have no key shard.
#[inline]
pub fn owner(key: Key, owners: usize) -> usize {
    owner_of_shard(key_shard(key), owners)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys, their shards, and their owners among 1, 2, 3, 4, 8, 64 and 256; computed in Python by
    /// an independent XXH3 that was compared to the reference library.
    const VECTORS: [(u64, u8, [usize; 7]); 7] = [
        (0, 199, [0, 1, 2, 3, 6, 49, 199]),
        (1, 47, [0, 0, 0, 0, 1, 11, 47]),
        (2, 32, [0, 0, 0, 0, 1, 8, 32]),
        (u64::MAX, 81, [0, 0, 0, 1, 2, 20, 81]),
        (1 << 63, 130, [0, 1, 1, 2, 4, 32, 130]),
        (0x0123_4567_89AB_CDEF, 183, [0, 1, 2, 2, 5, 45, 183]),
        (0x9E37_79B9_7F4A_7C15, 241, [0, 1, 2, 3, 7, 60, 241]),
    ];

    #[test]
    fn published_vectors_hold() {
        for (key, shard, owners) in VECTORS {
            assert_eq!(key_shard(Key(key)), shard, "{key:x}");
            assert_eq!([1, 2, 3, 4, 8, 64, 256].map(|of| owner(Key(key), of)), owners, "{key:x}");
        }
    }

    #[test]
    fn every_shard_has_one_owner_and_owners_differ_by_one_shard_at_most() {
        for owners in 1..=KEY_SHARDS {
            let mut shards = vec![0; owners];
            let mut last = 0;
            for shard in 0..=u8::MAX {
                let owner = owner_of_shard(shard, owners);
                assert!(owner == last || owner == last + 1, "neighbours");
                assert!(shards_of(owner, owners).contains(&usize::from(shard)));
                shards[owner] += 1;
                last = owner;
            }
            assert!(shards.iter().all(|count| count - KEY_SHARDS / owners <= 1), "{shards:?}");
        }
    }

    #[test]
    #[should_panic(expected = "257 owners of 256 key shards")]
    fn more_owners_than_shards_are_a_broken_promise() {
        owner(Key(0), KEY_SHARDS + 1);
    }
}
