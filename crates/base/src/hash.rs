//! The published hash functions whose values reach the disk or the model.
//!
//! Everything here is XXH3 (Yann Collet, xxHash 0.8, 2020) with seed 0, fixed by name and by the
//! test vectors below, so that a checkpoint written today can be read by any other implementation.
//! Its seed is not used: XXH3 adds it to short inputs before it mixes them, so that two seeds and
//! two inputs easily make the same sum. What tells hashes apart goes into the bytes instead.

use xxhash_rust::xxh3;

use crate::Key;

/// Name of the checksum as written into checkpoints.
pub const CHECKSUM_NAME: &str = "xxh3-64";

/// Checksum of bytes at rest: XXH3-64 with seed 0.
#[inline]
pub fn checksum(bytes: &[u8]) -> u64 {
    xxh3::xxh3_64(bytes)
}

/// Running form of [`checksum`], for files that are written piece by piece.
#[derive(Clone, Default)]
pub struct Checksum(xxh3::Xxh3Default);

impl Checksum {
    /// A checksum of no bytes yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds `bytes`.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The checksum of everything added so far.
    pub fn value(&self) -> u64 {
        self.0.digest()
    }
}

impl std::fmt::Debug for Checksum {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Checksum({:016x})", self.value())
    }
}

/// XXH3-128 with seed 0, the hash of rows and of the dense part in a model digest.
#[inline]
pub fn digest128(bytes: &[u8]) -> u128 {
    xxh3::xxh3_128(bytes)
}

/// Running form of [`digest128`].
#[derive(Clone, Default)]
pub struct Digest128(xxh3::Xxh3Default);

impl Digest128 {
    /// A digest of no bytes yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds `bytes`.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The digest of everything added so far.
    pub fn value(&self) -> u128 {
        self.0.digest128()
    }
}

impl std::fmt::Debug for Digest128 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Digest128({:032x})", self.value())
    }
}

/// Bijective 64-bit mix of a key, whose disjoint bits choose shard, bucket and tag.
///
/// The finalizer of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
#[inline]
pub fn mix(key: Key) -> u64 {
    crate::random::finalize(key.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_vectors_hold() {
        // xxHash's own test vectors for the empty input.
        assert_eq!(checksum(b""), 0x2D06_8005_38D3_94C2);
        assert_eq!(digest128(b""), 0x99AA_06D3_0147_98D8_6001_C324_468D_497F);
    }

    #[test]
    fn keys_are_mixed_as_splitmix64_finalizes() {
        // Its first outputs from the seeds 0 and 1234567, one golden gamma further on.
        let gamma = 0x9E37_79B9_7F4A_7C15u64;
        assert_eq!(mix(Key(gamma)), 0xE220_A839_7B1D_CDAF);
        assert_eq!(mix(Key(1_234_567 + gamma)), 6_457_827_717_110_365_317);
        assert_eq!(mix(Key(0)), 0);
    }

    #[test]
    fn running_checksum_equals_the_whole() {
        let bytes: Vec<u8> = (0..10_000u32).flat_map(u32::to_le_bytes).collect();
        let mut running = Checksum::new();
        bytes.chunks(777).for_each(|piece| running.update(piece));
        assert_eq!(running.value(), checksum(&bytes));
        for len in [0, 1, 16, 17, 128, 240, 241, 1024, 10_000] {
            let mut running = Digest128::new();
            bytes[..len].chunks(777).for_each(|piece| running.update(piece));
            assert_eq!(running.value(), digest128(&bytes[..len]), "{len}");
        }
    }
}
