//! Going through many keys, the memory of each asked for before its turn.
//!
//! - **How.** A key's shard header is asked for `2 * AHEAD` keys ahead, its buckets `AHEAD` keys
//!   ahead, by when the header is there. What was computed on the way, buckets and tags, is kept
//!   until the key's turn.
//! - **Invariants.**
//!   - I1 A shard that grew between a key's asking and its turn is noticed by its number of
//!     buckets; the key is then asked for again.

use stepwell_base::Key;
use stepwell_base::prefetch::prefetch;

use super::bits::Probe;
use super::shard::Shard;
use super::{Index, permute};

/// Keys between the request for a line and its use.
pub(super) const AHEAD: usize = 16;

/// A key, and where the index would have it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Asked {
    pub(super) shard: usize,
    pub(super) local: u64,
    /// Of the shard, when it was asked.
    buckets: usize,
    probes: [Probe; 2],
}

impl Asked {
    /// The buckets and tags of the key in its shard as that is now (I1).
    #[inline(always)]
    pub(super) fn probes(&self, shard: &Shard) -> [Probe; 2] {
        if shard.buckets() == self.buckets { self.probes } else { shard.probes(self.local) }
    }
}

impl Index {
    /// Asks for what a look-up of `key` will read.
    #[inline(always)]
    pub(super) fn ask(&self, key: Key) -> Asked {
        let (number, local) = permute::split(self.scatter.of(key));
        let shard = &self.shards[number];
        let probes = shard.probes(local);
        shard.prefetch(&probes);
        Asked { shard: number, local, buckets: shard.buckets(), probes }
    }
}

/// A walk over `count` keys, the `n`th of which `key(n)` says.
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

    /// The next key, once for each. The index may have changed since the last one.
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
