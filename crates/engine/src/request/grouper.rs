//! Groups the keys of a mini-batch into rows, once, when the mini-batch is made.

use stepwell_base::Key;
use stepwell_base::prefetch::prefetch_at;
use stepwell_base::scatter::Scatter;

use super::{Bags, Request};

/// Key and row of a place in the table; vacant if `turn` is not the current one.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    key: Key,
    turn: u32,
    row: u32,
}

/// Initial number of places of the table.
const PLACES_MIN: usize = 1 << 10;
/// Occurrences whose places are prefetched at once, before the first of them is visited.
const AT_ONCE: usize = 32;

/// Groups occurrences by key; reuses its memory across mini-batches.
///
/// How: an open-addressing table with a key and its row in each 16-byte place, at most two thirds
/// full. It grows with the number of distinct keys, so it stays in the processor's caches, and
/// places are prefetched. A turn number identifies the mini-batch; places from earlier turns count
/// as vacant, so nothing is cleared. A secret scatters keys; without it, chosen keys could all
/// start their search at one place, each walking past all others. Rows are numbered in the order of
/// their keys, whatever the secret.
#[derive(Debug)]
pub struct Grouper {
    scatter: Scatter,
    table: Vec<Entry>, // a power of two
    turn: u32,
}

impl Default for Grouper {
    fn default() -> Self {
        Self::new(Scatter::drawn())
    }
}

impl Grouper {
    fn new(scatter: Scatter) -> Self {
        Self { scatter, table: Vec::new(), turn: 0 }
    }

    /// Bytes of the table for mini-batches of `occurrences` ids.
    pub fn bytes_max(occurrences: u64) -> u64 {
        places_for(occurrences as usize) as u64 * size_of::<Entry>() as u64
    }

    /// Makes the request for `bags`. O(occurrences).
    pub fn group(&mut self, bags: &Bags) -> Request {
        let mut request = Request {
            ends: bags.ends.clone(),
            factors: bags.weights.clone(),
            ..Request::default()
        };
        self.group_into(&bags.keys, 0, &mut request);
        request
    }

    /// Completes `request`, whose bag ends and factors (if any) are set, with the rows of `keys`,
    /// reusing its memory. Rows have their keys under `salt`, their table's
    /// ([`TableSpec::salt`](crate::TableSpec::salt)).
    pub fn group_into(&mut self, keys: &[Key], salt: u64, request: &mut Request) {
        request.clear_rows();
        self.begin();
        self.number_rows(keys, salt, request);
    }

    /// Makes every place vacant.
    fn begin(&mut self) {
        self.turn = self.turn.wrapping_add(1);
        if self.turn == 0 {
            self.table.fill(Entry::default());
            self.turn = 1;
        }
    }

    fn number_rows(&mut self, keys: &[Key], salt: u64, request: &mut Request) {
        if self.table.is_empty() {
            self.table = vec![Entry::default(); PLACES_MIN];
        }
        let Request { distinct, occurrence_rows, .. } = request;
        occurrence_rows.reserve_exact(keys.len());
        let mut blocks = keys.chunks(AT_ONCE);
        let mut values = self.ask(blocks.next().unwrap_or_default(), salt);
        for block in keys.chunks(AT_ONCE) {
            let ahead = self.ask(blocks.next().unwrap_or_default(), salt);
            let occurrences = block.iter().zip(values);
            occurrence_rows.extend(
                occurrences.map(|(key, value)| self.row_of(key.salted(salt), value, distinct)),
            );
            values = ahead;
        }
    }

    /// Prefetches the places of at most [`AT_ONCE`] keys and returns their scattered values.
    #[inline]
    fn ask(&self, keys: &[Key], salt: u64) -> [u64; AT_ONCE] {
        let mut values = [0; AT_ONCE];
        for (value, key) in values.iter_mut().zip(keys) {
            *value = self.scatter.of(key.salted(salt));
            prefetch_at(&self.table, first_place(*value, self.table.len()));
        }
        values
    }

    /// The row of `key`, which scatters to `value`; a new row for its first occurrence.
    #[inline]
    fn row_of(&mut self, key: Key, value: u64, distinct: &mut Vec<Key>) -> u32 {
        let place = self.vacant_or(key, value);
        let entry = &mut self.table[place];
        if entry.turn == self.turn {
            return entry.row;
        }
        let row = distinct.len() as u32;
        *entry = Entry { key, turn: self.turn, row };
        distinct.push(key);
        if distinct.len() > keys_max(self.table.len()) {
            self.grow(distinct);
        }
        row
    }

    /// Doubles the table and reinserts the keys of this mini-batch.
    #[cold]
    fn grow(&mut self, distinct: &[Key]) {
        let places = 2 * self.table.len();
        // Free the old table first: both together would exceed the bound.
        self.table = Vec::new();
        self.table = vec![Entry::default(); places];
        for (row, key) in distinct.iter().enumerate() {
            let place = self.vacant_or(*key, self.scatter.of(*key));
            self.table[place] = Entry { key: *key, turn: self.turn, row: row as u32 };
        }
    }

    /// The place of `key`, which scatters to `value`, or the vacant place for it.
    #[inline]
    fn vacant_or(&self, key: Key, value: u64) -> usize {
        let mut place = first_place(value, self.table.len());
        loop {
            let entry = &self.table[place];
            if entry.turn != self.turn || entry.key == key {
                return place;
            }
            place = (place + 1) & (self.table.len() - 1);
        }
    }
}

/// Number of places of a table for `keys` distinct keys.
fn places_for(keys: usize) -> usize {
    (keys + keys / 2 + 1).next_power_of_two().max(PLACES_MIN)
}

/// Maximum number of distinct keys for which [`places_for`] gives `places` places.
#[inline]
fn keys_max(places: usize) -> usize {
    (2 * places - 1) / 3
}

/// Where the search for a key with this scattered value starts in a table of `places` places, a
/// power of two above one: at its high bits, which are the best mixed.
#[inline]
fn first_place(value: u64, places: usize) -> usize {
    (value >> (places.leading_zeros() + 1)) as usize
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use stepwell_base::owner::owner;
    use stepwell_base::random::Stream;

    use super::*;

    fn bags(of: &[&[u64]]) -> Bags {
        let mut bags = Bags::default();
        for bag in of {
            bags.keys.extend(bag.iter().copied().map(Key));
            bags.ends.push(bags.keys.len() as u32);
        }
        bags
    }

    #[test]
    fn rows_are_numbered_as_their_keys_come() {
        let bags = bags(&[&[5, 6], &[], &[6], &[5, 5, 7]]);
        let request = Grouper::default().group(&bags);
        assert_eq!(request.distinct, [Key(5), Key(6), Key(7)]);
        assert_eq!(request.occurrence_rows, [0, 1, 1, 0, 0, 2]);
        assert_eq!(request.occurrences(1), 2..2);
    }

    #[test]
    fn agrees_with_a_plain_map_while_the_table_grows() {
        let mut random = Stream::named(1, b"grouper");
        // Turns wrap around within this test.
        let mut grouper = Grouper { turn: u32::MAX - 3, ..Grouper::default() };
        for keys in [3u64, 700, 5000, 100, 40_000, 10] {
            let of: Vec<u64> = (0..2 * keys).map(|_| random.next_u64() % keys).collect();
            let bags = bags(&of.chunks(3).collect::<Vec<_>>());
            let request = grouper.group(&bags);
            let mut rows = HashMap::new();
            for (key, row) in bags.keys.iter().zip(&request.occurrence_rows) {
                let next = rows.len() as u32;
                assert_eq!(*rows.entry(*key).or_insert(next), *row);
                assert_eq!(request.distinct[*row as usize], *key);
            }
            assert_eq!(request.distinct.len(), rows.len());
            let bytes = grouper.table.len() * size_of::<Entry>();
            assert!(bytes as u64 <= Grouper::bytes_max(2 * 40_000));
        }
    }

    /// Total number of places visited in the searches for the keys of the last mini-batch.
    fn places_walked(grouper: &Grouper, distinct: &[Key]) -> usize {
        let places = grouper.table.len();
        let walked = |key: &Key| {
            let value = grouper.scatter.of(*key);
            let first = first_place(value, places);
            grouper.vacant_or(*key, value).wrapping_sub(first) % places + 1
        };
        distinct.iter().map(walked).sum()
    }

    #[test]
    fn keys_that_begin_at_one_place_of_the_known_function_do_no_harm() {
        // The values differ only in the middle, so neither end distinguishes them.
        let chosen: Vec<u64> = (0..3000).map(|n| Scatter::KNOWN.key_of(n << 20).0).collect();
        let chosen = bags(&chosen.chunks(3).collect::<Vec<_>>());
        let mut known = Grouper::new(Scatter::KNOWN);
        let request = known.group(&chosen);
        assert!(places_walked(&known, &request.distinct) > 3000 * 3000 / 3);
        let seeds = (0..100).map(|seed| Scatter::new(Some(seed)));
        for scatter in seeds.chain((0..100).map(|_| Scatter::drawn())) {
            let mut grouper = Grouper::new(scatter);
            assert_eq!(grouper.group(&chosen), request);
            let walked = places_walked(&grouper, &request.distinct);
            assert!(walked < 5 * 3000, "{walked} places under {scatter:?}");
        }
    }

    /// Linear probing at load a finds a key after ½ (1 + 1 / (1 - a)) places on average (Knuth,
    /// "The Art of Computer Programming", 6.4), two at two thirds. For 40,000 keys the mean
    /// deviates by less than 0.02, so 2.2 is beyond chance.
    #[test]
    fn keys_of_one_owner_are_found_as_soon_as_any_others() {
        for owners in [1, 2, 3, 4, 8, 64, 256] {
            let keys = (0..).filter(|key| owner(Key(*key), owners) == owners / 2);
            let keys: Vec<u64> = keys.take(40_000).collect();
            let keys = bags(&keys.chunks(3).collect::<Vec<_>>());
            for scatter in [Scatter::KNOWN, Scatter::new(Some(1)), Scatter::new(Some(2))] {
                let mut grouper = Grouper::new(scatter);
                let lookup = grouper.group(&keys);
                let walked = places_walked(&grouper, &lookup.distinct);
                assert!(walked < 22 * 40_000 / 10, "{walked} places of one of {owners} owners");
            }
        }
    }

    #[test]
    fn memory_of_an_earlier_batch_does_not_show() {
        let mut grouper = Grouper::default();
        let (first, second) = (bags(&[&[1, 2], &[2, 3]]), bags(&[&[3], &[9, 3]]));
        let fresh = Grouper::default().group(&second);
        grouper.group(&first);
        assert_eq!(grouper.group(&second), fresh);
        let mut used = grouper.group(&first);
        used.ends.clone_from(&second.ends);
        grouper.group_into(&second.keys, 0, &mut used);
        assert_eq!(used, fresh);
        assert_eq!(grouper.group(&Bags::default()), Request::default());
    }
}
