//! Keys of an id column, row by row.

use std::collections::BTreeMap;
use std::ops::Range;

use stepwell_base::{Key, Namespace};

use crate::chunk::{complete_values, push_value};
use crate::layout::{Ids, Made};
use crate::sign_hash::OneSignHash;

/// Keys of an id column.
pub(super) struct Bags {
    pub(super) keys: Vec<Key>,
    /// Values of the keys; empty if all are 1.
    pub(super) values: Vec<f32>,
    /// End of each row's keys; `None` if each row has one.
    pub(super) ends: Option<Vec<u32>>,
    /// Number of ids cut from lists that are too long, by row.
    pub(super) cut: BTreeMap<usize, usize>,
}

impl Bags {
    /// Range of a row's keys, given the `ends` of all rows.
    pub(super) fn range(ends: &[u32], row: usize) -> Range<usize> {
        let start = row.checked_sub(1).map_or(0, |before| ends[before]);
        start as usize..ends[row] as usize
    }

    /// Adds a key with its value.
    pub(super) fn push(&mut self, key: Key, value: f32) {
        push_value(&mut self.values, self.keys.len(), value);
        self.keys.push(key);
    }

    /// Hashes the keys from `begin` on, which are a row's.
    pub(super) fn hash(&mut self, hash: &OneSignHash, namespace: &Namespace, begin: usize) {
        hash.replace(namespace, begin, &mut self.keys, &mut self.values);
    }

    /// Keeps only the first `keys` keys.
    pub(super) fn truncate(&mut self, keys: usize) {
        self.keys.truncate(keys);
        self.values.truncate(keys);
    }

    /// Sets the value of remaining keys to 1, if any key has a value.
    pub(super) fn complete_values(&mut self) {
        complete_values(&mut self.values, self.keys.len());
    }
}

/// Builds [`Bags`] row by row.
pub(super) struct Putting {
    pub(super) bags: Bags,
    pub(super) skip_missing: bool,
}

impl Putting {
    pub(super) fn new(count: usize, ids: &Ids) -> Self {
        let is_list = matches!(ids.made, Made::List(_) | Made::Hashed(_));
        let has_ends = ids.skip_missing || is_list;
        let ends = has_ends.then(|| Vec::with_capacity(count));
        let (keys, values) = (Vec::with_capacity(count), Vec::new());
        let bags = Bags { keys, values, ends, cut: BTreeMap::new() };
        Self { bags, skip_missing: ids.skip_missing }
    }

    pub(super) fn missing(&mut self, ids: &Ids) {
        if !self.skip_missing {
            self.bags.keys.push(ids.namespace.key_of(b""));
        }
    }

    pub(super) fn end_row(&mut self) {
        let end = self.bags.keys.len() as u32;
        self.bags.ends.iter_mut().for_each(|ends| ends.push(end));
    }
}
