//! Who made a segment: what tells its pages from those of every other store.

use std::fmt;

use stepwell_base::{hash, random};

/// The random number by which a store is told from all others.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct StoreId(u128);

impl StoreId {
    /// Stands for the stores of format version 2, which had none.
    pub(crate) const OLD: Self = Self(0);

    /// [`StoreId::OLD`], where a manifest says none.
    pub(crate) fn old() -> Self {
        Self::OLD
    }

    /// One that no other store has.
    pub fn drawn() -> Self {
        let [high, low] = random::drawn();
        Self::from_number(u128::from(high) << 64 | u128::from(low))
    }

    /// The one of a number, for tests that want the same files every time.
    pub fn from_number(number: u128) -> Self {
        // None but the stores of version 2 has 0.
        Self(number.max(1))
    }

    /// The id that a manifest writes so.
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

/// A segment's origin: the store that made it, and the number that it has there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) store: StoreId,
    pub(crate) number: u64,
}

impl Origin {
    /// What the checksum of a page owes to its place.
    pub(crate) fn place_sum(&self, table: u32, page: u32) -> u64 {
        let mut place = [0; 32];
        place[..16].copy_from_slice(&self.store.to_bytes());
        place[16..20].copy_from_slice(&table.to_le_bytes());
        place[20..28].copy_from_slice(&self.number.to_le_bytes());
        place[28..].copy_from_slice(&page.to_le_bytes());
        // Version 2 knew no stores.
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
        let origin = |store, number| Origin { store: StoreId(store), number };
        let sums = [
            origin(1, 5).place_sum(0, 2),
            origin(2, 5).place_sum(0, 2),
            origin(1, 6).place_sum(0, 2),
            origin(1, 5).place_sum(1, 2),
            origin(1, 5).place_sum(0, 3),
            origin(0, 5).place_sum(0, 2),
        ];
        for (at, sum) in sums.iter().enumerate() {
            assert!(!sums[..at].contains(sum));
        }
        // As version 2 had it: 16 bytes.
        let mut place = Vec::from(7u32.to_le_bytes());
        place.extend(5u64.to_le_bytes());
        place.extend(2u32.to_le_bytes());
        assert_eq!(origin(0, 5).place_sum(7, 2), hash::checksum(&place));
    }
}
