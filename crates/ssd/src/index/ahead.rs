//! Iterates over many keys and prefetches the memory of each.
//!
//! - **How.** A key's shard header is prefetched `2 * AHEAD` keys ahead, its buckets `AHEAD` keys
//!   ahead, when the header has arrived. The buckets and tags computed then are kept until the
//!   key's turn.
//! - **Invariants.**
//!   - SSD-I14: a shard that grew between a key's prefetch and its turn is noticed by its number of
//!     buckets; the key's probes are then computed again.

use stepwell_base::Key;
use stepwell_base::prefetch::prefetch;

use super::bits::Probe;
use super::shard::Shard;
use super::{Index, permute};

/// Number of keys between the prefetch of a line and its use.
pub(super) const AHEAD: usize = 16;

/// A key's shard and probes in the index.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Asked {
    pub(super) shard: usize,
    pub(super) local: u64,
    /// Number of buckets of the shard when the key was prefetched.
    buckets: usize,
    probes: [Probe; 2],
}

impl Asked {
    /// Buckets and tags of the key in its shard's current form (SSD-I14).
    #[inline(always)]
    pub(super) fn probes(&self, shard: &Shard) -> [Probe; 2] {
        if shard.buckets() == self.buckets { self.probes } else { shard.probes(self.local) }
    }
}

impl Index {
    /// Prefetches what a look-up of `key` will read.
    #[inline(always)]
    pub(super) fn ask(&self, key: Key) -> Asked {
        let (number, local) = permute::split(self.scatter.of(key));
        let shard = &self.shards[number];
        let probes = shard.probes(local);
        shard.prefetch(&probes);
        Asked { shard: number, local, buckets: shard.buckets(), probes }
    }
}

/// An iteration over `count` keys, the `n`th of which is `key(n)`.
pub(crate) struct Ahead<F> {
    key: F,
    count: usize,
    at: usize,
    asked: [Asked; AHEAD],
}

impl<F: Fn(usize) -> Key> Ahead<F> {
    pub(crate) fn new(index: &Index, count: usize, key: F) -> Self {
        let mut asked = [Asked::default(); AHEAD];
        for (at, asked) in asked.iter_mut().enumerate().take(count) {
            *asked = index.ask(key(at));
        }
        Self { key, count, at: 0, asked }
    }

    /// Returns the next key, `count` times in all. The index may have changed since the last call.
    #[inline(always)]
    pub(crate) fn next(&mut self, index: &Index) -> Asked {
        let at = self.at;
        assert!(at < self.count, "there are {} keys", self.count);
        self.at += 1;
        if at + 2 * AHEAD < self.count {
            let shard = permute::split(index.scatter.of((self.key)(at + 2 * AHEAD))).0;
            prefetch(&index.shards[shard]);
        }
        let asked = self.asked[at % AHEAD];
        if at + AHEAD < self.count {
            self.asked[at % AHEAD] = index.ask((self.key)(at + AHEAD));
        }
        asked
    }
}
