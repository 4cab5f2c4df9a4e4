//! The published hash functions whose values reach the disk or the model.
//!
//! Except for [`mix`], these are XXH3 (Yann Collet, xxHash 0.8, 2020) with seed 0, fixed by name
//! and by the test vectors below, so that any other implementation can read today's checkpoints.
//! Seeds of XXH3 aren't used otherwise: XXH3 adds the seed to short inputs before mixing, so two
//! seeds with two inputs can easily give the same sum. Text that distinguishes two kinds of hashes
//! is part of the hashed bytes instead.

use std::hash::Hasher;

use twox_hash::xxhash3_64::{self, DEFAULT_SECRET_LENGTH, SecretBuffer};
use twox_hash::{XxHash3_64, XxHash3_128, xxhash3_128};

use crate::ids::Key;
use crate::splitmix64::finalize;

/// The constants of XXH3 with seed 0, not copied into each hasher.
type Published = &'static [u8; DEFAULT_SECRET_LENGTH];

/// Name of the checksum in checkpoints.
pub const CHECKSUM_NAME: &str = "xxh3-64";

/// Checksum of bytes at rest: XXH3-64 with seed 0.
#[inline]
pub fn checksum(bytes: &[u8]) -> u64 {
    XxHash3_64::oneshot(bytes)
}

/// Incremental [`checksum`], for files that are written piece by piece.
pub struct Checksum(xxhash3_64::RawHasher<Published>);

impl Default for Checksum {
    fn default() -> Self {
        Self::new()
    }
}

impl Checksum {
    /// A checksum of no bytes.
    pub fn new() -> Self {
        Self(xxhash3_64::RawHasher::new(SecretBuffer::default()))
    }

    /// Adds `bytes`.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }

    /// The checksum of everything added so far.
    pub fn value(&self) -> u64 {
        self.0.finish()
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
    XxHash3_128::oneshot(bytes)
}

/// Incremental [`digest128`].
pub struct Digest128(xxhash3_128::RawHasher<Published>);

impl Default for Digest128 {
    fn default() -> Self {
        Self::new()
    }
}

impl Digest128 {
    /// A digest of no bytes.
    pub fn new() -> Self {
        Self(xxhash3_128::RawHasher::new(SecretBuffer::default()))
    }

    /// Adds `bytes`.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }

    /// The digest of everything added so far.
    pub fn value(&self) -> u128 {
        self.0.finish_128()
    }
}

impl std::fmt::Debug for Digest128 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Digest128({:032x})", self.value())
    }
}

/// Bijective 64-bit mix of a key, for uses that must be the same in every run and need no secret:
/// tags that policies remember, and the sketch of admissions.
///
/// The finalizer of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014). Tables choose places by a secret
/// bijection, [`Scatter`](crate::scatter::Scatter); owners of keys are determined by
/// [`owner`](crate::owner).
#[inline]
pub fn mix(key: Key) -> u64 {
    finalize(key.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_vectors_hold() {
        // xxHash's own test vectors for the empty input.
        assert_eq!(checksum(b""), 0x2D06_8005_38D3_94C2);
        assert_eq!(digest128(b""), 0x99AA_06D3_0147_98D8_6001_C324_468D_497F);
        // Computed with the reference library, through Python's xxhash: each length takes another
        // code path.
        let bytes: Vec<u8> = (0..10_000u32).map(|at| ((at * 7 + 3) % 251) as u8).collect();
        for (len, sum, digest) in [
            (240, 0x887A_F002_81F7_5D38, 0x9A84_57FE_C9CF_EA5E_2288_B3C2_2F48_DEA4),
            (241, 0x82B1_DE29_9F6E_411E, 0x0787_0750_A974_3956_82B1_DE29_9F6E_411E),
            (1024, 0xF75E_768C_7CDD_54B2, 0xF96A_1BBD_B2FE_F572_F75E_768C_7CDD_54B2),
            (4088, 0x3116_BE9E_74DB_C13C, 0x9912_BA57_D539_5FCF_3116_BE9E_74DB_C13C),
            (10_000, 0xED72_F5DA_4F7A_D1F4, 0xE7D5_357F_811C_9F5D_ED72_F5DA_4F7A_D1F4),
        ] {
            assert_eq!(checksum(&bytes[..len]), sum, "{len}");
            assert_eq!(digest128(&bytes[..len]), digest, "{len}");
        }
    }

    #[test]
    fn keys_are_mixed_as_splitmix64_finalizes() {
        // First outputs of SplitMix64 for the seeds 0 and 1234567, after adding one golden gamma.
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
