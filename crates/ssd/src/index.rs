//! The index: where the newest version of each row lies.
//!
//! How       256 hash tables by eight bits of the key's mix; each entry holds the whole key and a
//!           place, 16 bytes and one of control. A table doubles when it is 7/8 full, alone: while
//!           it moves, old and new are both held, but of one table in 256. Nothing iterates it.
//! Invariants  I1 The bytes of all tables, and of a doubling under way, stay within the bound.
//! Failure   A key that would break I1 is refused before anything changed.
//! Cost      17 bytes for each place of a table: 19 to 39 bytes a row.

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use stepwell_base::{Key, hash};

use crate::{Error, Result};

const SHARDS: usize = 256;
/// Away from both ends of the hash: a table takes its bucket from the low bits, its tag from the
/// high ones.
const SHARD_SHIFT: u32 = 44;
/// What the first places of a table take, rounded up.
const FIRST_STEP_BYTES: u64 = 128;

/// Where a row lies: the slot of its segment and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct RowPlace {
    pub(crate) slot: u32,
    pub(crate) row: u32,
}

#[derive(Clone, Copy, Debug)]
struct Indexed {
    key: Key,
    place: RowPlace,
}

pub(crate) struct Index {
    shards: Vec<HashTable<Indexed>>,
    rows: u64,
    bytes: u64,
    bytes_max: u64,
}

fn shard_of(mixed: u64) -> usize {
    (mixed >> SHARD_SHIFT) as usize % SHARDS
}

impl Index {
    pub(crate) fn new(bytes_max: u64) -> Self {
        let shards = (0..SHARDS).map(|_| HashTable::new()).collect();
        Self { shards, rows: 0, bytes: 0, bytes_max }
    }

    /// Number of keys.
    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    /// Bytes of the tables.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn get(&self, key: Key) -> Option<RowPlace> {
        let mixed = hash::mix(key);
        let found = self.shards[shard_of(mixed)].find(mixed, |indexed| indexed.key == key);
        found.map(|indexed| indexed.place)
    }

    /// Grows where `key` would need it, so that a following [`Index::set`] of it cannot fail.
    pub(crate) fn make_room(&mut self, key: Key) -> Result<()> {
        let mixed = hash::mix(key);
        let shard = &mut self.shards[shard_of(mixed)];
        if shard.len() < shard.capacity() || shard.find(mixed, |i| i.key == key).is_some() {
            return Ok(());
        }
        let before = shard.allocation_size() as u64;
        let growth = (2 * before).max(FIRST_STEP_BYTES);
        let (rows, bytes, bytes_max) = (self.rows, self.bytes, self.bytes_max);
        if bytes + growth > bytes_max {
            return Err(Error::IndexFull { rows, bytes, growth, bytes_max });
        }
        shard.reserve(1, |indexed| hash::mix(indexed.key));
        let after = shard.allocation_size() as u64;
        assert!(after <= growth, "I1: a table of {before} bytes grew to {after}");
        self.bytes = bytes - before + after;
        Ok(())
    }

    /// Points `key`, for which there is room, at `place`; returns where it pointed before.
    pub(crate) fn set(&mut self, key: Key, place: RowPlace) -> Option<RowPlace> {
        let mixed = hash::mix(key);
        let shard = &mut self.shards[shard_of(mixed)];
        let same = |indexed: &Indexed| indexed.key == key;
        match shard.entry(mixed, same, |indexed| hash::mix(indexed.key)) {
            Entry::Occupied(mut entry) => {
                Some(std::mem::replace(&mut entry.get_mut().place, place))
            }
            Entry::Vacant(entry) => {
                entry.insert(Indexed { key, place });
                self.rows += 1;
                None
            }
        }
    }

    /// Points `key` at `to` if it still points at `from`.
    pub(crate) fn move_row(&mut self, key: Key, from: RowPlace, to: RowPlace) -> bool {
        let mixed = hash::mix(key);
        let same = |indexed: &Indexed| indexed.key == key && indexed.place == from;
        match self.shards[shard_of(mixed)].find_mut(mixed, same) {
            Some(indexed) => {
                indexed.place = to;
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(row: u32) -> RowPlace {
        RowPlace { slot: 7, row }
    }

    #[test]
    fn keeps_what_was_set_within_its_bound() {
        let mut index = Index::new(1 << 20);
        let mut rows = 0;
        let error = loop {
            match index.make_room(Key(u64::from(rows))) {
                Ok(()) => assert_eq!(index.set(Key(u64::from(rows)), place(rows)), None),
                Err(error) => break error,
            }
            rows += 1;
        };
        assert!(rows > 10_000, "{rows} rows");
        assert!(index.bytes() <= 1 << 20);
        let held: usize = index.shards.iter().map(HashTable::allocation_size).sum();
        assert_eq!(index.bytes(), held as u64);
        let message = error.to_string();
        assert!(message.contains("tiers.index") && message.contains("1048576"), "{message}");
        assert_eq!(index.rows(), u64::from(rows));
        for row in 0..rows {
            assert_eq!(index.get(Key(u64::from(row))), Some(place(row)));
            index.make_room(Key(u64::from(row))).unwrap();
        }
        assert_eq!(index.get(Key(u64::MAX)), None);
    }

    #[test]
    fn a_row_moves_only_from_where_it_is() {
        let mut index = Index::new(1 << 20);
        index.make_room(Key(1)).unwrap();
        index.set(Key(1), place(1));
        assert!(!index.move_row(Key(1), place(2), place(3)));
        assert!(!index.move_row(Key(2), place(1), place(3)));
        assert!(index.move_row(Key(1), place(1), place(3)));
        assert_eq!(index.set(Key(1), place(4)), Some(place(3)));
        assert_eq!(index.rows(), 1);
    }
}
