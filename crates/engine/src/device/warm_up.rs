//! Which rows of a table may go to a device, where only its most used ones may.
//!
//! ```text
//!   mini-batches   1 … n            n + 1 …
//!   rows           all below        those counted most: above; the others: below, for ever
//!                  └ counted ┘     ▲ begins once the steps of the first n are over
//! ```
//!
//! - **Why.** A row that is used once a day pays for its way up and down and takes the slot of
//!   another. Where few rows are most of all uses, these alone are worth a slot.
//! - **How.** In a warm-up of so many mini-batches, all rows of such tables stay on the host, and
//!   it is counted in how many mini-batches each occurs. Then the rows that occurred in
//!   most may go up, of each table group and device as many as there are slots: so it is the counts
//!   that share slots out among the tables. The others never go up.
//! - **Invariants.** A row is never raised while a step has it below: the first mini-batch after
//!   the warm-up waits until those before are over (H25). Which rows go up follows from the
//!   mini-batches and their order alone.
//! - **Bounds.** [`COUNTED_OF_SLOT`] keys are counted for each slot. Where there are more, those
//!   that were counted least are forgotten, until a quarter of the room is free: a key that comes
//!   often is counted again soon, and lacks few counts (lossy counting: Manku and Motwani,
//!   "Approximate Frequency Counts over Data Streams", 2002).

use std::collections::HashMap;

use stepwell_base::Key;
use stepwell_base::rules::{Rule, Rules};

use super::DevicePlan;

/// Keys that are counted for each slot.
const COUNTED_OF_SLOT: usize = 4;

/// Keys of one table group on one device.
#[derive(Debug, Default)]
struct Counts {
    /// In how many mini-batches each occurred; after the warm-up, those that may go up.
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

    /// Keeps the keys that were counted most; of those that were counted alike, the least.
    fn choose(&mut self) {
        let mut all: Vec<(Key, u32)> = self.of_keys.drain().collect();
        all.sort_unstable_by_key(|(key, count)| (std::cmp::Reverse(*count), key.0));
        all.truncate(self.slots);
        self.of_keys = all.into_iter().collect();
    }
}

/// Which rows may go up.
#[derive(Debug)]
pub(super) struct WarmUp {
    /// Mini-batches that are still counted.
    left: usize,
    /// By table group and device.
    counts: Vec<Vec<Counts>>,
    /// The first mini-batch after the warm-up, once it is over.
    first: Option<u32>,
    /// Mini-batches before that which are planned and not over.
    before: usize,
    rules: Rules,
}

impl WarmUp {
    /// None where all rows may go up.
    pub(super) fn new(plan: &DevicePlan, rules: Rules) -> Option<Self> {
        let counts = |slots: &usize| {
            let counts = || Counts { of_keys: HashMap::new(), slots: *slots };
            (0..plan.devices).map(|_| counts()).collect()
        };
        let by_use = plan.by_use.contains(&true);
        assert!(!by_use || plan.warm_up > 0, "rows that nobody counted");
        by_use.then(|| Self {
            left: plan.warm_up,
            counts: plan.slots.iter().map(counts).collect(),
            first: None,
            before: 0,
            rules,
        })
    }

    /// Bytes of the counts for the `slots` of one table group on a device.
    pub(super) fn bytes_max(slots: usize) -> u64 {
        // The library's tables have a power of two of places, of which 7 in 8 are taken at most,
        // with a byte each and some more; one is copied when it grows, and once more as a list.
        let keys = (slots * COUNTED_OF_SLOT) as u64;
        let places = (keys * 8).div_ceil(7).next_power_of_two();
        let entry = size_of::<(Key, u32)>() as u64;
        places * (entry + 1) * 3 / 2 + keys * entry + 64
    }

    /// Mini-batch `number` comes next; whether it is one of the warm-up, whose keys are counted.
    pub(super) fn next(&mut self, number: u32) -> bool {
        if self.left == 0 {
            self.first.get_or_insert(number);
            return false;
        }
        self.left -= 1;
        true
    }

    /// Counts `keys` of a mini-batch of the warm-up, in `group` and on `device`.
    pub(super) fn count(&mut self, (group, device): (usize, usize), keys: &[Key]) {
        let counts = &mut self.counts[group][device];
        keys.iter().for_each(|key| counts.count(*key));
    }

    /// All keys of the mini-batches so far were counted.
    pub(super) fn counted(&mut self) {
        if self.left == 0 && self.first.is_none() {
            self.counts.iter_mut().flatten().for_each(Counts::choose);
        }
    }

    /// Whether the row of `key` may go up to `device`, after the warm-up.
    pub(super) fn may_go_up(&self, (group, device): (usize, usize), key: Key) -> bool {
        self.counts[group][device].of_keys.contains_key(&key)
    }

    fn is_before(&self, number: u32) -> bool {
        self.first.is_none_or(|first| number < first)
    }

    /// Whether mini-batch `number` has to wait for those of the warm-up.
    pub(super) fn waits(&self, number: u32) -> bool {
        !self.is_before(number) && self.before > 0 && self.rules.hold(Rule::WaitForBelow)
    }

    /// Mini-batch `number` is planned.
    pub(super) fn planned(&mut self, number: u32) {
        self.before += usize::from(self.is_before(number));
    }

    /// Mini-batch `number` is over.
    pub(super) fn retired(&mut self, number: u32) {
        self.before -= usize::from(self.is_before(number));
    }
}

#[cfg(test)]
mod tests;
