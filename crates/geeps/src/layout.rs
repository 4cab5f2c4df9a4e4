//! The places of a table's rows: which shard has a key, and which place of a cache has its row.
//!
//! - **How.** A key is owned by the rank that has its key shard (`base::owner`), after it is salted
//!   by the name of its table. Places are ordered by owner, then in the given order of keys, so
//!   that the part of each shard is one piece of every cache, and is sent without its keys.
//!
//! ```text
//!   places  0 … a        a … b        b … rows
//!           shard 0      shard 1      shard 2      // (rows, row_floats)
//! ```

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use stepwell_base::hash::{Checksum, checksum};
use stepwell_base::owner::{KEY_SHARDS, owner};
use stepwell_base::{Key, TableId};
use stepwell_device::Buffer;

use crate::settings::{Applies, Initial, TableSettings};
use crate::{Error, Result};

/// The order of the rows of a table of parameter data, the same on all ranks.
#[derive(Debug)]
pub(crate) struct Layout {
    pub(crate) id: TableId,
    pub(crate) name: String,
    pub(crate) applies: Applies,
    pub(crate) initial: Initial,
    pub(crate) rows: Rows,
    /// The places of each shard. // (ranks)
    pub(crate) parts: Vec<Range<usize>>,
    /// Digest of what all ranks must have in common.
    pub(crate) digest: u64,
}

/// Keys of a table, and their places.
#[derive(Debug)]
pub(crate) struct Rows {
    pub(crate) row_floats: usize,
    /// By place. // (rows)
    pub(crate) keys: Vec<Key>,
    places: HashMap<Key, u32>,
}

impl Rows {
    pub(crate) fn new(name: &str, row_floats: usize, keys: Vec<Key>) -> Result<Self> {
        let places: HashMap<_, _> =
            keys.iter().enumerate().map(|(place, key)| (*key, place as u32)).collect();
        if places.len() < keys.len() {
            let (keys, different) = (keys.len(), places.len());
            let text = format!("'{name}' has {keys} keys, but only {different} distinct ones");
            return Err(Error::Setting(text));
        }
        Ok(Self { row_floats, keys, places })
    }

    pub(crate) fn count(&self) -> usize {
        self.keys.len()
    }

    pub(crate) fn floats(&self) -> usize {
        self.count() * self.row_floats
    }

    /// The place of one key.
    pub(crate) fn place(&self, key: Key) -> Option<u32> {
        self.places.get(&key).copied()
    }
}

impl Layout {
    pub(crate) fn new(id: TableId, settings: &TableSettings, ranks: usize) -> Result<Self> {
        if ranks > KEY_SHARDS {
            return Err(Error::Setting(format!("{ranks} ranks: use at most {KEY_SHARDS}")));
        }
        let TableSettings { name, row_floats, keys, initial, applies } = settings;
        let salt = checksum(name.as_bytes());
        let owner_of = |key: &Key| owner(key.salted(salt), ranks);
        let mut ordered = keys.clone();
        ordered.sort_by_key(owner_of);
        let until = |rank: usize| ordered.partition_point(|key| owner_of(key) < rank);
        let parts = (0..ranks).map(|rank| until(rank)..until(rank + 1)).collect();
        let digest = digest(settings).value();
        let rows = Rows::new(name, *row_floats, ordered)?;
        let (name, applies, initial) = (name.clone(), *applies, *initial);
        Ok(Self { id, name, applies, initial, rows, parts, digest })
    }

    /// The layout of a table with initial `values`, and these values by place.
    pub(crate) fn with_values(
        mut self,
        settings: &TableSettings,
        values: &[f32],
    ) -> (Self, Vec<f32>) {
        let row_floats = self.rows.row_floats;
        let (mut sum, mut placed) = (digest(settings), vec![0.0; values.len()]);
        for (key, row) in settings.keys.iter().zip(values.chunks_exact(row_floats)) {
            row.iter().for_each(|value| sum.update(&value.to_bits().to_le_bytes()));
            let Some(place) = self.rows.place(*key) else {
                unreachable!("the key is in the table")
            };
            let start = place as usize * row_floats;
            placed[start..start + row_floats].copy_from_slice(row);
        }
        self.digest = sum.value();
        (self, placed)
    }

    /// The initial values of rows `places`.
    pub(crate) fn initial(&self, places: Range<usize>) -> Vec<f32> {
        let row = self.rows.row_floats;
        let mut values = vec![0.0; places.len() * row];
        for (key, row) in self.rows.keys[places].iter().zip(values.chunks_exact_mut(row)) {
            self.initial.fill(self.id, *key, row);
        }
        values
    }
}

fn digest(settings: &TableSettings) -> Checksum {
    let TableSettings { name, row_floats, keys, initial, applies } = settings;
    let mut sum = Checksum::new();
    let (seed, range) = match *initial {
        Initial::Zeros => (0, 0.0),
        Initial::Uniform { seed, range } => (seed, range),
    };
    let by_clock = u64::from(*applies == Applies::ByClock);
    let words = [*row_floats as u64, by_clock, seed, u64::from(range.to_bits())];
    let words = words.into_iter().chain(keys.iter().map(|key| key.0));
    words.for_each(|word| sum.update(&word.to_le_bytes()));
    sum.update(name.as_bytes());
    sum
}

/// The places of a list of keys: made once for each list, used for each access.
#[derive(Clone, Debug)]
pub(crate) struct Index {
    /// The keys, in the application's order.
    pub(crate) keys: Arc<[Key]>,
    // (keys)
    pub(crate) places: Arc<[u32]>,
    /// Whether these are all rows in the order of places.
    pub(crate) is_whole: bool,
    /// The places in device memory, for kernels, if they were copied there.
    pub(crate) on_device: Option<Arc<Buffer<u32>>>,
}

impl Index {
    pub(crate) fn new(name: &str, rows: &Rows, keys: &[Key]) -> Result<Self> {
        let place = |key: &Key| {
            let none = || Error::NoKey { table: name.to_owned(), key: key.0, rows: rows.count() };
            rows.place(*key).ok_or_else(none)
        };
        let places: Arc<[u32]> = keys.iter().map(place).collect::<Result<_>>()?;
        let in_order = places.iter().enumerate().all(|(at, place)| at == *place as usize);
        let is_whole = in_order && places.len() == rows.count();
        Ok(Self { keys: keys.into(), places, is_whole, on_device: None })
    }
}

/// Rows of a store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chosen<'a> {
    pub(crate) index: &'a Index,
    pub(crate) rows: &'a Rows,
}

impl Chosen<'_> {
    pub(crate) fn row_floats(&self) -> usize {
        self.rows.row_floats
    }

    pub(crate) fn floats(&self) -> usize {
        self.index.places.len() * self.row_floats()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(keys: &[u64]) -> TableSettings {
        TableSettings {
            name: "weights".to_owned(),
            row_floats: 3,
            keys: keys.iter().copied().map(Key).collect(),
            initial: Initial::Uniform { seed: 4, range: 0.5 },
            applies: Applies::ByClock,
        }
    }

    #[test]
    fn parts_are_one_piece_each_and_hold_what_their_rank_owns() {
        let keys: Vec<u64> = (0..100).rev().collect();
        for ranks in [1, 2, 3, 7] {
            let layout = Layout::new(TableId(0), &settings(&keys), ranks).unwrap();
            let salt = checksum(b"weights");
            let mut next = 0;
            for (rank, part) in layout.parts.iter().enumerate() {
                assert_eq!(part.start, next);
                next = part.end;
                let keys = &layout.rows.keys[part.clone()];
                assert!(keys.iter().all(|key| owner(key.salted(salt), ranks) == rank));
                assert!(keys.windows(2).all(|pair| pair[0] > pair[1]), "as they were given");
            }
            assert_eq!(next, 100);
        }
    }

    #[test]
    fn rows_begin_alike_for_any_number_of_ranks_and_an_index_says_where_they_are() {
        let keys = [8, 3, 5, 4];
        let one = Layout::new(TableId(2), &settings(&keys), 1).unwrap();
        let two = Layout::new(TableId(2), &settings(&keys), 2).unwrap();
        let row = |layout: &Layout, key| {
            let index = Index::new("weights", &layout.rows, &[Key(key)]).unwrap();
            let place = index.places[0] as usize;
            layout.initial(place..place + 1)
        };
        keys.iter().for_each(|key| assert_eq!(row(&one, *key), row(&two, *key)));
        assert_eq!(one.digest, two.digest);
        let whole: Vec<Key> = keys.iter().copied().map(Key).collect();
        assert!(Index::new("weights", &one.rows, &whole).unwrap().is_whole);
        let missing = Index::new("weights", &one.rows, &[Key(3), Key(9)]).unwrap_err();
        assert_eq!(missing.to_string(), "table 'weights' has no key 9; it was set up with 4 keys");
        let twice = Layout::new(TableId(0), &settings(&[1, 2, 1]), 1).unwrap_err();
        assert!(twice.to_string().contains("3 keys, but only 2 distinct ones"), "{twice}");
    }
}
