//! The store that made a segment; distinguishes the segment's pages from those of other stores.

use std::fmt;

use stepwell_base::{hash, random};

use crate::numbers::{PageNumber, SegmentNumber};

/// The random number that identifies a store.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoreId(u128);

impl StoreId {
    /// The id of all stores of format version 2, which had none.
    pub(crate) const OLD: Self = Self(0);

    /// [`StoreId::OLD`], the default for manifests without an id.
    pub(crate) fn old() -> Self {
        Self::OLD
    }

    /// Draws a unique id.
    pub fn drawn() -> Self {
        let [high, low] = random::drawn();
        Self::from_number(u128::from(high) << 64 | u128::from(low))
    }

    /// Makes an id from a number, for tests that need the same files every time.
    pub fn from_number(number: u128) -> Self {
        // Only stores of version 2 have 0.
        Self(number.max(1))
    }

    /// Parses an id as written in a manifest.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        let is_one = text.len() == 32 && text.bytes().all(is_digit);
        is_one.then(|| u128::from_str_radix(text, 16).ok().map(Self)).flatten()
    }

    pub(crate) fn to_bytes(self) -> [u8; 16] {
        self.0.to_le_bytes()
    }

    pub(crate) fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(u128::from_le_bytes(bytes))
    }
}

impl fmt::Display for StoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for StoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreId({self})")
    }
}

/// A segment's origin: the store that made it, and the segment's number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Origin {
    pub(crate) store: StoreId,
    pub(crate) number: SegmentNumber,
}

impl Origin {
    /// The part of a page's checksum that depends on its place.
    pub(crate) fn place_sum(&self, table: u32, page: PageNumber) -> u64 {
        let mut place = [0; 32];
        place[..16].copy_from_slice(&self.store.to_bytes());
        place[16..20].copy_from_slice(&table.to_le_bytes());
        place[20..28].copy_from_slice(&u64::from(self.number).to_le_bytes());
        place[28..].copy_from_slice(&page.0.to_le_bytes());
        // Version 2 had no store ids.
        hash::checksum(if self.store == StoreId::OLD { &place[16..] } else { &place })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_come_back_from_their_text() {
        let id = StoreId::from_number(0x1234);
        assert_eq!(StoreId::parse(&id.to_string()), Some(id));
        assert_eq!(StoreId::parse(&StoreId::OLD.to_string()), Some(StoreId::OLD));
        assert_eq!(StoreId::from_bytes(id.to_bytes()), id);
        for bad in ["", "12", "+0000000000000000000000000000001", &"F".repeat(32)] {
            assert_eq!(StoreId::parse(bad), None, "{bad}");
        }
        assert_ne!(StoreId::drawn(), StoreId::drawn());
        assert_ne!(StoreId::from_number(0), StoreId::OLD);
    }

    #[test]
    fn a_place_is_one_of_one_store() {
        let place_sum = |store, number, table, page| {
            let number = SegmentNumber::of_manifest(number);
            Origin { store: StoreId(store), number }.place_sum(table, PageNumber(page))
        };
        let sums = [
            place_sum(1, 5, 0, 2),
            place_sum(2, 5, 0, 2),
            place_sum(1, 6, 0, 2),
            place_sum(1, 5, 1, 2),
            place_sum(1, 5, 0, 3),
            place_sum(0, 5, 0, 2),
        ];
        for (at, sum) in sums.iter().enumerate() {
            assert!(!sums[..at].contains(sum));
        }
        // The 16 bytes of version 2.
        let mut place = Vec::from(7u32.to_le_bytes());
        place.extend(5u64.to_le_bytes());
        place.extend(2u32.to_le_bytes());
        assert_eq!(place_sum(0, 5, 7, 2), hash::checksum(&place));
    }
}
