//! Which keys will be used soon and have no slot: what one thread knows and another one asks.
//!
//! How       A table of lines of eight words, each a part of a key's hash and the number of the
//!           next mini-batch that has the key. A key has one line; where that is full of later
//!           mini-batches, it is left out.
//!           Lines go by a published function: somebody who chose keys that meet in a line would
//!           gain that they are forgotten.
//! Failure   None: it may forget a key, or take another one for it. Then a row is not brought up
//!           beside others, or one that nobody wants is.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use stepwell_base::Key;
use stepwell_base::prefetch::prefetch_at;
use stepwell_base::scatter::Scatter;
use stepwell_ssd::Wanted;

use crate::lines::{AT_ONCE, WORDS, line_of, tag_of};

#[derive(Debug, Default)]
#[repr(align(64))]
struct Line([AtomicU64; WORDS]);

/// Keys of coming mini-batches.
#[derive(Debug)]
pub(crate) struct Outlook {
    scatter: Scatter,
    /// The first mini-batch that was not planned yet.
    now: AtomicU32,
    /// Rows that are used from this mini-batch on would find no room.
    until: AtomicU32,
    lines: Box<[Line]>,
}

/// A word: the upper half of the hash above the number of the mini-batch; 0 for none, since
/// numbers are counted from 1 here.
fn word(hash: u64, number: u32) -> u64 {
    tag_of(hash) << 32 | u64::from(number + 1)
}

impl Outlook {
    /// Bytes of a key at most.
    pub(crate) const KEY_BYTES: usize = size_of::<u64>();

    /// One with room for about `keys` keys.
    pub(super) fn new(keys: usize) -> Self {
        let lines = (keys / WORDS).max(1);
        let lines = (0..lines).map(|_| Line::default()).collect();
        let (now, until) = (AtomicU32::new(0), AtomicU32::new(u32::MAX));
        Self { scatter: Scatter::KNOWN, now, until, lines }
    }

    fn line(&self, hash: u64) -> usize {
        line_of(hash, self.lines.len())
    }

    /// Mini-batch `number` uses `keys` next, which have no slot.
    pub(crate) fn learn(&self, number: u32, keys: impl Iterator<Item = Key>) {
        let now = self.now.load(Ordering::Relaxed);
        for key in keys {
            let hash = self.scatter.of(key);
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
            }
        }
    }

    /// Mini-batch `number` was planned.
    pub(crate) fn planned(&self, number: u32) {
        self.now.store(number + 1, Ordering::Relaxed);
    }

    /// Rows that are used from mini-batch `until` on would find no room.
    pub(crate) fn look_until(&self, until: u32) {
        self.until.store(until, Ordering::Relaxed);
    }

    /// The first mini-batch that was not planned yet.
    pub(crate) fn now(&self) -> u32 {
        self.now.load(Ordering::Relaxed)
    }

    /// The next mini-batch that uses `key`, as far as is known.
    pub(crate) fn next_use(&self, key: Key) -> Option<u32> {
        let hash = self.scatter.of(key);
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
        let until = self.until.load(Ordering::Relaxed);
        let mut hashes = [0; AT_ONCE];
        for (number, keys) in keys.chunks(AT_ONCE).enumerate() {
            for (key, hash) in keys.iter().zip(&mut hashes) {
                *hash = self.scatter.of(*key);
                prefetch_at(&self.lines, self.line(*hash));
            }
            for (at, hash) in hashes.iter().enumerate().take(keys.len()) {
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
