//! Next uses: for each known key, the next coming mini-batch that uses it.
//!
//! - **Why.** The row whose next use is farthest should be evicted first (Belady). Keys are known a
//!   horizon ahead, long before rows are held.
//! - **How.** Mini-batches are numbered in order, and each of their keys has a position. For each
//!   waiting position, `next` has the next mini-batch with the same key. A table of lines of eight
//!   words finds the latest position of a key: a word holds half of the key's hash above a
//!   position, and counts as vacant once that position was planned. So nothing is ever removed.
//! - **Failure.** None. It may forget a key whose line is full, often if the caller didn't provide
//!   enough room, and confuse two keys (once in 2^32). A row is then evicted sooner or later than
//!   is best. A public hash function selects the line, so this is the same in every run.
//! - **Cost.** 10 to 18 bytes per key of a waiting mini-batch; one cache line is touched.

use std::collections::VecDeque;

use stepwell_base::Key;
use stepwell_base::huge::HugeSlice;
use stepwell_base::prefetch::prefetch_at;

use crate::hash_lines::{WORDS, each_ahead, line_of, tag_of};

/// Code for no mini-batch.
const NEVER: u16 = 0;
/// Number of mini-batches that codes distinguish.
const CODES: u32 = u16::MAX as u32;
/// Initial number of words.
const WORDS_MIN: usize = 1 << 10;

/// The code of mini-batch `number` in `next`.
fn code_of(number: u32) -> u16 {
    (number % CODES) as u16 + 1
}

/// Keys of the mini-batches that were learned and are not planned yet.
#[derive(Debug)]
pub(crate) struct Future {
    words: HugeSlice<u64>, // (lines, WORDS)
    /// By position, the code of the next mini-batch that uses the same key.
    next: VecDeque<u16>,
    /// Position of the first entry of `next`.
    first: u32,
    waiting: VecDeque<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    number: u32,
    /// Number of positions of the mini-batch's keys; 0 if they were not learned.
    positions: usize,
}

impl Default for Future {
    fn default() -> Self {
        // A zero word counts as planned.
        let first = 1;
        let (words, next) = (HugeSlice::zeroed(WORDS_MIN), VecDeque::new());
        Self { words, next, first, waiting: VecDeque::new() }
    }
}

impl Future {
    /// Bytes for `keys` keys known ahead, of `mini_batches` mini-batches.
    pub(crate) fn bytes_max(keys: u64, mini_batches: u64) -> u64 {
        let words = (keys + keys / 2).max(WORDS_MIN as u64);
        // A list doubles when it grows, and the old one exists until it is copied.
        let lists = keys * size_of::<u16>() as u64 + mini_batches * size_of::<Waiting>() as u64;
        words * size_of::<u64>() as u64 + 3 * lists
    }

    /// Adds mini-batch `number` after all learned before, without learning its keys: no row has to
    /// be evicted before it.
    pub(crate) fn pass_over(&mut self, number: u32) {
        self.waiting.push_back(Waiting { number, positions: 0 });
    }

    /// Adds mini-batch `number` after all learned before, with its distinct `keys`; sets `fresh` to
    /// the keys that no waiting mini-batch has.
    pub(crate) fn learn<'k>(
        &mut self,
        number: u32,
        keys: impl Iterator<Item = &'k Key>,
        fresh: &mut Vec<Key>,
    ) {
        let (before, code) = (self.next.len(), code_of(number));
        fresh.clear();
        let ask = |of: &Self, hash| prefetch_at(&of.words, of.line(hash));
        each_ahead(self, keys.copied(), ask, |of, key, hash| {
            if !of.link(hash, code) {
                fresh.push(key);
            }
        });
        self.waiting.push_back(Waiting { number, positions: self.next.len() - before });
    }

    /// The oldest waiting mini-batch.
    pub(crate) fn oldest(&self) -> Option<u32> {
        self.waiting.front().map(|waiting| waiting.number)
    }

    /// Index of the first word of a hash's line.
    #[inline]
    fn line(&self, hash: u64) -> usize {
        line_of(hash, self.words.len() / WORDS) * WORDS
    }

    /// Assigns the next position to the key of `hash`, in the mini-batch of `code`; returns whether
    /// a waiting mini-batch has the key, too.
    #[inline]
    fn link(&mut self, hash: u64, code: u16) -> bool {
        let (line, tag, first) = (self.line(hash), tag_of(hash), self.first);
        let waiting = self.next.len() as u32;
        let word = tag << 32 | u64::from(first.wrapping_add(waiting));
        self.next.push_back(NEVER);
        let mut vacant = None;
        for place in &mut self.words[line..line + WORDS] {
            let before = (*place as u32).wrapping_sub(first);
            if before >= waiting {
                vacant = Some(place);
            } else if *place >> 32 == tag {
                self.next[before as usize] = code;
                *place = word;
                return true;
            }
        }
        if let Some(place) = vacant {
            *place = word;
        }
        false
    }

    /// Whether `keys` keys can be known at once.
    pub(crate) fn has_room_for(&self, keys: usize) -> bool {
        keys <= self.words.len()
    }

    /// Clears everything and makes room for at least `keys` keys.
    pub(crate) fn begin_anew(&mut self, keys: usize) {
        self.first = self.first.wrapping_add(self.next.len() as u32);
        self.next.clear();
        self.waiting.clear();
        if !self.has_room_for(keys) {
            // Free the old table first: both together would exceed the bound.
            self.words = HugeSlice::zeroed(0);
            self.words = HugeSlice::zeroed((keys + keys / 2) / WORDS * WORDS);
        }
    }

    /// Removes the oldest waiting mini-batch, which must be `number`, because it is planned now;
    /// sets `next` to the codes of its keys for [`Future::known`], or to nothing if they were not
    /// learned.
    pub(crate) fn take(&mut self, number: u32, next: &mut Vec<u16>) {
        let oldest = self.waiting.pop_front();
        let oldest = oldest.filter(|waiting| waiting.number == number);
        assert!(oldest.is_some(), "mini-batch {number} is planned out of order");
        let positions = oldest.map_or(0, |waiting| waiting.positions);
        next.clear();
        next.extend(self.next.drain(..positions));
        self.first = self.first.wrapping_add(positions as u32);
    }

    /// Decodes `code`: the mini-batch after `number` that uses a key next.
    #[inline]
    pub(crate) fn known(number: u32, code: u16) -> Option<u32> {
        let ahead = (u32::from(code) + 2 * CODES - 1 - number % CODES) % CODES;
        (code != NEVER).then(|| number + ahead)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(of: &[u64]) -> Vec<Key> {
        of.iter().copied().map(Key).collect()
    }

    /// Learns a mini-batch and returns its fresh keys.
    fn learn(future: &mut Future, number: u32, of: &[u64]) -> Vec<u64> {
        let mut fresh = Vec::new();
        future.learn(number, keys(of).iter(), &mut fresh);
        fresh.iter().map(|key| key.0).collect()
    }

    fn take(future: &mut Future, number: u32) -> Vec<Option<u32>> {
        let mut next = Vec::new();
        future.take(number, &mut next);
        next.into_iter().map(|code| Future::known(number, code)).collect()
    }

    #[test]
    fn each_key_knows_its_next_mini_batch() {
        let mut future = Future::default();
        assert_eq!(learn(&mut future, 0, &[1, 2]), [1, 2]);
        assert_eq!(learn(&mut future, 1, &[2, 3]), [3]);
        assert!(learn(&mut future, 2, &[1, 2]).is_empty());
        assert_eq!(take(&mut future, 0), [Some(2), Some(1)]);
        assert_eq!(take(&mut future, 1), [Some(2), None]);
        assert_eq!(learn(&mut future, 3, &[2, 3]), [3], "planned mini-batches no longer count");
        assert_eq!(take(&mut future, 2), [None, Some(3)]);
        assert_eq!(take(&mut future, 3), [None, None]);
        assert!(future.next.is_empty());
    }

    #[test]
    fn following_may_begin_late() {
        let mut future = Future::default();
        future.pass_over(0);
        learn(&mut future, 1, &[1]);
        learn(&mut future, 2, &[1]);
        assert_eq!(take(&mut future, 0), []);
        assert_eq!(take(&mut future, 1), [Some(2)]);
    }

    #[test]
    fn codes_come_around_and_so_do_positions() {
        for first in [0, CODES - 2, CODES - 1, CODES, 3 * CODES - 1] {
            for ahead in [1, 2, 77, CODES - 2] {
                let number = first + ahead;
                assert_eq!(Future::known(first, code_of(number)), Some(number));
            }
        }
        let mut future = Future { first: u32::MAX - 1, ..Future::default() };
        for number in CODES - 2..CODES + 3 {
            learn(&mut future, number, &[1, 2]);
        }
        for number in CODES - 2..CODES + 2 {
            assert_eq!(take(&mut future, number), [Some(number + 1); 2]);
        }
        assert_eq!(take(&mut future, CODES + 2), [None; 2]);
    }

    /// Compared to a plain list, few keys are forgotten, no two are confused, and the bytes stay
    /// within the bound.
    #[test]
    fn agrees_with_a_plain_list_but_for_few() {
        const KEYS: usize = 3000;
        const AHEAD: usize = 8;
        let mut future = Future::default();
        future.begin_anew((AHEAD + 1) * KEYS);
        let mut random = stepwell_base::random::Stream::named(1, b"future");
        let (mut uses, mut known, mut forgotten) = (Vec::<Vec<u64>>::new(), 0, 0);
        for number in 0..300 {
            let drawn = (0..KEYS).map(|_| random.next_u64() % (4 * KEYS as u64));
            let mut batch: Vec<u64> = drawn.collect();
            batch.sort_unstable();
            batch.dedup();
            learn(&mut future, number, &batch);
            uses.push(batch);
            let Some(number) = number.checked_sub(AHEAD as u32) else { continue };
            let found = take(&mut future, number);
            for (key, found) in uses[number as usize].iter().zip(found) {
                let is_used = |batch: &&Vec<u64>| batch.binary_search(key).is_ok();
                let later = &uses[number as usize + 1..];
                let next = later.iter().take_while(|batch| !is_used(batch)).count();
                let next = (next < later.len()).then(|| number + 1 + next as u32);
                assert!(found.is_none() || found == next, "key {key}");
                known += 1;
                forgotten += u64::from(found != next);
            }
        }
        assert!(forgotten * 100 < known, "{forgotten} of {known}");
        let taken = future.words.len() * 8 + future.next.capacity() * 2;
        assert!(
            taken as u64 <= Future::bytes_max(((AHEAD + 1) * KEYS) as u64, AHEAD as u64 + 1),
            "{taken}"
        );
    }
}
