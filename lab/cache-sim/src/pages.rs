//! Rows below the slab: the pages that they leave to, and the reads that bring them back.
//!
//! - **How.** Rows that leave the slab are written in that order, so many to a page. A miss of a
//!   row that was written reads the unit of neighbouring pages that it lies in; misses of a
//!   mini-batch in the same unit share the read. A key that was never used before has no row, and
//!   one on the page that is being filled is in memory: neither costs a read.
//! - **Basket.** What a read brings beside is kept where its key is known within the window and it
//!   has no slot; its miss then costs no read, and it goes. Where the basket is full, the row of
//!   the farthest next use is dropped.
//! - **Left out.** Compaction: older versions stay on their pages for ever. Writes on their way,
//!   but for one page. Mini-batches that are planned while others train, which hold slots. Rows
//!   that nothing changed, which a trainer does not write again.
//! - **Bounds.** 4 bytes a row that leaves, 10 bytes a key and 4 a slot; 8 bytes and a tree's share
//!   a row of the basket.
//! - **Cost.** A look at each row of a unit that is read, where there is a basket.

use std::collections::BTreeSet;

use serde::Serialize;

/// Where nothing lies, and what no mini-batch uses.
const NONE: u32 = u32::MAX;

/// What reads bring.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ReadOptions {
    /// Rows of a page.
    pub rows_per_page: usize,
    /// Pages of a read.
    pub read_unit: usize,
    /// Rows that the basket holds, 0 for none.
    pub harvest: usize,
}

impl ReadOptions {
    /// Rows of a page unless told otherwise. A page of 4 KiB has 26 of 136 bytes, 28 of 128.
    pub const ROWS_PER_PAGE: usize = 27;
    /// Rows of a page and pages of a read at most.
    pub(super) const MOST: usize = 1 << 20;
}

/// Reads of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Reads {
    /// Misses of rows that had been written.
    pub refills: u64,
    /// Reads for them, of one unit each.
    pub reads: u64,
    /// Reads over the accesses of the trace.
    pub reads_per_access: f64,
    /// Rows that were put into the basket.
    pub harvested: u64,
    /// Those of them that a miss took.
    pub used: u64,
    /// Rows that found no room in it, or gave it to others.
    pub dropped: u64,
}

/// The pages below a slab, and the basket.
#[derive(Debug)]
pub(super) struct Pages {
    options: ReadOptions,
    /// Mini-batches that are known ahead.
    window: u32,
    /// Ids of the rows in the order in which they were written.
    written: Vec<u32>,
    /// Per id, where its newest version is in that order.
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
    /// Units that the mini-batch at hand reads.
    units: Vec<usize>,
    count: Reads,
}

impl Pages {
    pub(super) fn new(options: ReadOptions, keys: usize, slots: usize, window: usize) -> Self {
        Self {
            options,
            window: window as u32,
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

    /// Reads what the misses of mini-batch `number` need.
    pub(super) fn read(&mut self, number: u32) {
        let mut units = std::mem::take(&mut self.units);
        units.sort_unstable();
        units.dedup();
        self.count.reads += units.len() as u64;
        if self.options.harvest > 0 && self.window > 0 {
            units.iter().for_each(|unit| self.harvest(number, *unit));
        }
        units.clear();
        self.units = units;
    }

    /// Keeps what is wanted of a unit.
    fn harvest(&mut self, number: u32, unit: usize) {
        let first = unit * self.unit_rows();
        let end = self.whole().min(first + self.unit_rows());
        for place in first..end {
            let id = self.written[place];
            let (at, next) = (id as usize, self.next[id as usize]);
            let is_known = number < next && next - number <= self.window;
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

    /// The row of `id` came into `slot`: what lay there is written.
    pub(super) fn came(&mut self, slot: usize, id: u32) {
        let left = std::mem::replace(&mut self.lies[slot], id);
        if left != NONE {
            self.held[left as usize] = false;
            self.place[left as usize] = self.written.len() as u32;
            self.written.push(left);
        }
        self.held[id as usize] = true;
    }

    /// Mini-batch `next` is the next to use `id`.
    pub(super) fn expect(&mut self, id: u32, next: Option<u32>) {
        self.next[id as usize] = next.unwrap_or(NONE);
    }

    /// What was counted over so many accesses.
    pub(super) fn count(&self, accesses: usize) -> Reads {
        let reads_per_access = self.count.reads as f64 / accesses.max(1) as f64;
        Reads { reads_per_access, ..self.count }
    }

    fn unit_rows(&self) -> usize {
        self.options.rows_per_page * self.options.read_unit
    }

    /// Rows on whole pages.
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

    /// A plain model: pages are lists, and so are a cache, which the row used longest ago leaves,
    /// and the basket.
    struct Plain<'a> {
        batches: &'a [Vec<u32>],
        options: ReadOptions,
        window: usize,
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
                if is_here || !is_live || next > self.window {
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

        /// The mini-batch is used; what leaves for it is written.
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

    /// What both count; they are told of the same rows that leave.
    fn both(batches: &[Vec<u32>], slots: usize, window: usize, options: ReadOptions) -> [Reads; 2] {
        let (pages, recent, basket, count) = Default::default();
        let mut plain = Plain { batches, options, window, pages, recent, basket, count };
        let mut ours = Pages::new(options, 1000, slots, window);
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
            for (harvest, window) in [(0, 0), (0, 9), (3, 9), (40, 9), (1000, 40)] {
                let options = ReadOptions { rows_per_page, read_unit, harvest };
                for slots in [8, 30, 119] {
                    let [plain, ours] = both(&batches, slots, window, options);
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
            let run = |window, harvest| {
                let options = ReadOptions { harvest, ..options };
                known::run(&sequence, 20, Candidate::Lru, window, Some(options)).unwrap()
            };
            let found = run(0, 0).reads.unwrap();
            assert!((found.reads_per_access - plain.reads as f64 / 1000.0).abs() < 1e-12);
            assert_eq!(Reads { reads_per_access: 0.0, ..found }, plain);
            // Harvesting takes no slot, so it changes no hit.
            let (bare, basket) = (run(50, 0), run(50, 1000));
            assert_eq!(bare.hits, basket.hits);
            let [bare, basket] = [bare, basket].map(|outcome| outcome.reads.unwrap());
            assert_eq!(bare.refills, basket.refills);
            assert_eq!(basket.reads < bare.reads, rows_per_page > 1, "{basket:?} {bare:?}");
            assert_eq!(basket.dropped, 0);
        }
    }
}
