//! Keys of one mini-batch: as bags in example order, and grouped by row.
//!
//! Grouping is done once, when the batch is read. After that nobody hashes a key again: the
//! forward pass walks `occurrence_rows`, the update walks `bags` row by row, in example order, so
//! that every sum has a fixed order.

use hashbrown::HashTable;
use stepwell_base::{Key, SlotIndex, hash};

/// The ids of one table group in one mini-batch, as the data has them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bags {
    /// Keys in example order, field by field.
    pub keys: Vec<Key>, // (occurrences)
    /// Where each bag ends in `keys`; bag `example * fields + field`.
    pub ends: Vec<u32>, // (examples * fields)
}

impl Bags {
    /// The occurrences of bag `bag`.
    #[inline]
    pub fn range(&self, bag: usize) -> std::ops::Range<usize> {
        let start = if bag == 0 { 0 } else { self.ends[bag - 1] as usize };
        start..self.ends[bag] as usize
    }

    /// Forgets everything and keeps the memory.
    pub fn clear(&mut self) {
        self.keys.clear();
        self.ends.clear();
    }
}

/// The same occurrences by row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lookup {
    /// Distinct keys in order of first occurrence.
    pub distinct: Vec<Key>, // (rows)
    /// Slot of each distinct key, set by the planner.
    pub slots: Vec<SlotIndex>, // (rows)
    /// Row of each occurrence, as an index into `distinct`.
    pub occurrence_rows: Vec<u32>, // (occurrences)
    /// Where each row's bags end in `bags`.
    pub bag_ends: Vec<u32>, // (rows)
    /// Bags that contain the row, in example order; a bag stands here once per occurrence.
    pub bags: Vec<u32>, // (occurrences)
}

impl Lookup {
    /// The bags of row `row`.
    #[inline]
    pub fn bags_of(&self, row: usize) -> &[u32] {
        let start = if row == 0 { 0 } else { self.bag_ends[row - 1] as usize };
        &self.bags[start..self.bag_ends[row] as usize]
    }

    /// Bytes that the lookups of `occurrences` ids take at most, every id being distinct.
    pub fn bytes_max(occurrences: u64) -> u64 {
        let per_row = size_of::<Key>() + size_of::<SlotIndex>() + size_of::<u32>();
        occurrences * (per_row + 2 * size_of::<u32>()) as u64
    }
}

/// Groups occurrences by key; keeps its memory from one mini-batch to the next.
#[derive(Debug, Default)]
pub struct Grouper {
    table: HashTable<(Key, u32)>,
    starts: Vec<u32>,
}

impl Grouper {
    /// Bytes of the scratch table for mini-batches of `occurrences` ids.
    pub fn bytes_max(occurrences: u64) -> u64 {
        let buckets = (occurrences * 8).div_ceil(7).next_power_of_two().max(8);
        buckets * (size_of::<(Key, u32)>() as u64 + 1) + occurrences * size_of::<u32>() as u64
    }

    /// The occurrences of `bags` by row; O(occurrences).
    pub fn group(&mut self, bags: &Bags) -> Lookup {
        let mut lookup = Lookup::default();
        self.number_rows(bags, &mut lookup);
        self.sort_bags(bags, &mut lookup);
        lookup
    }

    fn number_rows(&mut self, bags: &Bags, lookup: &mut Lookup) {
        self.table.clear();
        self.table.reserve(bags.keys.len(), |(key, _)| hash::mix(*key));
        lookup.occurrence_rows.reserve_exact(bags.keys.len());
        self.starts.clear();
        for key in &bags.keys {
            let entry = self.table.entry(
                hash::mix(*key),
                |(other, _)| other == key,
                |(other, _)| hash::mix(*other),
            );
            let next = lookup.distinct.len() as u32;
            let row = entry.or_insert((*key, next)).get().1;
            if row == next {
                lookup.distinct.push(*key);
                self.starts.push(0);
            }
            self.starts[row as usize] += 1;
            lookup.occurrence_rows.push(row);
        }
    }

    /// A counting sort of bags by row; stable, so bags stay in example order within a row.
    fn sort_bags(&mut self, bags: &Bags, lookup: &mut Lookup) {
        let mut end = 0;
        lookup.bag_ends.reserve_exact(self.starts.len());
        for start in &mut self.starts {
            let count = *start;
            *start = end;
            end += count;
            lookup.bag_ends.push(end);
        }
        lookup.bags.resize(lookup.occurrence_rows.len(), 0);
        let mut occurrence = 0;
        for (bag, bag_end) in bags.ends.iter().enumerate() {
            while occurrence < *bag_end as usize {
                let place = &mut self.starts[lookup.occurrence_rows[occurrence] as usize];
                lookup.bags[*place as usize] = bag as u32;
                *place += 1;
                occurrence += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
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
    fn rows_know_their_bags_in_order() {
        let bags = bags(&[&[5, 6], &[], &[6], &[5, 5, 7]]);
        let lookup = Grouper::default().group(&bags);
        assert_eq!(lookup.distinct, [Key(5), Key(6), Key(7)]);
        assert_eq!(lookup.occurrence_rows, [0, 1, 1, 0, 0, 2]);
        assert_eq!(lookup.bags_of(0), [0, 3, 3]);
        assert_eq!(lookup.bags_of(1), [0, 2]);
        assert_eq!(lookup.bags_of(2), [3]);
        assert_eq!(bags.range(1), 2..2);
    }

    #[test]
    fn memory_of_an_earlier_batch_does_not_show() {
        let mut grouper = Grouper::default();
        let (first, second) = (bags(&[&[1, 2], &[2, 3]]), bags(&[&[3], &[9, 3]]));
        let fresh = Grouper::default().group(&second);
        grouper.group(&first);
        assert_eq!(grouper.group(&second), fresh);
        assert_eq!(grouper.group(&Bags::default()), Lookup::default());
    }
}
