//! Selects the rows of a table that may be lifted to a device, if only its most used ones may.
//!
//! ```text
//!   mini-batches   1 … n            n + 1 …
//!   rows           all below        those counted most: above; the others: below, for ever
//!                  └ counted ┘     ▲ begins once the steps of the first n are over
//! ```
//!
//! - **Why.** A row that is used once a day pays for its transfers and takes another row's slot. If
//!   a few rows have most of the uses, only these are worth a slot.
//! - **How.** In a warm-up of a number of mini-batches, all rows of such tables stay on the host,
//!   and the mini-batches in which each occurs are counted. Then the rows with the highest counts
//!   may be lifted, as many per table group and device as there are slots; so the counts divide
//!   slots among tables. The others are never lifted.
//! - **Invariants.** A row is never lifted while a step updates it on the host: the first
//!   mini-batch after the warm-up waits until all earlier ones are finished (H25). The selection
//!   depends only on the mini-batches and their order.
//! - **Bounds.** [`COUNTED_OF_SLOT`] keys per slot are counted. If there are more, those with the
//!   lowest counts are dropped until a quarter of the room is free: a frequent key is soon counted
//!   again, and misses few counts (lossy counting: Manku and Motwani, "Approximate Frequency Counts
//!   over Data Streams", 2002).

use std::collections::HashMap;

use stepwell_base::Key;
use stepwell_base::rules::{Rule, Rules};

/// Number of keys counted per slot.
const COUNTED_OF_SLOT: usize = 4;

/// Keys of one table group on one device.
#[derive(Debug, Default)]
struct Counts {
    /// Number of mini-batches in which each key occurred; after the warm-up, only keys that may be
    /// lifted.
    of_keys: HashMap<Key, u32>,
    slots: usize,
}

impl Counts {
    fn count(&mut self, key: Key) {
        let room = COUNTED_OF_SLOT * self.slots;
        if self.of_keys.len() == room && !self.of_keys.contains_key(&key) {
            while self.of_keys.len() > room - room / 4 {
                let least = self.of_keys.values().min().copied();
                self.of_keys.retain(|_, count| Some(*count) != least);
            }
        }
        let count = self.of_keys.entry(key).or_default();
        *count = count.saturating_add(1);
    }

    /// Keeps the keys with the highest counts; among equal counts, the lowest keys.
    fn choose(&mut self) {
        let mut all: Vec<(Key, u32)> = self.of_keys.drain().collect();
        all.sort_unstable_by_key(|(key, count)| (std::cmp::Reverse(*count), key.0));
        all.truncate(self.slots);
        self.of_keys = all.into_iter().collect();
    }
}

/// Selects the rows that may be lifted.
#[derive(Debug)]
pub(crate) struct WarmUp {
    /// Number of mini-batches still to count.
    left: usize,
    /// Counts by table group and device.
    counts: Vec<Vec<Counts>>,
    /// The first mini-batch after the warm-up, once known.
    first: Option<u32>,
    /// Number of earlier mini-batches that are planned and not finished.
    before: usize,
    rules: Rules,
}

impl WarmUp {
    /// Starts a warm-up of `mini_batches`, for groups with these `slots` on each of `devices`
    /// devices.
    pub(crate) fn new(slots: &[usize], devices: usize, mini_batches: usize, rules: Rules) -> Self {
        let counts = |slots: &usize| {
            let counts = || Counts { of_keys: HashMap::new(), slots: *slots };
            (0..devices).map(|_| counts()).collect()
        };
        assert!(mini_batches > 0, "a warm-up of no mini-batches counts no rows");
        Self {
            left: mini_batches,
            counts: slots.iter().map(counts).collect(),
            first: None,
            before: 0,
            rules,
        }
    }

    /// Bytes of the counts for the `slots` of one table group on a device.
    pub(crate) fn bytes_max(slots: usize) -> u64 {
        // The library's tables have a power of two of places, at most 7 in 8 taken, with a byte
        // each and some more. A table is copied when it grows, and finally into a list.
        let keys = (slots * COUNTED_OF_SLOT) as u64;
        let places = (keys * 8).div_ceil(7).next_power_of_two();
        let entry = size_of::<(Key, u32)>() as u64;
        places * (entry + 1) * 3 / 2 + keys * entry + 64
    }

    /// Begins mini-batch `number`; returns whether it belongs to the warm-up, so its keys are
    /// counted.
    pub(crate) fn next(&mut self, number: u32) -> bool {
        if self.left == 0 {
            self.first.get_or_insert(number);
            return false;
        }
        self.left -= 1;
        true
    }

    /// Counts `keys` of a mini-batch of the warm-up, in `group` and on `device`.
    pub(crate) fn count(&mut self, group: usize, device: usize, keys: &[Key]) {
        let counts = &mut self.counts[group][device];
        keys.iter().for_each(|key| counts.count(*key));
    }

    /// Ends the counting of a mini-batch; selects rows after the last one.
    pub(crate) fn counted(&mut self) {
        if self.left == 0 && self.first.is_none() {
            self.counts.iter_mut().flatten().for_each(Counts::choose);
        }
    }

    /// Whether the row of `key` may be lifted to `device`, after the warm-up.
    pub(crate) fn may_go_up(&self, group: usize, device: usize, key: Key) -> bool {
        self.counts[group][device].of_keys.contains_key(&key)
    }

    fn is_before(&self, number: u32) -> bool {
        self.first.is_none_or(|first| number < first)
    }

    /// Whether mini-batch `number` must wait for those of the warm-up.
    pub(crate) fn waits(&self, number: u32) -> bool {
        !self.is_before(number) && self.before > 0 && self.rules.hold(Rule::WaitForBelow)
    }

    /// Records that mini-batch `number` is planned.
    pub(crate) fn planned(&mut self, number: u32) {
        self.before += usize::from(self.is_before(number));
    }

    /// Records that mini-batch `number` is finished.
    pub(crate) fn retired(&mut self, number: u32) {
        self.before -= usize::from(self.is_before(number));
    }
}

#[cfg(test)]
mod tests;
