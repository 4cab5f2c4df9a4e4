//! Sets of key shards: the parts of a table's keys that one of its stores has.
//!
//! - **How.** [`key_shard`] (`base/src/owner/mod.rs`) maps a key to its key shard. Ranks use the
//!   same function to own keys: a store holds what its owner owns, so stores are split and joined
//!   as owners are. Shards of the in-memory index are unrelated (`index`).

use std::fmt;
use std::ops::{BitAnd, BitOr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use stepwell_base::Key;
use stepwell_base::owner::shards_of;
pub use stepwell_base::owner::{KEY_SHARDS, key_shard};

/// Number of key shards in a word of a set.
const WORD: usize = 64;
/// Number of hexadecimal digits of a set's text.
const DIGITS: usize = KEY_SHARDS / 4;

/// A set of key shards, such as those of a store.
///
/// ```
/// use stepwell_ssd::KeyShardSet;
///
/// // A table over three stores.
/// let parts: Vec<KeyShardSet> = (0..3).map(|number| KeyShardSet::part(number, 3)).collect();
/// assert_eq!(parts[1].to_string(), "85-169");
/// assert_eq!(parts.into_iter().fold(KeyShardSet::NONE, |all, part| all | part), KeyShardSet::ALL);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyShardSet([u64; KEY_SHARDS / WORD]);

impl KeyShardSet {
    /// All key shards.
    pub const ALL: Self = Self([u64::MAX; KEY_SHARDS / WORD]);
    /// No key shard.
    pub const NONE: Self = Self([0; KEY_SHARDS / WORD]);

    pub(crate) fn all() -> Self {
        Self::ALL
    }

    pub(crate) fn is_all(&self) -> bool {
        *self == Self::ALL
    }

    /// The key shards of owner `number` among `count` owners: adjacent ones; sizes of parts differ
    /// by at most one.
    ///
    /// # Panics
    /// If there is no such part, or a part would be empty.
    pub fn part(number: usize, count: usize) -> Self {
        shards_of(number, count).map(|shard| shard as u8).collect()
    }

    /// Whether the set contains a key shard.
    #[inline]
    pub fn contains(&self, shard: u8) -> bool {
        let (word, bit) = (usize::from(shard) / WORD, usize::from(shard) % WORD);
        self.0[word] >> bit & 1 == 1
    }

    /// Whether the set contains a key's shard.
    #[inline]
    pub fn contains_key(&self, key: Key) -> bool {
        *self == Self::ALL || self.contains(key_shard(key))
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        *self == Self::NONE
    }

    /// Number of key shards in the set.
    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// The key shards of the set, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u8> {
        let set = *self;
        (0..=u8::MAX).filter(move |shard| set.contains(*shard))
    }

    /// The key shards of this set that are not in `other`.
    pub fn without(self, other: Self) -> Self {
        self & Self(other.0.map(|word| !word))
    }

    /// The set as in a manifest: one bit per key shard, the first in the last digit.
    fn digits(&self) -> String {
        self.0.iter().rev().map(|word| format!("{word:016x}")).collect()
    }

    fn parse(text: &str) -> Option<Self> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if text.len() != DIGITS || !text.bytes().all(is_digit) {
            return None;
        }
        let mut set = Self::NONE;
        for (word, digits) in set.0.iter_mut().rev().zip(text.as_bytes().chunks(WORD / 4)) {
            *word = u64::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()?;
        }
        Some(set)
    }
}

impl BitOr for KeyShardSet {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(std::array::from_fn(|word| self.0[word] | other.0[word]))
    }
}

impl BitAnd for KeyShardSet {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        Self(std::array::from_fn(|word| self.0[word] & other.0[word]))
    }
}

impl FromIterator<u8> for KeyShardSet {
    fn from_iter<I: IntoIterator<Item = u8>>(shards: I) -> Self {
        let mut set = Self::NONE;
        for shard in shards {
            set.0[usize::from(shard) / WORD] |= 1 << (usize::from(shard) % WORD);
        }
        set
    }
}

/// Formats as ranges of adjacent shards: `0-84, 170`.
impl fmt::Display for KeyShardSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shards: Vec<u8> = self.iter().collect();
        let runs =
            shards.chunk_by(|a, b| a + 1 == *b).filter_map(|run| run.first().zip(run.last()));
        for (number, (first, last)) in runs.enumerate() {
            f.write_str(if number == 0 { "" } else { ", " })?;
            match first == last {
                true => write!(f, "{first}")?,
                false => write!(f, "{first}-{last}")?,
            }
        }
        if self.is_empty() { f.write_str("none") } else { Ok(()) }
    }
}

impl fmt::Debug for KeyShardSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyShardSet({self})")
    }
}

impl Serialize for KeyShardSet {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.digits())
    }
}

impl<'de> Deserialize<'de> for KeyShardSet {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let wrong = || de::Error::custom("a set of key shards has 64 hexadecimal digits");
        Self::parse(&text).ok_or_else(wrong)
    }
}

#[cfg(test)]
mod tests {
    use stepwell_base::owner::owner_of_shard;

    use super::*;

    #[test]
    fn sets_are_what_they_say() {
        let set: KeyShardSet = [0, 1, 2, 64, 255].into_iter().collect();
        assert_eq!((set.len(), set.to_string()), (5, "0-2, 64, 255".to_owned()));
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 1, 2, 64, 255]);
        assert!(set.contains(64) && !set.contains(63));
        let first = KeyShardSet::part(0, 4);
        assert_eq!((set & first).to_string(), "0-2");
        assert_eq!(set.without(first).to_string(), "64, 255");
        assert_eq!((set | first).len(), 66);
        assert_eq!(KeyShardSet::NONE.to_string(), "none");
        assert!(KeyShardSet::ALL.contains_key(Key(1)) && !KeyShardSet::NONE.contains_key(Key(1)));
        let of_key: KeyShardSet = [key_shard(Key(1))].into_iter().collect();
        assert!(of_key.contains_key(Key(1)) && !of_key.contains_key(Key(0)));
    }

    #[test]
    fn parts_are_all_and_none_twice() {
        for count in [1, 2, 3, 5, 7, 255, 256] {
            let mut all = KeyShardSet::NONE;
            for part in (0..count).map(|number| KeyShardSet::part(number, count)) {
                assert!((all & part).is_empty() && part.len().abs_diff(KEY_SHARDS / count) <= 1);
                let owner = |shard| owner_of_shard(shard, count);
                assert!(part.iter().all(|shard| KeyShardSet::part(owner(shard), count) == part));
                all = all | part;
            }
            assert_eq!(all, KeyShardSet::ALL);
        }
    }

    #[test]
    fn sets_come_back_from_their_text() {
        for set in [KeyShardSet::ALL, KeyShardSet::NONE, KeyShardSet::part(2, 7)] {
            assert_eq!(KeyShardSet::parse(&set.digits()), Some(set));
        }
        let one: KeyShardSet = [4].into_iter().collect();
        assert_eq!(one.digits(), format!("{:064x}", 16));
        for bad in ["", "0", &"F".repeat(DIGITS), &"é".repeat(DIGITS / 2)] {
            assert_eq!(KeyShardSet::parse(bad), None, "{bad}");
        }
    }
}
