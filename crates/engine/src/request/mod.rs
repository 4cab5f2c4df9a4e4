//! Requests: the rows of one table that one mini-batch needs; the requester's half of a look-up.
//!
//! Keys are grouped once, when the mini-batch is made, and never hashed after that: the forward
//! pass walks `occurrence_rows`, the update walks [`BagsByRow`], both in example order, so every
//! sum has a fixed order. Where rows are is the owner's half, a [`WorkingSet`](crate::WorkingSet).

mod bags_by_row;
mod grouper;
mod pooling;

use std::ops::Range;

use stepwell_base::Key;

pub(crate) use self::bags_by_row::BagsByRow;
pub use self::grouper::Grouper;
pub(crate) use self::pooling::is_pooled;
pub use self::pooling::{Columns, Field, Pooling};

/// Bags of ids, in example order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bags {
    /// Keys in example order, field by field.
    pub keys: Vec<Key>, // (occurrences)
    /// Where each bag ends in `keys`; bag `example * fields + field`.
    pub ends: Vec<u32>, // (examples * fields)
    /// Weight of each row in its bag; empty if all are 1.
    pub weights: Vec<f32>, // (occurrences)
}

/// Bags of ids, by row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Request {
    /// Where each bag ends among the occurrences; bag `example * fields + field`.
    pub ends: Vec<u32>, // (examples * fields)
    /// Distinct keys in order of first occurrence: the rows.
    pub distinct: Vec<Key>, // (rows)
    /// Row of each occurrence, as an index into `distinct`.
    pub occurrence_rows: Vec<u32>, // (occurrences)
    /// Factor of each occurrence's row; empty if all are 1.
    pub factors: Vec<f32>, // (occurrences)
}

impl Request {
    /// The occurrences of bag `bag`.
    #[inline]
    pub fn occurrences(&self, bag: usize) -> Range<usize> {
        self.occurrences_before(bag)..self.ends[bag] as usize
    }

    /// Where the occurrences of bag `bag` begin; for the number of bags, where all end.
    #[inline]
    pub(crate) fn occurrences_before(&self, bag: usize) -> usize {
        if bag == 0 { 0 } else { self.ends[bag - 1] as usize }
    }

    /// Whether rows are multiplied by factors before they are added.
    pub fn is_weighed(&self) -> bool {
        !self.factors.is_empty()
    }

    /// Sets the factors of the bags of `fields`, whose ends are set: each row's weight (`weights`
    /// has one per occurrence, or none) times the factor of its field's pooling.
    pub fn weigh(&mut self, fields: &[Field], weights: &[f32]) {
        self.factors.clear();
        self.factors.extend_from_slice(weights);
        if fields.iter().all(|field| field.pooling.factor(2) == 1.0) {
            return;
        }
        let occurrences = self.ends.last().map_or(0, |end| *end as usize);
        self.factors.resize(occurrences, 1.0);
        for (bag, field) in (0..self.ends.len()).zip(fields.iter().cycle()) {
            let bag = self.occurrences(bag);
            let factor = field.pooling.factor(bag.len());
            self.factors[bag].iter_mut().for_each(|weight| *weight *= factor);
        }
    }

    /// Clears everything and keeps the memory.
    pub fn clear(&mut self) {
        self.ends.clear();
        self.factors.clear();
        self.clear_rows();
    }

    fn clear_rows(&mut self) {
        self.distinct.clear();
        self.occurrence_rows.clear();
    }

    /// Maximum bytes of a request for `bags` bags with `occurrences` distinct ids; `weighed` if
    /// rows have factors.
    pub fn bytes_max(bags: u64, occurrences: u64, weighed: bool) -> u64 {
        let factor = if weighed { size_of::<f32>() } else { 0 };
        let per_occurrence = size_of::<Key>() + size_of::<u32>() + factor;
        bags * size_of::<u32>() as u64 + occurrences * per_occurrence as u64
    }
}
