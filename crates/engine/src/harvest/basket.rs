//! Harvested rows that wait for their fills.
//!
//! - **How.** Rows are in numbered places. A table of lines of eight words finds a key's place: a
//!   word holds half of the key's hash above the place; the place has the whole key. If a row's
//!   line is full, it is dropped. Places with rows of one mini-batch are linked, to find rows whose
//!   use has passed or is farthest.
//! - **Cost.** One cache line to find a key, two or three to put or take its row.
//! - **Bounds.** All memory is allocated at once, and touched as it is used.

use std::collections::BTreeMap;

use stepwell_base::Key;
use stepwell_base::prefetch::prefetch_at;
use stepwell_base::scatter::Scatter;

use crate::hash_lines::{WORDS, each_ahead, line_of, tag_of};

/// No place.
const NONE: u32 = u32::MAX;

/// Words per row, so that few lines are full.
const WORDS_PER_ROW: usize = 2;

/// Metadata of a place besides key and row.
#[derive(Clone, Copy, Debug)]
struct Links {
    /// The mini-batch that uses the row next.
    next_use: u32,
    /// Previous place with a row of that mini-batch.
    before: u32,
    after: u32,
}

/// Harvested rows of one table group, up to a maximum number. If it is exceeded, rows whose use has
/// passed are dropped first, then those used last.
#[derive(Debug)]
pub(crate) struct Basket {
    rows_max: usize,
    row_lanes: usize,
    rows: usize,
    /// By line, words with half of a key's hash above its place plus 1; 0 if vacant.
    words: Box<[u64]>, // (lines, WORDS)
    keys: Vec<Key>,
    links: Vec<Links>,
    lanes: Box<[f32]>, // (rows_max, row_lanes)
    /// The first place with a row of each mini-batch.
    by_use: BTreeMap<u32, u32>,
    /// The first vacant one of the places that had a row before.
    vacant: u32,
    count: BasketCount,
}

/// Counts of harvested rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BasketCount {
    /// Rows that were put in.
    pub harvested: u64,
    /// Rows that a fill took.
    pub used: u64,
    /// Rows that found no room or were displaced.
    pub dropped: u64,
}

/// Number of lines for `rows` rows.
fn lines_for(rows: usize) -> usize {
    (rows * WORDS_PER_ROW).div_ceil(WORDS).max(1)
}

impl Basket {
    /// A basket for `rows_max` rows.
    pub(crate) fn new(rows_max: usize, row_lanes: usize) -> Self {
        assert!(rows_max < NONE as usize, "places are numbered");
        Self {
            rows_max,
            row_lanes,
            rows: 0,
            words: vec![0; lines_for(rows_max) * WORDS].into(),
            keys: Vec::with_capacity(rows_max),
            links: Vec::with_capacity(rows_max),
            lanes: vec![0.0; rows_max * row_lanes].into(),
            by_use: BTreeMap::new(),
            vacant: NONE,
            count: BasketCount::default(),
        }
    }

    /// Maximum bytes of `rows` rows with metadata, used by `mini_batches` mini-batches.
    pub(crate) fn bytes_max(rows: usize, row_lanes: usize, mini_batches: usize) -> u64 {
        // Up to half of a B-tree's nodes may be empty.
        let tree = 3 * size_of::<(u32, u32)>() * mini_batches.min(rows);
        (rows * Self::row_bytes(row_lanes) + WORDS * size_of::<u64>() + tree) as u64
    }

    /// Bytes of a row with its metadata.
    pub(super) const fn row_bytes(row_lanes: usize) -> usize {
        let words = WORDS_PER_ROW * size_of::<u64>();
        row_lanes * size_of::<f32>() + size_of::<Key>() + size_of::<Links>() + words
    }

    /// Number of rows that wait.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.rows
    }

    /// The first mini-batch whose rows the basket wouldn't take; rows of mini-batches before `now`
    /// are all in their slots.
    pub(crate) fn useful_until(&self, now: u32) -> u32 {
        let is_over = self.by_use.first_key_value().is_some_and(|(used, _)| *used < now);
        if self.rows < self.rows_max || is_over {
            return u32::MAX;
        }
        self.by_use.last_key_value().map_or(u32::MAX, |(used, _)| *used)
    }

    /// Returns the counts since the last call.
    pub(crate) fn take_count(&mut self) -> BasketCount {
        std::mem::take(&mut self.count)
    }

    /// Index of the first word of a hash's line.
    fn line(&self, hash: u64) -> usize {
        line_of(hash, self.words.len() / WORDS) * WORDS
    }

    /// Index of the word for the row of a key, and the row's place.
    fn find(&self, key: Key, hash: u64) -> Option<(usize, u32)> {
        let (line, tag) = (self.line(hash), tag_of(hash));
        let words = self.words[line..line + WORDS].iter().zip(line..);
        let same = words.filter(|(word, _)| **word >> 32 == tag && **word as u32 > 0);
        let place = |(word, at): (&u64, usize)| (at, *word as u32 - 1);
        same.map(place).find(|(_, place)| self.keys[*place as usize] == key)
    }

    /// Adds `row` of `key`, which mini-batch `next` will use; rows of mini-batches before `now` are
    /// all in their slots. Returns whether it was wanted, because it wasn't here already.
    pub(crate) fn put(&mut self, key: Key, next: u32, row: &[u8], now: u32) -> bool {
        let hash = Scatter::KNOWN.of(key);
        if self.rows_max == 0 || self.find(key, hash).is_some() {
            return false;
        }
        let is_full = self.rows == self.rows_max;
        let leaves = if is_full { self.leaves_for(next, now) } else { None };
        // No row is dropped for one that finds no room in its line anyway.
        let word = self.word_for(hash, leaves).filter(|_| !is_full || leaves.is_some());
        let Some(at) = word else {
            self.count.dropped += 1;
            return true;
        };
        if let Some(place) = leaves {
            self.forget(place);
            self.count.dropped += 1;
        }
        let place = self.place_for(key, next);
        self.words[at] = tag_of(hash) << 32 | u64::from(place + 1);
        let start = place as usize * self.row_lanes;
        let lanes = &mut self.lanes[start..start + self.row_lanes];
        bytemuck::cast_slice_mut(lanes).copy_from_slice(row);
        self.rows += 1;
        self.count.harvested += 1;
        true
    }

    /// A word of a hash's line that is vacant, or will be once the row in place `leaves` is
    /// dropped.
    fn word_for(&self, hash: u64, leaves: Option<u32>) -> Option<usize> {
        let line = self.line(hash);
        let is_free = |word: u32| word == 0 || leaves.is_some_and(|place| word == place + 1);
        (line..line + WORDS).find(|at| is_free(self.words[*at] as u32))
    }

    /// A vacant place, linked as the first one of mini-batch `next`.
    fn place_for(&mut self, key: Key, next: u32) -> u32 {
        let vacant = self.vacant;
        let place = if vacant == NONE { self.keys.len() as u32 } else { vacant };
        let after = self.by_use.insert(next, place).unwrap_or(NONE);
        if let Some(links) = self.links.get_mut(after as usize) {
            links.before = place;
        }
        let links = Links { next_use: next, before: NONE, after };
        if vacant == NONE {
            self.keys.push(key);
            self.links.push(links);
        } else {
            self.keys[place as usize] = key;
            self.vacant = std::mem::replace(&mut self.links[place as usize], links).after;
        }
        place
    }

    /// The place of a row that is less useful than one that mini-batch `next` uses.
    fn leaves_for(&self, next: u32, now: u32) -> Option<u32> {
        let over = self.by_use.first_key_value().filter(|(used, _)| **used < now);
        let last = self.by_use.last_key_value().filter(|(used, _)| **used > next);
        over.or(last).map(|(_, place)| *place)
    }

    /// Adds to `found`, for each of `keys` whose row is here, its position in `keys` and the row's
    /// place.
    pub(crate) fn find_each(&self, keys: impl Iterator<Item = Key>, found: &mut Vec<(u32, u32)>) {
        if self.rows == 0 {
            return;
        }
        let mut numbers = 0..;
        let ask = |of: &&Self, hash| prefetch_at(&of.words, of.line(hash));
        each_ahead(&mut &*self, keys, ask, |of, key, hash| {
            let place = of.find(key, hash).map(|(_, place)| place);
            found.extend(numbers.next().zip(place));
        });
    }

    /// Removes and returns the row in a place that [`Basket::find_each`] found.
    pub(crate) fn take(&mut self, place: u32) -> &[f32] {
        self.forget(place);
        self.count.used += 1;
        let start = place as usize * self.row_lanes;
        &self.lanes[start..start + self.row_lanes]
    }

    /// Prefetches the line of `key`, which [`Basket::put`] reads.
    pub(crate) fn prefetch(&self, key: Key) {
        prefetch_at(&self.words, self.line(Scatter::KNOWN.of(key)));
    }

    /// Drops the row in a place that [`Basket::find_each`] found, as a newer version will be
    /// stored.
    pub(crate) fn forget(&mut self, place: u32) {
        let key = self.keys[place as usize];
        let found = self.find(key, Scatter::KNOWN.of(key));
        assert!(found.is_some_and(|(_, of_key)| of_key == place), "a place with a row");
        let Some((word, _)) = found else { return };
        self.words[word] = 0;
        self.rows -= 1;
        self.unlink(place);
    }

    fn unlink(&mut self, place: u32) {
        let Links { next_use, before, after } = self.links[place as usize];
        if let Some(links) = self.links.get_mut(after as usize) {
            links.before = before;
        }
        match self.links.get_mut(before as usize) {
            Some(links) => links.after = after,
            None if after == NONE => drop(self.by_use.remove(&next_use)),
            None => drop(self.by_use.insert(next_use, after)),
        }
        self.links[place as usize].after = self.vacant;
        self.vacant = place;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(value: f32) -> [u8; 8] {
        bytemuck::cast([value, -value])
    }

    fn forget(basket: &mut Basket, key: u64) {
        let mut found = Vec::new();
        basket.find_each([Key(key)].into_iter(), &mut found);
        found.iter().for_each(|(_, place)| basket.forget(*place));
    }

    fn take(basket: &mut Basket, key: u64) -> Option<Vec<f32>> {
        let mut found = Vec::new();
        basket.find_each([Key(key)].into_iter(), &mut found);
        let (number, place) = found.pop()?;
        assert!(number == 0 && found.is_empty());
        Some(basket.take(place).to_vec())
    }

    #[test]
    fn rows_wait_until_they_are_taken_or_forgotten() {
        let mut basket = Basket::new(4, 2);
        assert_eq!(take(&mut basket, 1), None);
        basket.put(Key(1), 5, &row(1.0), 0);
        basket.put(Key(2), 5, &row(2.0), 0);
        forget(&mut basket, 2);
        assert_eq!(take(&mut basket, 1), Some(vec![1.0, -1.0]));
        assert_eq!(basket.len(), 0);
        assert_eq!(take(&mut basket, 1), None);
        assert_eq!(take(&mut basket, 2), None);
        let count = BasketCount { harvested: 2, used: 1, dropped: 0 };
        assert_eq!(basket.take_count(), count);
    }

    #[test]
    fn what_is_over_goes_first_then_what_is_used_last() {
        let mut basket = Basket::new(2, 2);
        basket.put(Key(1), 3, &row(1.0), 0);
        basket.put(Key(2), 9, &row(2.0), 0);
        // Used later than both, it finds no room.
        basket.put(Key(3), 10, &row(3.0), 0);
        assert_eq!(basket.len(), 2);
        assert_eq!(take(&mut basket, 3), None);
        basket.put(Key(4), 4, &row(4.0), 0);
        assert_eq!(take(&mut basket, 2), None);
        basket.put(Key(5), 20, &row(5.0), 4);
        assert_eq!(take(&mut basket, 1), None, "its mini-batch has its rows");
        assert_eq!(take(&mut basket, 5), Some(vec![5.0, -5.0]));
        assert_eq!(take(&mut basket, 4), Some(vec![4.0, -4.0]));
        assert_eq!(basket.take_count().dropped, 3);
    }

    #[test]
    fn one_without_room_takes_nothing() {
        let mut basket = Basket::new(0, 2);
        basket.put(Key(1), 3, &row(1.0), 0);
        assert_eq!(basket.len(), 0);
    }

    /// The keys below 100,000 in the line of key `of`, without `of`.
    fn keys_of_line(basket: &Basket, of: u64) -> Vec<u64> {
        let line = |key| basket.line(Scatter::KNOWN.of(Key(key)));
        (0..100_000).filter(|key| *key != of && line(*key) == line(of)).collect()
    }

    #[test]
    fn no_row_leaves_for_one_whose_line_is_full() {
        // One line is full, and a row of another line fills the basket.
        let mut basket = Basket::new(WORDS + 1, 2);
        let others = keys_of_line(&basket, 0);
        others[..WORDS].iter().for_each(|key| assert!(basket.put(Key(*key), 3, &row(1.0), 0)));
        let line = |key: u64| basket.line(Scatter::KNOWN.of(Key(key)));
        let elsewhere = (1..).find(|key| line(*key) != line(0)).unwrap();
        basket.put(Key(elsewhere), 9, &row(2.0), 0);
        assert_eq!((basket.len(), basket.take_count().dropped), (WORDS + 1, 0));
        assert!(basket.put(Key(0), 4, &row(3.0), 0));
        assert_eq!(take(&mut basket, 0), None);
        assert_eq!(take(&mut basket, elsewhere), Some(vec![2.0, -2.0]), "it need not have left");
        assert_eq!(basket.take_count().dropped, 1);
    }

    /// If the dropped row is in the full line, its word becomes free.
    #[test]
    fn a_row_may_leave_for_one_of_its_own_line() {
        let mut basket = Basket::new(WORDS, 2);
        let others = keys_of_line(&basket, 0);
        others[..WORDS].iter().for_each(|key| assert!(basket.put(Key(*key), 9, &row(1.0), 0)));
        assert!(basket.put(Key(0), 4, &row(3.0), 0));
        assert_eq!(take(&mut basket, 0), Some(vec![3.0, -3.0]));
        assert_eq!((basket.len(), basket.take_count().dropped), (WORDS - 1, 1));
    }

    /// Compared to a plain map of rows by key.
    #[test]
    fn agrees_with_a_plain_map() {
        const ROWS: usize = 300;
        let mut random = stepwell_base::random::Stream::named(1, b"basket");
        let (mut basket, mut plain) = (Basket::new(ROWS, 2), BTreeMap::new());
        let mut missed = 0;
        for now in 0..20_000u32 {
            let key = random.next_u64() % 600;
            match random.next_u64() % 4 {
                0 => {
                    assert_eq!(take(&mut basket, key), plain.remove(&key));
                }
                1 => {
                    forget(&mut basket, key);
                    plain.remove(&key);
                }
                _ if plain.len() < ROWS && !plain.contains_key(&key) => {
                    let value = now as f32;
                    basket.put(Key(key), now + (key % 9) as u32, &row(value), now);
                    match basket.len() > plain.len() {
                        true => drop(plain.insert(key, vec![value, -value])),
                        false => missed += 1,
                    }
                }
                _ => {}
            }
            assert_eq!(basket.len(), plain.len());
        }
        let after = |place: &u32| Some(basket.links[*place as usize].after);
        let after = |place: &u32| after(place).filter(|place| *place != NONE);
        let rows_of = |first: &u32| std::iter::successors(Some(*first), after).count();
        let listed: usize = basket.by_use.values().map(rows_of).sum();
        assert_eq!(listed, plain.len());
        assert!(missed < 200, "{missed} found no room in their lines");
    }
}
