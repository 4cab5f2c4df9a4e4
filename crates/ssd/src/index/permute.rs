//! The bijections that choose shard and buckets; the key can be recovered from their values.
//!
//! - **How.** A key is scattered into 64 bits by a secret of the index: the top ten name the shard,
//!   the other 54 are its *local* value. The first choice of a key is its local value, the second
//!   is that value *turned*: folded, times an odd constant, modulo 2^54. How values are turned is
//!   public; which value a key has is secret.
//! - **Invariants.**
//!   - SSD-I13: all maps are one to one, so two keys never have the same (shard, choice, value).
//!     None of this reaches the disk.
//! - **Cost.** A few cycles; no memory.

use stepwell_base::scatter::inverse_of;

/// Number of bits of a scattered key that name its shard.
const SHARD_BITS: u32 = 10;
/// Number of shards.
pub(super) const SHARDS: usize = 1 << SHARD_BITS;
/// Number of bits of a local value.
const LOCAL_BITS: u32 = u64::BITS - SHARD_BITS;
/// Number of local values.
pub(super) const LOCAL_SPAN: u64 = 1 << LOCAL_BITS;
/// Half of the local bits, so that folding twice is the identity.
const FOLD_BITS: u32 = LOCAL_BITS / 2;
/// The low 54 bits of a multiplier of Steele and Vigna ("Computationally easy, spectrally good
/// multipliers", 2021).
const TURN: u64 = 0xD134_2543_DE82_EF95 % LOCAL_SPAN;
const TURN_BACK: u64 = inverse_of(TURN) % LOCAL_SPAN;

/// Shard and local value of a scattered key.
#[inline]
pub(super) fn split(value: u64) -> (usize, u64) {
    ((value >> LOCAL_BITS) as usize, value % LOCAL_SPAN)
}

/// The value that determines a key's second choice.
#[inline]
pub(super) fn turn(local: u64) -> u64 {
    fold(local).wrapping_mul(TURN) % LOCAL_SPAN
}

/// Inverse of [`turn`].
#[inline]
pub(super) fn turn_back(turned: u64) -> u64 {
    fold(turned.wrapping_mul(TURN_BACK) % LOCAL_SPAN)
}

#[inline]
fn fold(local: u64) -> u64 {
    local ^ (local >> FOLD_BITS)
}

/// Inverse of [`split`].
#[cfg(test)]
pub(super) fn join(shard: usize, local: u64) -> u64 {
    (shard as u64) << LOCAL_BITS | local
}

#[cfg(test)]
mod tests {
    use stepwell_base::Key;
    use stepwell_base::random::Stream;
    use stepwell_base::scatter::Scatter;

    use super::*;

    #[test]
    fn each_map_has_an_inverse() {
        let mut stream = Stream::from_state(1);
        let corners = [0, 1, 2, u64::MAX, u64::MAX - 1, 1 << 63, LOCAL_SPAN, LOCAL_SPAN - 1];
        assert_eq!(split(0xE220_A839_7B1D_CDAF), (0x388, 0x20_A839_7B1D_CDAF));
        for value in corners.into_iter().chain((0..100_000).map(|_| stream.next_u64())) {
            let (shard, local) = split(value);
            assert!(shard < SHARDS && local < LOCAL_SPAN);
            assert_eq!(join(shard, local), value);
            let turned = turn(local);
            assert!(turned < LOCAL_SPAN);
            assert_eq!(turn_back(turned), local);
        }
    }

    #[test]
    fn the_second_choice_owes_nothing_to_the_first() {
        // Among keys with one of 64 first choices, second choices are evenly distributed.
        let mut second = [0u32; 64];
        let top = |value: u64| (value >> (LOCAL_BITS - 6)) as usize;
        for key in 0..4_000_000 {
            let (_, local) = split(Scatter::KNOWN.of(Key(key)));
            if top(local) == 17 {
                second[top(turn(local))] += 1;
            }
        }
        assert!(second.iter().all(|count| (860..1100).contains(count)), "{second:?}");
    }
}
