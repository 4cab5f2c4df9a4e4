//! The bags of each row: the inverse of a request.

use std::ops::Range;

use super::Request;

/// Bags by row, in example order; computed after planning, since nothing needs them before.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct BagsByRow {
    /// Where each row's bags end in `bags`.
    pub(crate) ends: Vec<u32>, // (rows)
    /// Bags that contain the row, each once per occurrence.
    pub(crate) bags: Vec<u32>, // (occurrences)
    /// The row's factor in each bag; empty if all are 1.
    pub(crate) factors: Vec<f32>, // (occurrences)
}

impl BagsByRow {
    /// Bytes of the bags of `rows` rows with `occurrences` occurrences; `weighed` if rows have
    /// factors.
    pub(crate) fn bytes_max(rows: u64, occurrences: u64, weighed: bool) -> u64 {
        let factor = if weighed { size_of::<f32>() } else { 0 };
        rows * size_of::<u32>() as u64 + occurrences * (size_of::<u32>() + factor) as u64
    }

    /// The bags of row `row`.
    #[inline]
    pub(crate) fn of(&self, row: usize) -> &[u32] {
        &self.bags[self.range(row)]
    }

    /// The range of `bags` with the bags of row `row`.
    #[inline]
    pub(crate) fn range(&self, row: usize) -> Range<usize> {
        self.before(row)..self.ends[row] as usize
    }

    /// Number of bags of the rows before row `row`, counted once per occurrence.
    #[inline]
    pub(crate) fn before(&self, row: usize) -> usize {
        if row == 0 { 0 } else { self.ends[row - 1] as usize }
    }

    /// Clears the lists and keeps their memory.
    pub(crate) fn clear(&mut self) {
        self.ends.clear();
        self.bags.clear();
        self.factors.clear();
    }

    /// Sorts the bags of `request` by row with a stable counting sort, so bags stay in example
    /// order within a row. O(occurrences).
    pub(crate) fn sort(&mut self, request: &Request) {
        self.clear();
        match request.is_weighed() {
            true => self.sort_inline::<true>(request),
            false => self.sort_inline::<false>(request),
        }
    }

    fn sort_inline<const WEIGHED: bool>(&mut self, request: &Request) {
        let Self { ends, bags, factors } = self;
        ends.resize(request.distinct.len(), 0);
        for row in &request.occurrence_rows {
            ends[*row as usize] += 1;
        }
        // `ends` starts as where each row's bags begin; each placed bag advances it, up to where
        // they end.
        let mut before = 0;
        for count in ends.iter_mut() {
            before += std::mem::replace(count, before);
        }
        bags.resize(request.occurrence_rows.len(), 0);
        factors.resize(request.factors.len(), 0.0);
        let mut occurrence = 0;
        for (bag, bag_end) in request.ends.iter().enumerate() {
            while occurrence < *bag_end as usize {
                let place = &mut ends[request.occurrence_rows[occurrence] as usize];
                bags[*place as usize] = bag as u32;
                if WEIGHED {
                    factors[*place as usize] = request.factors[occurrence];
                }
                *place += 1;
                occurrence += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use stepwell_base::Key;

    use super::*;
    use crate::request::Bags;
    use crate::request::grouper::Grouper;

    #[test]
    fn rows_know_their_bags_in_order() {
        let keys = [5, 6, 6, 5, 5, 7].map(Key).to_vec();
        let bags =
            Bags { keys, ends: vec![2, 2, 3, 6], weights: vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0] };
        let request = Grouper::default().group(&bags);
        let mut by_row = BagsByRow::default();
        // Previous contents have no effect.
        for _ in 0..2 {
            by_row.sort(&request);
            assert_eq!(by_row.of(0), [0, 3, 3]);
            assert_eq!(by_row.of(1), [0, 2]);
            assert_eq!(by_row.of(2), [3]);
            assert_eq!((by_row.before(1), by_row.range(2)), (3, 5..6));
            assert_eq!(by_row.factors, [1.0, 4.0, 5.0, 2.0, 3.0, 6.0]);
        }
    }
}
