//! Keys that will be used soon and have no slot, written by one thread and read by another.
//!
//! - **How.** A table of lines of eight words, each a part of a key's hash and the number of the
//!   next mini-batch with the key. A key has one line; if that is full of later mini-batches, the
//!   key is left out. Most keys looked up are not wanted, so a filter avoids reading lines: for
//!   each value of some hash bits, two bytes hold the last mini-batch that wants such a key. A
//!   public hash function selects the line: an attacker's colliding keys are only forgotten.
//! - **Failure.** None. It may forget a key, or confuse two. Then a wanted row is not harvested, or
//!   an unwanted one is.

use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};

use stepwell_base::Key;
use stepwell_base::prefetch::prefetch_at;
use stepwell_base::scatter::Scatter;
use stepwell_ssd::Wanted;

use crate::hash_lines::{AT_ONCE, WORDS, each_ahead, line_of, tag_of};

/// Filter entries per key, or half as many.
const LAST_PER_KEY: usize = 2;
/// Number of mini-batches that 16 bits distinguish.
const CODES: u32 = u16::MAX as u32;

#[derive(Debug, Default)]
#[repr(align(64))]
struct Line([AtomicU64; WORDS]);

/// Keys of coming mini-batches.
#[derive(Debug)]
pub(crate) struct Outlook {
    /// The first mini-batch that was not planned yet.
    now: AtomicU32,
    /// Rows used from this mini-batch on would find no room.
    until: AtomicU32,
    lines: Box<[Line]>,
    /// By hash bits, code of the last mini-batch that uses such a key.
    last: Box<[AtomicU16]>, // a power of two
}

/// A word: the upper half of the hash above the mini-batch's number plus 1; 0 if vacant.
fn word(hash: u64, number: u32) -> u64 {
    tag_of(hash) << 32 | u64::from(number + 1)
}

impl Outlook {
    /// Maximum bytes of a key.
    pub(crate) const KEY_BYTES: usize = size_of::<u64>() + LAST_PER_KEY * size_of::<u16>();

    /// An outlook with room for about `keys` keys.
    pub(super) fn new(keys: usize) -> Self {
        let lines = (keys / WORDS).max(1);
        let lines = (0..lines).map(|_| Line::default()).collect();
        let last = 1 << (keys * LAST_PER_KEY).max(1).ilog2();
        let last = (0..last).map(|_| AtomicU16::new(0)).collect();
        let (now, until) = (AtomicU32::new(0), AtomicU32::new(u32::MAX));
        Self { now, until, lines, last }
    }

    /// Index in `last` for a hash.
    #[inline]
    fn last_at(&self, hash: u64) -> usize {
        // The upper half of the hash is a word's tag; these bits come from both halves.
        (hash >> 16) as usize & (self.last.len() - 1)
    }

    /// The code of mini-batch `number` in `last`; never 0.
    #[inline]
    fn code(number: u32) -> u16 {
        (number % CODES) as u16 + 1
    }

    /// Distance from the mini-batch of code `now`, the first that was not planned, to that of
    /// `last`; `None` if that has passed.
    #[inline]
    fn ahead(last: u16, now: u16) -> Option<u32> {
        let ahead = (u32::from(last) + CODES - u32::from(now)) % CODES;
        (last != 0 && ahead < CODES / 2).then_some(ahead)
    }

    /// Records that mini-batch `number` uses a key with this hash.
    #[inline]
    fn note(&self, hash: u64, number: u32) {
        let (place, now) = (&self.last[self.last_at(hash)], Self::code(self.now()));
        let (code, known) = (Self::code(number), place.load(Ordering::Relaxed));
        if Self::ahead(code, now) > Self::ahead(known, now) {
            place.store(code, Ordering::Relaxed);
        }
    }

    fn line(&self, hash: u64) -> usize {
        line_of(hash, self.lines.len())
    }

    /// Learns that mini-batch `number` uses `keys` next, which have no slot.
    pub(crate) fn learn(&self, number: u32, keys: impl Iterator<Item = Key>) {
        let ask = |of: &&Self, hash| {
            prefetch_at(&of.lines, of.line(hash));
            prefetch_at(&of.last, of.last_at(hash));
        };
        each_ahead(&mut &*self, keys, ask, |of, _, hash| of.learn_one(number, hash));
    }

    /// Learns that mini-batch `number` uses `key` next, whose row is evicted.
    pub(crate) fn learn_evicted(&self, number: u32, key: Key) {
        self.learn_one(number, Scatter::KNOWN.of(key));
    }

    fn learn_one(&self, number: u32, hash: u64) {
        let now = self.now();
        let line = &self.lines[self.line(hash)].0;
        let mut vacant = None;
        let mut is_known = false;
        for place in line {
            let known = place.load(Ordering::Relaxed);
            let is_over = known as u32 <= now;
            is_known |= !is_over && known >> 32 == tag_of(hash);
            if is_over {
                vacant = vacant.or(Some(place));
            }
        }
        if let (false, Some(place)) = (is_known, vacant) {
            place.store(word(hash, number), Ordering::Relaxed);
            self.note(hash, number);
        }
    }

    /// Records that mini-batch `number` was planned.
    pub(crate) fn planned(&self, number: u32) {
        self.now.store(number + 1, Ordering::Relaxed);
    }

    /// Sets the mini-batch from which on used rows would find no room.
    pub(crate) fn look_until(&self, until: u32) {
        self.until.store(until, Ordering::Relaxed);
    }

    /// The first mini-batch that was not planned yet.
    pub(crate) fn now(&self) -> u32 {
        self.now.load(Ordering::Relaxed)
    }

    /// The next mini-batch that uses `key`, if known.
    pub(crate) fn next_use(&self, key: Key) -> Option<u32> {
        let hash = Scatter::KNOWN.of(key);
        self.next_use_in(&self.lines[self.line(hash)], hash)
    }

    #[inline]
    fn next_use_in(&self, line: &Line, hash: u64) -> Option<u32> {
        let (tag, now) = (tag_of(hash), self.now.load(Ordering::Relaxed));
        let words = line.0.iter().map(|word| word.load(Ordering::Relaxed));
        let mut wanted = words.filter(|word| word >> 32 == tag && *word as u32 > now);
        wanted.next().map(|word| word as u32 - 1)
    }
}

impl Wanted for Outlook {
    fn look(&self, keys: &[Key], found: &mut dyn FnMut(usize)) {
        let (until, now) = (self.until.load(Ordering::Relaxed), Self::code(self.now()));
        let mut hashes = [0; AT_ONCE];
        let mut maybe = [0; AT_ONCE];
        for (number, keys) in keys.chunks(AT_ONCE).enumerate() {
            for (key, hash) in keys.iter().zip(&mut hashes) {
                *hash = Scatter::KNOWN.of(*key);
                prefetch_at(&self.last, self.last_at(*hash));
            }
            let mut count = 0;
            for (at, hash) in hashes.iter().enumerate().take(keys.len()) {
                let last = self.last[self.last_at(*hash)].load(Ordering::Relaxed);
                if Self::ahead(last, now).is_some() {
                    prefetch_at(&self.lines, self.line(*hash));
                    maybe[count] = at;
                    count += 1;
                }
            }
            for at in &maybe[..count] {
                let (at, hash) = (*at, &hashes[*at]);
                let next = self.next_use_in(&self.lines[self.line(*hash)], *hash);
                if next.is_some_and(|next| next < until) {
                    found(number * AT_ONCE + at);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_wanted_until_its_mini_batch_is_planned() {
        let outlook = Outlook::new(1 << 10);
        outlook.learn(0, [1, 2].map(Key).into_iter());
        outlook.learn(1, [2, 3].map(Key).into_iter());
        let uses = || [1, 2, 3, 4].map(|key| outlook.next_use(Key(key)));
        assert_eq!(uses(), [Some(0), Some(0), Some(1), None]);
        let mut wanted = Vec::new();
        outlook.look(&[4, 3, 1].map(Key), &mut |at| wanted.push(at));
        assert_eq!(wanted, [1, 2]);
        outlook.planned(0);
        assert_eq!(uses(), [None, None, Some(1), None]);
        outlook.learn(2, [2, 1].map(Key).into_iter());
        assert_eq!(uses(), [Some(2), Some(2), Some(1), None]);
        outlook.planned(2);
        assert_eq!(uses(), [None; 4]);
    }

    #[test]
    fn what_finds_no_room_is_left_out() {
        let outlook = Outlook::new(1);
        outlook.learn(7, (0..100).map(Key));
        let wanted = (0..100).filter(|key| outlook.next_use(Key(*key)).is_some()).count();
        assert_eq!(wanted, WORDS);
        outlook.planned(7);
        outlook.learn(8, (50..100).map(Key));
        let wanted = (0..100).filter(|key| outlook.next_use(Key(*key)) == Some(8)).count();
        assert_eq!(wanted, WORDS);
    }
}
