//! An index in parts, which threads fill side by side.
//!
//! - **How.** Each part is an index of its own that has the keys of some shards, a run of them, and
//!   their share of the bytes. What a shard becomes depends on its own keys alone, as long as no
//!   place has more bits than were foretold: so the parts make up the index that one thread would
//!   have made.
//! - **Bounds.** Parts stay within their shares, so that all of them stay within the bound
//!   together, shards being rewritten included; one of them may be full before the index would be.
//!   Beside that each has headers of all shards: 64 KiB.

use std::ops::Range;

use stepwell_base::Key;
use stepwell_base::scatter::Scatter;

use super::permute::{self, SHARDS};
use super::{BYTES_MIN, Index};

/// Which of some parts has a key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parting {
    scatter: Scatter,
    parts: usize,
}

impl Parting {
    #[inline]
    pub(crate) fn of(&self, key: Key) -> usize {
        permute::split(self.scatter.of(key)).0 * self.parts / SHARDS
    }

    /// The shards of a part.
    fn shards(&self, part: usize) -> Range<usize> {
        let first = |part: usize| (part * SHARDS).div_ceil(self.parts);
        first(part)..first(part + 1)
    }
}

impl Index {
    /// How an index is parted.
    pub(crate) fn parting(&self, parts: usize) -> Parting {
        assert!((1..=SHARDS).contains(&parts), "{parts} parts of {SHARDS} shards");
        Parting { scatter: self.scatter, parts }
    }

    /// The parts of an index that has no rows yet.
    pub(crate) fn part(self, parting: &Parting) -> Vec<Self> {
        assert!(self.rows == 0 && self.bytes == BYTES_MIN, "an index is parted while it is empty");
        if parting.parts == 1 {
            return vec![self];
        }
        let room = u128::from(self.bytes_max.saturating_sub(BYTES_MIN));
        let part = |part: usize| {
            let share = room * parting.shards(part).len() as u128 / SHARDS as u128;
            let empty = Self::new(self.bytes_max, 0, 0, self.scatter);
            let (buckets_first, place_bits) = (self.buckets_first, self.place_bits);
            Self { bytes_max: BYTES_MIN + share as u64, buckets_first, place_bits, ..empty }
        };
        (0..parting.parts).map(part).collect()
    }

    /// The index of all parts, which may take `bytes_max` bytes.
    pub(crate) fn whole(parts: Vec<Self>, parting: &Parting, bytes_max: u64) -> Self {
        assert!(parts.len() == parting.parts, "all parts make an index");
        let mut parts = parts.into_iter().enumerate();
        #[expect(clippy::expect_used, reason = "there is one part at least")]
        let (_, mut whole) = parts.next().expect("a part");
        for (number, mut part) in parts {
            let shards = parting.shards(number);
            whole.shards[shards.clone()].swap_with_slice(&mut part.shards[shards]);
            whole.rows += part.rows;
            whole.bytes += part.bytes - BYTES_MIN;
            whole.bytes_peak += part.bytes_peak - BYTES_MIN;
            whole.rewrite_longest = whole.rewrite_longest.max(part.rewrite_longest);
            whole.place_bits = whole.place_bits.max(part.place_bits);
        }
        Self { bytes_max, ..whole }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use stepwell_base::random::Stream;

    use super::*;
    use crate::index::tests::check;
    use crate::index::{Full, Place};

    const PLACES: u64 = 1 << 20;

    fn filled(parts: usize, bytes_max: u64, hint: u64, keys: &[u64]) -> Result<Index, Full> {
        let index = Index::new(bytes_max, hint, PLACES, Scatter::new(Some(3)));
        let parting = index.parting(parts);
        let mut parts = index.part(&parting);
        for (place, key) in keys.iter().enumerate() {
            parts[parting.of(Key(*key))].put(Key(*key), Place(place as u64 % PLACES))?;
        }
        let together = parts.iter().map(|part| part.bytes_peak() - BYTES_MIN).sum::<u64>();
        assert!(BYTES_MIN + together <= bytes_max);
        Ok(Index::whole(parts, &parting, bytes_max))
    }

    #[test]
    fn parts_make_up_the_index_that_one_would_have_been() {
        let mut dice = Stream::from_state(31);
        let keys: Vec<u64> = (0..60_000).map(|_| dice.next_u64() % 40_000).collect();
        let map: HashMap<u64, u64> =
            keys.iter().zip(0..).map(|(key, place): (_, u64)| (*key, place % PLACES)).collect();
        for hint in [0, 40_000] {
            let one = filled(1, u64::MAX, hint, &keys).unwrap();
            for parts in [2, 3, 7, 16] {
                let mut index = filled(parts, u64::MAX, hint, &keys).unwrap();
                check(&index, &map);
                assert_eq!((index.bytes(), index.rows()), (one.bytes(), one.rows()));
                let same = |(a, b): (&super::super::Shard, _)| {
                    a.entries() == super::super::Shard::entries(b)
                };
                assert!(index.shards.iter().zip(&one.shards).all(same), "slot by slot");
                assert!(index.bytes_peak() >= one.bytes_peak());
                // It goes on as any other, within the bound of all.
                (0..9).for_each(|key| assert!(index.put(Key(key << 40), Place(0)).is_ok()));
            }
        }
    }

    #[test]
    fn what_parts_have_room_for_one_has_too() {
        let keys: Vec<u64> = (0..20_000).collect();
        let mut whole = 0;
        for bytes_max in (200_000..400_000).step_by(5_000) {
            let one = filled(1, bytes_max, 0, &keys).is_ok();
            for parts in [2, 5] {
                let fits = filled(parts, bytes_max, 0, &keys).is_ok();
                assert!(one || !fits, "{parts} parts in {bytes_max} bytes");
                whole += usize::from(fits);
            }
        }
        assert!((10..70).contains(&whole), "some are too small: {whole}");
    }
}
