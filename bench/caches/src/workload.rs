//! What every engine is given: keys, rows, and which of them are in memory.
//!
//! - **How.** Row number i, from 1, is the i-th most frequent and has the key finalize(i), a
//!   bijection: keys are distinct and in no order. Its 256 bytes begin with the key, the others are
//!   drawn from it, so a row read is checked without a copy of it. Rows fall into two shards by a
//!   hash; of each the most frequent that fit are in memory.

use std::ops::Add;

use stepwell_base::Key;
use stepwell_base::random::{Stream, finalize};

use crate::options::Options;

/// Shards of ours, so that each thread has one of its own.
pub(crate) const SHARDS: u64 = 2;
/// Lanes of a row.
pub(crate) const LANES: usize = 64;

/// A row of 256 bytes, as lanes.
pub(crate) type Row = [u32; LANES];

/// Rows that a pass read, and something that depends on every lane of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Read {
    pub(crate) rows: u64,
    pub(crate) sum: u32,
}

impl Add for Read {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { rows: self.rows + other.rows, sum: self.sum.wrapping_add(other.sum) }
    }
}

impl Read {
    /// Takes a row with the given [`sum`] in.
    #[inline]
    pub(crate) fn take(&mut self, sum: u32) {
        *self = *self + Self { rows: 1, sum };
    }
}

/// The sum of a row's lanes.
#[inline]
pub(crate) fn sum(lanes: impl IntoIterator<Item = u32>) -> u32 {
    lanes.into_iter().fold(0, u32::wrapping_add)
}

/// The key of row `number`.
pub(crate) fn key(number: u64) -> Key {
    Key(finalize(number))
}

/// The shard of row `number`.
pub(crate) fn shard_of(number: u64) -> u64 {
    finalize(!number) % SHARDS
}

/// The row of `key`.
pub(crate) fn row(key: Key) -> Row {
    let mut stream = Stream::from_state(key.0);
    let mut row = [0; LANES];
    for (number, pair) in row.chunks_exact_mut(2).enumerate() {
        let bits = if number == 0 { key.0 } else { stream.next_u64() };
        pair.copy_from_slice(&[bits as u32, (bits >> 32) as u32]);
    }
    row
}

/// Says which row it should have been, where `lanes` are not the row of `key`.
pub(crate) fn check(key: Key, lanes: impl IntoIterator<Item = u32>) -> Result<(), String> {
    if lanes.into_iter().eq(row(key)) {
        return Ok(());
    }
    Err(format!("the row read for key {:016x} is not its row", key.0))
}

/// The rows of a shard that are in memory, in random order.
pub(crate) fn present(options: &Options, shard: u64) -> Vec<Key> {
    let room = (options.rows / SHARDS) as usize;
    let mut numbers: Vec<u64> = Vec::with_capacity(room);
    numbers.extend((1..=options.keys).filter(|row| shard_of(*row) == shard).take(room));
    let mut dice = Stream::from_state(shard + 300);
    for last in (1..numbers.len()).rev() {
        let other = ((u128::from(dice.next_u64()) * (last as u128 + 1)) >> 64) as usize;
        numbers.swap(last, other);
    }
    numbers.into_iter().map(key).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::Parser;

    use super::*;

    #[test]
    fn a_row_begins_with_its_key_and_is_told_from_others() {
        let (one, other) = (key(1), key(2));
        let lanes = row(one);
        assert_eq!(u64::from(lanes[1]) << 32 | u64::from(lanes[0]), one.0);
        assert!(check(one, lanes).is_ok());
        assert!(check(other, lanes).unwrap_err().contains(&format!("{:016x}", other.0)));
        let mut damaged = lanes;
        damaged[LANES - 1] ^= 1;
        assert!(check(one, damaged).is_err());
        assert!(check(one, lanes[1..].iter().copied()).is_err());
        assert_ne!(sum(lanes), sum(damaged));
    }

    #[test]
    fn the_most_frequent_rows_are_present_each_once() {
        let options = Options::parse_from(["caches", "--rows", "2000", "--keys", "9000"]);
        for shard in 0..SHARDS {
            let keys = present(&options, shard);
            let wanted = (1..).filter(|row| shard_of(*row) == shard).take(1000).map(key);
            assert_eq!(keys.len(), 1000);
            assert!(keys.iter().copied().collect::<BTreeSet<_>>() == wanted.collect());
        }
    }

    #[test]
    fn there_may_be_fewer_rows_than_room() {
        let options = Options::parse_from(["caches", "--rows", "2000", "--keys", "2000"]);
        let counts = [0, 1].map(|shard| present(&options, shard).len());
        assert!(counts.iter().all(|count| (900..=1000).contains(count)), "{counts:?}");
    }
}
