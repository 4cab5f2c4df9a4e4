//! Rows that wait for their fills.

use std::collections::BTreeSet;

use hashbrown::HashMap;
use stepwell_base::Key;

/// Rows of one table group that came up early, at most so many. Where there are too many, those
/// whose use is over go first, then those that are used last.
#[derive(Debug, Default)]
pub(crate) struct Basket {
    rows_max: usize,
    row_lanes: usize,
    by_key: HashMap<Key, u32>,
    /// Next use and number of each row.
    by_use: BTreeSet<(u32, u32)>,
    entries: Vec<(Key, u32)>,
    lanes: Vec<f32>, // (entries, row_lanes)
    free: Vec<u32>,
    count: BasketCount,
}

/// What became of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BasketCount {
    /// Rows that were put in.
    pub harvested: u64,
    /// Those that a fill took.
    pub used: u64,
    /// Those that found no room, or gave it to others.
    pub dropped: u64,
}

impl Basket {
    /// A basket for `rows_max` rows.
    pub(crate) fn new(rows_max: usize, row_lanes: usize) -> Self {
        Self { rows_max, row_lanes, ..Self::default() }
    }

    /// Bytes of a row with all that is kept of it, at most.
    pub(crate) fn row_bytes(row_lanes: usize) -> u64 {
        // Lists and maps double when they grow: as much again is unused.
        let lists = row_lanes * size_of::<f32>() + size_of::<(Key, u32)>() + size_of::<u32>();
        // It doubles where more than half of its room was ever used, removed entries included, and
        // the old one is there meanwhile.
        let map = 6 * (size_of::<(Key, u32)>() + 1) * 8 / 7;
        // Half of a B-tree's nodes may be empty.
        let tree = 3 * size_of::<(u32, u32)>();
        (2 * lists + map + tree) as u64
    }

    /// Rows that wait.
    pub(crate) fn len(&self) -> usize {
        self.by_key.len()
    }

    /// What was counted since the last time.
    pub(crate) fn take_count(&mut self) -> BasketCount {
        std::mem::take(&mut self.count)
    }

    /// The row of `key`, which mini-batch `next` will use, is `row`. Before mini-batch `now` all is
    /// planned.
    pub(crate) fn put(&mut self, key: Key, next: u32, row: &[u8], now: u32) {
        if self.rows_max == 0 || self.by_key.contains_key(&key) {
            return;
        }
        if self.len() == self.rows_max && !self.make_room(next, now) {
            self.count.dropped += 1;
            return;
        }
        let at = self.free.pop().unwrap_or_else(|| {
            self.entries.push((key, next));
            self.lanes.resize(self.entries.len() * self.row_lanes, 0.0);
            self.entries.len() as u32 - 1
        });
        self.entries[at as usize] = (key, next);
        let start = at as usize * self.row_lanes;
        let lanes = &mut self.lanes[start..start + self.row_lanes];
        bytemuck::cast_slice_mut(lanes).copy_from_slice(row);
        self.by_key.insert(key, at);
        self.by_use.insert((next, at));
        self.count.harvested += 1;
    }

    /// Lets a row go that is less useful than one that mini-batch `next` uses; false where there is
    /// none.
    fn make_room(&mut self, next: u32, now: u32) -> bool {
        let over = self.by_use.first().filter(|(used, _)| *used < now);
        let last = self.by_use.last().filter(|(used, _)| *used > next);
        let Some((_, at)) = over.or(last).copied() else { return false };
        self.forget(self.entries[at as usize].0);
        self.count.dropped += 1;
        true
    }

    /// The row of `key`, which goes.
    pub(crate) fn take(&mut self, key: Key) -> Option<&[f32]> {
        if self.by_key.is_empty() {
            return None;
        }
        let at = self.remove(key)? as usize;
        self.count.used += 1;
        Some(&self.lanes[at * self.row_lanes..(at + 1) * self.row_lanes])
    }

    /// The store's row of `key` will be another one.
    pub(crate) fn forget(&mut self, key: Key) {
        if !self.by_key.is_empty() {
            self.remove(key);
        }
    }

    fn remove(&mut self, key: Key) -> Option<u32> {
        let at = self.by_key.remove(&key)?;
        self.by_use.remove(&(self.entries[at as usize].1, at));
        self.free.push(at);
        Some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(value: f32) -> [u8; 8] {
        bytemuck::cast([value, -value])
    }

    #[test]
    fn rows_wait_until_they_are_taken_or_forgotten() {
        let mut basket = Basket::new(4, 2);
        assert_eq!(basket.take(Key(1)), None);
        basket.put(Key(1), 5, &row(1.0), 0);
        basket.put(Key(2), 5, &row(2.0), 0);
        basket.forget(Key(2));
        assert_eq!(basket.take(Key(1)), Some(&[1.0, -1.0][..]));
        assert_eq!(basket.len(), 0);
        assert_eq!(basket.take(Key(1)), None);
        assert_eq!(basket.take(Key(2)), None);
        let count = BasketCount { harvested: 2, used: 1, dropped: 0 };
        assert_eq!(basket.take_count(), count);
    }

    #[test]
    fn what_is_over_goes_first_then_what_is_used_last() {
        let mut basket = Basket::new(2, 2);
        basket.put(Key(1), 3, &row(1.0), 0);
        basket.put(Key(2), 9, &row(2.0), 0);
        // Later than both: it finds no room.
        basket.put(Key(3), 10, &row(3.0), 0);
        assert_eq!(basket.len(), 2);
        assert_eq!(basket.take(Key(3)), None);
        basket.put(Key(4), 4, &row(4.0), 0);
        assert_eq!(basket.take(Key(2)), None);
        basket.put(Key(5), 20, &row(5.0), 4);
        assert_eq!(basket.take(Key(1)), None, "its mini-batch was planned");
        assert_eq!(basket.take(Key(5)), Some(&[5.0, -5.0][..]));
        assert_eq!(basket.take(Key(4)), Some(&[4.0, -4.0][..]));
        assert_eq!(basket.take_count().dropped, 3);
    }

    #[test]
    fn one_without_room_takes_nothing() {
        let mut basket = Basket::new(0, 2);
        basket.put(Key(1), 3, &row(1.0), 0);
        assert_eq!(basket.len(), 0);
    }
}
