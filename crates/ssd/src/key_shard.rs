//! Key shards: the parts into which the keys of a table fall, for stores that share it.

use stepwell_base::{Key, hash};

/// Key shards of a table.
pub const KEY_SHARDS: usize = 256;

/// The key shard of a key: the highest 8 bits of the XXH3-64 of its 8 bytes, little-endian.
///
/// It is published and has no seed: which store has a key is no secret, and stays the same for
/// ever. How keys lie in memory is another matter (`index`).
#[inline]
pub fn key_shard(key: Key) -> u8 {
    (hash::checksum(&key.0.to_le_bytes()) >> 56) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_for_ever_and_even() {
        assert_eq!([0, 1, u64::MAX].map(|key| key_shard(Key(key))), VECTORS);
        let mut counts = [0u32; KEY_SHARDS];
        (0..256_000).for_each(|key| counts[usize::from(key_shard(Key(key)))] += 1);
        assert!(counts.iter().all(|count| (800..1200).contains(count)), "{counts:?}");
    }

    /// Of the reference library.
    const VECTORS: [u8; 3] = [199, 47, 81];
}
