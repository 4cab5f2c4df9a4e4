//! The bijections that choose shard and buckets: from their values the key can be made again.
//!
//! - **How.** A key is scattered into 64 bits, by a secret of the index: the top ten name the
//!   shard, the other 54 are its *local* value. The first choice of a key is its local value
//!   itself, the second is that value *turned*: folded, times an odd constant, modulo 2^54. All
//!   know how a value is turned, and nobody which value a key has.
//! - **Invariants.**
//!   - I1 All maps are one to one, so two keys never share (shard, choice, value). Nothing of this
//!     reaches the disk.
//! - **Cost.** A few cycles; no memory.

use stepwell_base::scatter::inverse_of;

/// Bits of a mixed key that name its shard.
const SHARD_BITS: u32 = 10;
/// Number of shards.
pub(super) const SHARDS: usize = 1 << SHARD_BITS;
/// Bits of a local value.
const LOCAL_BITS: u32 = u64::BITS - SHARD_BITS;
/// Number of local values.
pub(super) const LOCAL_SPAN: u64 = 1 << LOCAL_BITS;
/// Half of the local bits: folding twice by it changes nothing.
const FOLD_BITS: u32 = LOCAL_BITS / 2;
/// Of the multipliers of Steele and Vigna ("Computationally easy, spectrally good multipliers",
/// 2021), the low 54 bits.
const TURN: u64 = 0xD134_2543_DE82_EF95 % LOCAL_SPAN;
const TURN_BACK: u64 = inverse_of(TURN) % LOCAL_SPAN;

/// Shard and local value of a key that was scattered into `value`.
#[inline]
pub(super) fn split(value: u64) -> (usize, u64) {
    ((value >> LOCAL_BITS) as usize, value % LOCAL_SPAN)
}

/// What the second choice of a local value goes by.
#[inline]
pub(super) fn turn(local: u64) -> u64 {
    fold(local).wrapping_mul(TURN) % LOCAL_SPAN
}

/// The local value that was turned into this.
#[inline]
pub(super) fn turn_back(turned: u64) -> u64 {
    fold(turned.wrapping_mul(TURN_BACK) % LOCAL_SPAN)
}

#[inline]
fn fold(local: u64) -> u64 {
    local ^ (local >> FOLD_BITS)
}

/// The value of which [`split`] made these.
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
        // Of keys with one first choice of 64, each second choice has its share.
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
