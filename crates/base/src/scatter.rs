//! Scattering of keys in in-memory tables: a bijection of 64 bits that only this process knows.
//!
//! - **Why.** Keys come from data, and data may come from anyone. With a public function, a few
//!   dozen chosen keys can collide in the same buckets: an index is full although it is almost
//!   empty, or a look-up walks past all of them.
//! - **How.** The finalizer of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014), with both multipliers
//!   and an initial xor drawn for each table. Every step is invertible, so a table may store part
//!   of the value instead of the key.
//! - **Claims.** No value of it reaches a file, a row or a decision: a table gives the same answers
//!   with every secret. For two keys chosen without knowing the secret, the top n bits agree with a
//!   probability of at most 2^(1-n), over the secrets: these are bits of a product with an odd
//!   multiplier (Dietzfelbinger et al., "A reliable randomized algorithm for the closest-pair
//!   problem", 1997). It is not a cipher: an attacker who sees values, or times many look-ups, may
//!   find the secret.
//! - **Cost.** The same as `hash::mix`: two products, three shifts.

use crate::ids::Key;
use crate::random::{self, Stream};

/// A bijection from keys to values whose bits determine shards, buckets and tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scatter {
    veil: u64,
    times: [u64; 2],
}

impl Scatter {
    /// The public bijection, [`hash::mix`](crate::hash::mix).
    pub const KNOWN: Self = Self { veil: 0, times: [0xBF58_476D_1CE4_E5B9, 0x94D0_49BB_1331_11EB] };

    /// A secret bijection.
    pub fn drawn() -> Self {
        Self::of_words(random::drawn())
    }

    /// The bijection of `seed`, or a secret one if it is `None`.
    pub fn new(seed: Option<u64>) -> Self {
        let Some(seed) = seed else { return Self::drawn() };
        let words = Stream::named(seed, b"scatter");
        Self::of_words([0, 1, 2].map(|word| words.at(word)))
    }

    fn of_words([veil, first, second]: [u64; 3]) -> Self {
        Self { veil, times: [first | 1, second | 1] }
    }

    /// The value of `key`.
    #[inline]
    pub fn of(&self, key: Key) -> u64 {
        let mut z = key.0 ^ self.veil;
        z = (z ^ (z >> 30)).wrapping_mul(self.times[0]);
        z = (z ^ (z >> 27)).wrapping_mul(self.times[1]);
        z ^ (z >> 31)
    }

    /// The key with this value.
    pub fn key_of(&self, value: u64) -> Key {
        let mut z = value ^ (value >> 31) ^ (value >> 62);
        z = z.wrapping_mul(inverse_of(self.times[1]));
        z ^= (z >> 27) ^ (z >> 54);
        z = z.wrapping_mul(inverse_of(self.times[0]));
        z ^= (z >> 30) ^ (z >> 60);
        Key(z ^ self.veil)
    }
}

/// The multiplicative inverse of `odd`, modulo 2^64.
pub const fn inverse_of(odd: u64) -> u64 {
    // Newton's method: each round doubles the correct bits, starting with three.
    let mut inverse = odd;
    let mut right_bits = 3;
    while right_bits < u64::BITS {
        inverse = inverse.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(inverse)));
        right_bits *= 2;
    }
    inverse
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash;

    #[test]
    fn inverses_are_the_published_ones() {
        assert_eq!(inverse_of(0xBF58_476D_1CE4_E5B9), 0x96DE_1B17_3F11_9089);
        assert_eq!(inverse_of(0x94D0_49BB_1331_11EB), 0x3196_42B2_D24D_8EC3);
    }

    #[test]
    fn every_value_has_its_key_under_every_secret() {
        let mut keys = Stream::from_state(1);
        let corners = [0, 1, 2, u64::MAX, u64::MAX - 1, 1 << 63];
        for seed in 0..200 {
            let scatter = Scatter::new(Some(seed));
            for key in corners.into_iter().chain((0..500).map(|_| keys.next_u64())) {
                assert_eq!(scatter.key_of(scatter.of(Key(key))), Key(key));
                assert_eq!(Scatter::KNOWN.of(Key(key)), hash::mix(Key(key)));
                assert_eq!(Scatter::KNOWN.key_of(hash::mix(Key(key))), Key(key));
            }
        }
    }

    #[test]
    fn secrets_differ_where_none_is_given_and_only_there() {
        assert_ne!(Scatter::drawn(), Scatter::drawn());
        assert_ne!(Scatter::new(None), Scatter::new(None));
        assert_ne!(Scatter::new(Some(1)), Scatter::new(Some(2)));
        assert_eq!(Scatter::new(Some(1)), Scatter::new(Some(1)));
    }

    /// Keys that an attacker might choose: consecutive keys, keys that differ only in their high
    /// bits or in a few bits, and keys that collide in the high or low bits of the public hash.
    fn families() -> [fn(u64) -> u64; 7] {
        [
            |n| n,
            |n| n << 50,
            |n| (n << 32).wrapping_mul(0x9E37_79B9_7F4A_7C15),
            |n| 1 << (n % 64) ^ 1 << (n / 64 % 64),
            |n| n.wrapping_mul(inverse_of(0xBF58_476D_1CE4_E5B9)),
            |n| Scatter::KNOWN.key_of(n).0,
            |n| Scatter::KNOWN.key_of(n << 40).0,
        ]
    }

    #[test]
    fn chosen_keys_meet_as_seldom_as_others_do() {
        // With 4096 keys in 4096 places, at most about nine meet in one by chance.
        for (number, family) in families().into_iter().enumerate() {
            let mut keys: Vec<u64> = (0..4096).map(family).collect();
            keys.sort_unstable();
            keys.dedup();
            for seed in 0..200 {
                let scatter = Scatter::new(Some(seed));
                let mut places = [[0u8; 4096]; 3];
                for key in &keys {
                    let value = scatter.of(Key(*key));
                    let parts = [value >> 52, value & 0xFFF, value >> 20 & 0xFFF];
                    for (places, part) in places.iter_mut().zip(parts) {
                        places[part as usize] += 1;
                    }
                }
                for (part, places) in places.iter().enumerate() {
                    let most = places.iter().max().unwrap();
                    assert!(*most <= 20, "family {number}, seed {seed}, part {part}: {most}");
                }
            }
        }
    }
}
