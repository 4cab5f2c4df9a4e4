//! Keys of a column, row by row.

use std::collections::BTreeMap;

use stepwell_base::Key;

use crate::layout::Ids;

/// Keys of a column.
pub(super) struct Bags {
    pub(super) keys: Vec<Key>,
    /// Where those of each row end; none where each has one.
    pub(super) ends: Option<Vec<u32>>,
    /// Ids cut off the lists that are too long, by row.
    pub(super) cut: BTreeMap<usize, usize>,
}

impl Bags {
    pub(super) fn of(&self, row: usize) -> &[Key] {
        match &self.ends {
            None => &self.keys[row..=row],
            Some(ends) => {
                let start = row.checked_sub(1).map_or(0, |before| ends[before]);
                &self.keys[start as usize..ends[row] as usize]
            }
        }
    }
}

/// Keys that are put together, row by row.
pub(super) struct Putting {
    pub(super) bags: Bags,
    pub(super) skip_missing: bool,
}

impl Putting {
    pub(super) fn new(count: usize, has_ends: bool, ids: &Ids) -> Self {
        let ends = (has_ends || ids.skip_missing).then(|| Vec::with_capacity(count));
        let bags = Bags { keys: Vec::with_capacity(count), ends, cut: BTreeMap::new() };
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
