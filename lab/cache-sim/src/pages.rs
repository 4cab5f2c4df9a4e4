//! Rows below the slab: the pages to which they are evicted, and the reads that bring them back.
//!
//! - **How.** Rows are written in the order of their eviction, a fixed number per page. A miss of a
//!   written row reads the unit of neighboring pages that contains it; misses of a mini-batch in
//!   the same unit share the read. A key without a previous use has no row, and a row on the page
//!   that is being filled is in memory: neither costs a read.
//! - **Basket.** Other rows of a read are kept if their key is known within the horizon and has no
//!   slot; its miss then costs no read, and takes the row from the basket. If the basket is full,
//!   the row with the farthest next use is dropped.
//! - **Not modeled.** Compaction: older versions stay on their pages forever. Writes in progress,
//!   except for one page. Mini-batches that are planned while others train, and hold slots.
//!   Unmodified rows, which a trainer doesn't write again.
//! - **Bounds.** 4 bytes per evicted row, 10 bytes per key and 4 per slot; 8 bytes per row in the
//!   basket, plus tree nodes.
//! - **Cost.** Examines each row of every unit read, if there is a basket.

use std::collections::BTreeSet;

use serde::Serialize;

/// No place, or no next use.
const NONE: u32 = u32::MAX;

/// Pages of reads, and rows kept from them.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ReadOptions {
    /// Rows per page.
    pub rows_per_page: usize,
    /// Pages per read.
    pub read_unit: usize,
    /// Capacity of the basket in rows; 0 for none.
    pub harvest: usize,
}

impl ReadOptions {
    /// Default rows per page. A page of 4 KiB has 26 rows of 136 bytes, 28 of 128.
    pub const ROWS_PER_PAGE: usize = 27;
    /// Most rows per page, and most pages per read.
    pub(super) const MOST: usize = 1 << 20;
}

/// Reads of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Reads {
    /// Misses of rows that had been written.
    pub refills: u64,
    /// Reads for these misses, of one unit each.
    pub reads: u64,
    /// Reads divided by accesses of the trace.
    pub reads_per_access: f64,
    /// Rows put into the basket.
    pub harvested: u64,
    /// Rows that a miss took from the basket.
    pub used: u64,
    /// Rows that found the basket full, or were dropped for others.
    pub dropped: u64,
}

/// The pages below a slab, and the basket.
#[derive(Debug)]
pub(super) struct Pages {
    options: ReadOptions,
    /// Mini-batches known ahead.
    horizon: u32,
    /// Ids of the rows in the order in which they were written.
    written: Vec<u32>,
    /// Per id, the position of its newest version in that order.
    place: Vec<u32>,
    /// Per id, the mini-batch that uses it next.
    next: Vec<u32>,
    /// Per id, whether it has a slot, and whether it is in the basket.
    held: Vec<bool>,
    waits: Vec<bool>,
    /// Per slot, the id in it.
    lies: Vec<u32>,
    /// Next uses and ids of the basket.
    basket: BTreeSet<(u32, u32)>,
    /// Units that the current mini-batch reads.
    units: Vec<usize>,
    count: Reads,
}

impl Pages {
    pub(super) fn new(options: ReadOptions, keys: usize, slots: usize, horizon: usize) -> Self {
        Self {
            options,
            horizon: horizon as u32,
            written: Vec::new(),
            place: vec![NONE; keys],
            next: vec![NONE; keys],
            held: vec![false; keys],
            waits: vec![false; keys],
            lies: vec![NONE; slots],
            basket: BTreeSet::new(),
            units: Vec::new(),
            count: Reads::default(),
        }
    }

    /// Mini-batch `number` misses the row of `id`.
    pub(super) fn miss(&mut self, number: u32, id: u32) {
        let at = id as usize;
        let place = self.place[at];
        if place == NONE {
            return;
        }
        self.count.refills += 1;
        if self.waits[at] {
            self.waits[at] = false;
            self.basket.remove(&(number, id));
            self.count.used += 1;
        } else if (place as usize) < self.whole() {
            self.units.push(place as usize / self.unit_rows());
        }
    }

    /// Performs the reads for the misses of mini-batch `number`.
    pub(super) fn read(&mut self, number: u32) {
        let mut units = std::mem::take(&mut self.units);
        units.sort_unstable();
        units.dedup();
        self.count.reads += units.len() as u64;
        if self.options.harvest > 0 && self.horizon > 0 {
            units.iter().for_each(|unit| self.harvest(number, *unit));
        }
        units.clear();
        self.units = units;
    }

    /// Adds the useful rows of a unit to the basket.
    fn harvest(&mut self, number: u32, unit: usize) {
        let first = unit * self.unit_rows();
        let end = self.whole().min(first + self.unit_rows());
        for place in first..end {
            let id = self.written[place];
            let (at, next) = (id as usize, self.next[id as usize]);
            let is_known = number < next && next - number <= self.horizon;
            let is_live = self.place[at] as usize == place && !self.held[at] && !self.waits[at];
            if is_known && is_live {
                self.keep(next, id);
            }
        }
    }

    fn keep(&mut self, next: u32, id: u32) {
        if self.basket.len() == self.options.harvest {
            self.count.dropped += 1;
            match self.basket.last() {
                Some((last, _)) if *last > next => {}
                _ => return,
            }
            if let Some((_, gone)) = self.basket.pop_last() {
                self.waits[gone as usize] = false;
            }
        }
        self.waits[id as usize] = true;
        self.basket.insert((next, id));
        self.count.harvested += 1;
    }

    /// Puts the row of `id` in `slot`, and writes the previous one.
    pub(super) fn came(&mut self, slot: usize, id: u32) {
        let left = std::mem::replace(&mut self.lies[slot], id);
        if left != NONE {
            self.held[left as usize] = false;
            self.place[left as usize] = self.written.len() as u32;
            self.written.push(left);
        }
        self.held[id as usize] = true;
    }

    /// Sets the next mini-batch that uses `id`.
    pub(super) fn expect(&mut self, id: u32, next: Option<u32>) {
        self.next[id as usize] = next.unwrap_or(NONE);
    }

    /// The counters, over `accesses` accesses.
    pub(super) fn count(&self, accesses: usize) -> Reads {
        let reads_per_access = self.count.reads as f64 / accesses.max(1) as f64;
        Reads { reads_per_access, ..self.count }
    }

    fn unit_rows(&self) -> usize {
        self.options.rows_per_page * self.options.read_unit
    }

    /// Rows on complete pages.
    fn whole(&self) -> usize {
        self.written.len() - self.written.len() % self.options.rows_per_page
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use crate::Candidate;
    use stepwell_base::random::Stream;

    use super::super::known;
    use super::super::sequence::Sequence;
    use super::super::trace::Trace;
    use super::*;

    /// Mini-batches of distinct keys, some of them hot.
    fn batches(seed: u64, count: usize, size: usize, keys: u32) -> Vec<Vec<u32>> {
        let mut random = Stream::from_state(seed);
        let mut batch = || {
            let mut batch = Vec::new();
            while batch.len() < size {
                let part = random.next_f64();
                let key = (part * part * f64::from(keys)) as u32;
                if !batch.contains(&key) {
                    batch.push(key);
                }
            }
            batch
        };
        (0..count).map(|_| batch()).collect()
    }

    /// A naive model: pages are lists, and so are an LRU cache and the basket.
    struct Plain<'a> {
        batches: &'a [Vec<u32>],
        options: ReadOptions,
        horizon: usize,
        pages: Vec<Vec<u32>>,
        recent: Vec<u32>,
        basket: Vec<u32>,
        count: Reads,
    }

    impl Plain<'_> {
        fn next(&self, key: u32, number: usize) -> usize {
            let later = &self.batches[number + 1..];
            later.iter().position(|batch| batch.contains(&key)).map_or(usize::MAX, |at| at + 1)
        }

        fn is_whole(&self, page: usize) -> bool {
            self.pages.get(page).is_some_and(|page| page.len() == self.options.rows_per_page)
        }

        fn page_of(&self, key: u32) -> Option<usize> {
            self.pages.iter().rposition(|page| page.contains(&key))
        }

        fn misses(&mut self, missing: &[u32], number: usize) {
            let (unit, mut units) = (self.options.read_unit, BTreeSet::new());
            for key in missing {
                let Some(page) = self.page_of(*key) else { continue };
                self.count.refills += 1;
                if self.basket.contains(key) {
                    self.basket.retain(|waits| waits != key);
                    self.count.used += 1;
                } else if self.is_whole(page) {
                    units.insert(page / unit);
                }
            }
            self.count.reads += units.len() as u64;
            for page in units.into_iter().flat_map(|of| of * unit..(of + 1) * unit) {
                if self.is_whole(page) && self.options.harvest > 0 {
                    self.harvest(page, number);
                }
            }
        }

        fn harvest(&mut self, page: usize, number: usize) {
            for key in self.pages[page].clone() {
                let is_here = self.recent.contains(&key) || self.batches[number].contains(&key);
                let next = self.next(key, number);
                let is_live = self.page_of(key) == Some(page) && !self.basket.contains(&key);
                if is_here || !is_live || next > self.horizon {
                    continue;
                }
                if self.basket.len() == self.options.harvest {
                    self.count.dropped += 1;
                    let use_of = |key: &u32| (self.next(*key, number), *key);
                    let last = self.basket.iter().copied().max_by_key(use_of).unwrap();
                    if self.next(last, number) <= next {
                        continue;
                    }
                    self.basket.retain(|key| *key != last);
                }
                self.basket.push(key);
                self.count.harvested += 1;
            }
        }

        /// Uses the mini-batch, and writes evicted rows.
        fn use_all(&mut self, number: usize, slots: usize) -> Vec<u32> {
            let batch = &self.batches[number];
            self.recent.retain(|key| !batch.contains(key));
            self.recent.extend(batch);
            let over = self.recent.len().saturating_sub(slots);
            let left: Vec<u32> = self.recent.drain(..over).collect();
            for key in &left {
                match self.pages.last_mut() {
                    Some(page) if page.len() < self.options.rows_per_page => page.push(*key),
                    _ => self.pages.push(vec![*key]),
                }
            }
            left
        }
    }

    /// Counts of both models, for the same evicted rows.
    fn both(
        batches: &[Vec<u32>],
        slots: usize,
        horizon: usize,
        options: ReadOptions,
    ) -> [Reads; 2] {
        let (pages, recent, basket, count) = Default::default();
        let mut plain = Plain { batches, options, horizon, pages, recent, basket, count };
        let mut ours = Pages::new(options, 1000, slots, horizon);
        let (mut slot_of, mut fresh) = (vec![0; 1000], 0);
        for (number, batch) in batches.iter().enumerate() {
            let here = |key: &&u32| !plain.recent.contains(key);
            let missing: Vec<u32> = batch.iter().filter(here).copied().collect();
            plain.misses(&missing, number);
            missing.iter().for_each(|key| ours.miss(number as u32, *key));
            ours.read(number as u32);
            let mut left = plain.use_all(number, slots).into_iter();
            for key in missing {
                let slot = if fresh < slots {
                    fresh += 1;
                    fresh - 1
                } else {
                    slot_of[left.next().unwrap() as usize]
                };
                slot_of[key as usize] = slot;
                ours.came(slot, key);
            }
            for key in batch {
                let next = plain.next(*key, number);
                ours.expect(*key, (next < usize::MAX).then(|| (number + next) as u32));
            }
        }
        [plain.count, ours.count(0)].map(|count| Reads { reads_per_access: 0.0, ..count })
    }

    #[test]
    fn reads_are_those_of_a_plain_model() {
        let (mut used, mut dropped) = (0, 0);
        for (seed, rows_per_page, read_unit) in [(1, 1, 1), (2, 4, 1), (3, 5, 3), (4, 9, 2)] {
            let batches = batches(seed, 300, 8, 120);
            for (harvest, horizon) in [(0, 0), (0, 9), (3, 9), (40, 9), (1000, 40)] {
                let options = ReadOptions { rows_per_page, read_unit, harvest };
                for slots in [8, 30, 119] {
                    let [plain, ours] = both(&batches, slots, horizon, options);
                    assert_eq!(plain, ours, "{options:?}, {slots} slots");
                    used += ours.used;
                    dropped += ours.dropped;
                }
            }
        }
        assert!(used > 0 && dropped > 0, "{used} used, {dropped} dropped");
    }

    #[test]
    fn a_cache_tells_of_what_leaves_it() {
        let batches = batches(5, 1000, 1, 90);
        let keys = batches.iter().flatten().map(|key| u64::from(*key)).collect();
        let sequence = Sequence::new(&Trace { keys, positive: Vec::new() }, 1);
        for (rows_per_page, read_unit) in [(1, 1), (4, 2)] {
            let options = ReadOptions { rows_per_page, read_unit, harvest: 0 };
            let [plain, _] = both(&batches, 20, 0, options);
            let run = |horizon, harvest| {
                let options = ReadOptions { harvest, ..options };
                known::run(&sequence, 20, Candidate::Lru, horizon, Some(options)).unwrap()
            };
            let found = run(0, 0).reads.unwrap();
            assert!((found.reads_per_access - plain.reads as f64 / 1000.0).abs() < 1e-12);
            assert_eq!(Reads { reads_per_access: 0.0, ..found }, plain);
            // Harvesting takes no slots, so it changes no hits.
            let (bare, basket) = (run(50, 0), run(50, 1000));
            assert_eq!(bare.hits, basket.hits);
            let [bare, basket] = [bare, basket].map(|outcome| outcome.reads.unwrap());
            assert_eq!(bare.refills, basket.refills);
            assert_eq!(basket.reads < bare.reads, rows_per_page > 1, "{basket:?} {bare:?}");
            assert_eq!(basket.dropped, 0);
        }
    }
}
