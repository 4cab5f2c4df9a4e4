//! Recall of items: how many of the items that users took are among those ranked first for them.
//!
//! - **Why.** A model of two towers finds candidates among all items, so what counts is how it
//!   ranks an item among all others, not among those that a user was shown.
//! - **How.** The items are the distinct inputs of the item's tower in the data, each with the
//!   first vector that it got: the last bits of a vector may depend on the size of its block. For
//!   each positive example, all items are ranked by their dot product with the vector of its
//!   user. Among equal scores, each order is equally likely.
//! - **Bounds.** [`POSITIVES_MAX`] positives and [`ITEMS_MAX`] items, with a vector each. Of more,
//!   there is a sample, chosen by numbers of examples and hashes of inputs.

use std::collections::BTreeMap;

use rayon::prelude::*;
use serde::Serialize;
use stepwell_base::hash::checksum;

use super::scored::Scored;

/// The most positives whose items are ranked.
const POSITIVES_MAX: usize = 16 << 10;
/// The most items that are ranked.
const ITEMS_MAX: usize = 256 << 10;

/// Recall of the items of positive examples.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RecallMetrics {
    /// Number of items that are taken for each user: those with the highest scores.
    pub k: u32,
    /// Share of the positives whose item is taken; `None` without positives.
    pub recall: Option<f64>,
    /// Positives that were measured.
    pub positives: u64,
    /// Items that were ranked.
    pub items: u64,
    /// Share of the items that were ranked; 1 if there was room for all.
    pub sampled: f64,
}

/// Collects vectors of users and items.
#[derive(Debug)]
pub struct RecallMeter {
    k: u32,
    /// Columns of each vector.
    dim: usize,
    /// Vectors of items by the hashes of their inputs.
    items: BTreeMap<u64, Box<[f32]>>,
    /// Items with larger hashes are left out, unless a positive has them.
    hash_max: u64,
    positives: Vec<Positive>,
    /// Number of positives so far.
    seen: u64,
    /// Of the positives, each with a number that this divides is kept.
    every: u64,
    positives_max: usize,
    items_max: usize,
}

#[derive(Debug)]
struct Positive {
    number: u64,
    user: Box<[f32]>,
    /// Hash of the item's input, and its vector.
    hash: u64,
    item: Box<[f32]>,
    weight: f64,
}

impl RecallMeter {
    /// A meter of the `k` items with the highest scores, for vectors of `dim` columns.
    pub fn new(k: u32, dim: usize) -> Self {
        Self {
            k,
            dim,
            items: BTreeMap::new(),
            hash_max: u64::MAX,
            positives: Vec::new(),
            seen: 0,
            every: 1,
            positives_max: POSITIVES_MAX,
            items_max: ITEMS_MAX,
        }
    }

    /// Adds examples of one label, whose layers are the vector of a user, that of an item, and the
    /// item's input.
    pub fn add(&mut self, scored: Scored<'_>) {
        let Scored { labels, weights, layers, .. } = scored;
        let columns = (layers.len() / labels.len().max(1)).max(1);
        for (number, (lanes, label)) in layers.chunks_exact(columns).zip(labels).enumerate() {
            let (user, rest) = lanes.split_at(self.dim);
            let (item, input) = rest.split_at(self.dim);
            let hash = hash_of(input);
            self.add_item(hash, item);
            if *label > 0.0 {
                let weight =
                    f64::from(*label) * weights.get(number).map_or(1.0, |of| f64::from(*of));
                self.add_positive(user, (hash, item), weight);
            }
        }
    }

    fn add_item(&mut self, hash: u64, item: &[f32]) {
        if hash > self.hash_max {
            return;
        }
        self.items.entry(hash).or_insert_with(|| item.into());
        while self.items.len() > self.items_max {
            self.hash_max /= 2;
            let hash_max = self.hash_max;
            self.items.retain(|hash, _| *hash <= hash_max);
        }
    }

    fn add_positive(&mut self, user: &[f32], (hash, item): (u64, &[f32]), weight: f64) {
        let number = self.seen;
        self.seen += 1;
        if !number.is_multiple_of(self.every) {
            return;
        }
        let (user, item) = (user.into(), item.into());
        self.positives.push(Positive { number, user, hash, item, weight });
        if self.positives.len() > self.positives_max {
            self.every *= 2;
            let every = self.every;
            self.positives.retain(|positive| positive.number.is_multiple_of(every));
        }
    }

    /// Returns the figures and empties the meter.
    pub fn take(&mut self) -> RecallMetrics {
        let Self { k, dim, .. } = *self;
        let Self { items, hash_max, positives, .. } = std::mem::replace(self, Self::new(k, dim));
        let shares: Vec<f64> =
            positives.par_iter().map(|positive| share_taken(positive, &items, k)).collect();
        let (mut taken, mut weights) = (0.0, 0.0);
        for (positive, share) in positives.iter().zip(shares) {
            taken += positive.weight * share;
            weights += positive.weight;
        }
        RecallMetrics {
            k,
            recall: (weights > 0.0).then(|| taken / weights),
            positives: positives.len() as u64,
            items: items.len() as u64,
            sampled: (hash_max as f64 + 1.0) / 2f64.powi(64),
        }
    }
}

/// Probability that the positive's item is among the `k` first of `items` and itself.
fn share_taken(positive: &Positive, items: &BTreeMap<u64, Box<[f32]>>, k: u32) -> f64 {
    let Positive { user, hash, item, .. } = positive;
    let own = dot(user, items.get(hash).unwrap_or(item));
    let (mut above, mut equal) = (0u64, 1u64);
    for (_, other) in items.iter().filter(|(of, _)| *of != hash) {
        let score = dot(user, other);
        above += u64::from(score > own);
        equal += u64::from(score == own);
    }
    let left = u64::from(k).saturating_sub(above) as f64;
    (left / equal as f64).min(1.0)
}

/// Hash of an item's input.
fn hash_of(input: &[f32]) -> u64 {
    let bytes: Vec<u8> = input.iter().flat_map(|lane| lane.to_le_bytes()).collect();
    checksum(&bytes)
}

/// Dot product in a fixed order, several lanes at a time.
fn dot(one: &[f32], other: &[f32]) -> f32 {
    let mut sums = [0.0f32; 8];
    let (ones, rest) = one.as_chunks::<8>();
    let (others, other_rest) = other.as_chunks::<8>();
    for (one, other) in ones.iter().zip(others) {
        for lane in 0..8 {
            sums[lane] += one[lane] * other[lane];
        }
    }
    let rest: f32 = rest.iter().zip(other_rest).map(|(one, other)| one * other).sum();
    sums.iter().sum::<f32>() + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(meter: &mut RecallMeter, pairs: &[([f32; 2], [f32; 2], f32)], weights: &[f32]) {
        let layers: Vec<f32> =
            pairs.iter().flat_map(|(user, item, _)| [*user, *item, *item].concat()).collect();
        let labels: Vec<f32> = pairs.iter().map(|(_, _, label)| *label).collect();
        meter.add(Scored { logits: &[], labels: &labels, weights, layers: &layers });
    }

    const RIGHT: [f32; 2] = [1.0, 0.0];
    const UP: [f32; 2] = [0.0, 1.0];
    const BETWEEN: [f32; 2] = [0.6, 0.8];

    #[test]
    fn an_item_is_taken_if_fewer_than_k_are_above_it() {
        let pairs = [
            (RIGHT, RIGHT, 1.0),   // first
            (RIGHT, BETWEEN, 1.0), // second
            (UP, RIGHT, 1.0),      // last of three
            (UP, UP, 0.0),
            (UP, UP, 0.0),
        ];
        for (k, wanted) in [(1, 1.0 / 3.0), (2, 2.0 / 3.0), (3, 1.0), (9, 1.0)] {
            let mut meter = RecallMeter::new(k, 2);
            add(&mut meter, &pairs[..2], &[]);
            add(&mut meter, &pairs[2..], &[]);
            let found = meter.take();
            assert_eq!((found.positives, found.items, found.sampled), (3, 3, 1.0));
            assert!((found.recall.unwrap() - wanted).abs() < 1e-12, "{found:?}");
            assert_eq!(meter.take().recall, None);
        }
    }

    #[test]
    fn weights_count_and_equal_scores_share_places() {
        let mut meter = RecallMeter::new(1, 2);
        let up_too = [0.0, -1.0];
        // For a user to the right, both score 0, and one is ahead.
        add(&mut meter, &[(RIGHT, UP, 1.0), (RIGHT, up_too, 0.0)], &[3.0, 1.0]);
        assert_eq!(meter.take().recall, Some(0.5));
        add(&mut meter, &[(RIGHT, UP, 1.0), (UP, RIGHT, 1.0)], &[3.0, 1.0]);
        // Neither item is first for its user.
        assert_eq!(meter.take().recall, Some(0.0));
        add(&mut meter, &[(RIGHT, RIGHT, 1.0), (RIGHT, UP, 1.0)], &[3.0, 1.0]);
        assert_eq!(meter.take().recall, Some(0.75));
    }

    /// The last bits of a vector may depend on the block.
    #[test]
    fn an_item_is_its_input_and_counts_without_positives() {
        let mut meter = RecallMeter::new(1, 2);
        let mut add = |item: [f32; 2], label: f32| {
            let layers = [&RIGHT[..], &item, &[7.0]].concat();
            meter.add(Scored { logits: &[], labels: &[label], weights: &[], layers: &layers });
        };
        add([0.5, 0.5], 1.0);
        add([0.500_000_1, 0.5], 1.0);
        let found = meter.take();
        assert_eq!((found.recall, found.items), (Some(1.0), 1));
        meter.add(Scored { logits: &[], labels: &[0.0], weights: &[], layers: &[1.0; 5] });
        let found = meter.take();
        assert_eq!((found.recall, found.items), (None, 1));
    }

    #[test]
    fn of_many_positives_and_items_there_is_a_sample() {
        let (positives_max, items_max, count) = (100, 1000, 1500);
        let mut meter = RecallMeter { positives_max, items_max, ..RecallMeter::new(1, 2) };
        for number in 0..count {
            let angle = number as f32 / count as f32;
            let vector = [angle.cos(), angle.sin()];
            add(&mut meter, &[(vector, vector, 1.0)], &[]);
        }
        let found = meter.take();
        assert!(found.sampled < 1.0 && (200..=1000).contains(&found.items), "{found:?}");
        assert!((40..=100).contains(&found.positives), "{found:?}");
    }
}
