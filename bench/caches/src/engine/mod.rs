//! The caches for general use, each shared by all threads and asked for one key after another.
//!
//! - **How.** [`Look`] is what a cache can do: a look-up shows the row to a closure, where it lies
//!   or as the copy that the cache gives out. [`Peer`] is what is measured, the same loop over
//!   every cache.

mod foyer;
mod moka;
mod quick;

use serde::Serialize;
use stepwell_base::Key;

use crate::Result;
use crate::workload::{self, Read, Row, row, sum};

/// Hashes keys, the same in all caches: one multiplication and a rotation.
type Hasher = rustc_hash::FxBuildHasher;

/// What is measured beside ours: a cache and where it has its rows, or how it chooses victims.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Engine {
    QuickCacheArc,
    QuickCacheInline,
    FoyerS3Fifo,
    FoyerSieve,
    MokaArc,
    MokaInline,
    MokaLru,
}

impl Engine {
    /// Every cache in every way.
    pub(crate) const ALL: [Self; 7] = [
        Self::QuickCacheArc,
        Self::QuickCacheInline,
        Self::FoyerS3Fifo,
        Self::FoyerSieve,
        Self::MokaArc,
        Self::MokaInline,
        Self::MokaLru,
    ];

    /// Each cache as it was fastest.
    pub(crate) const BEST: [Self; 3] = [Self::QuickCacheInline, Self::FoyerS3Fifo, Self::MokaArc];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::QuickCacheArc => "quick_cache, Arc",
            Self::QuickCacheInline => "quick_cache, inline",
            Self::FoyerS3Fifo => "foyer, S3-FIFO",
            Self::FoyerSieve => "foyer, SIEVE",
            Self::MokaArc => "moka, Arc",
            Self::MokaInline => "moka, inline",
            Self::MokaLru => "moka, Arc, LRU",
        }
    }

    /// A cache with room for `rows` rows and none in it.
    pub(crate) fn empty(self, rows: usize) -> Box<dyn Peer> {
        match self {
            Self::QuickCacheArc => Box::new(quick::Behind::new(rows)),
            Self::QuickCacheInline => Box::new(quick::Inline::new(rows)),
            Self::FoyerS3Fifo => Box::new(foyer::Foyer::s3_fifo(rows)),
            Self::FoyerSieve => Box::new(foyer::Foyer::sieve(rows)),
            Self::MokaArc => Box::new(moka::Behind::tiny_lfu(rows)),
            Self::MokaInline => Box::new(moka::Inline::tiny_lfu(rows)),
            Self::MokaLru => Box::new(moka::Behind::lru(rows)),
        }
    }
}

/// A cache.
trait Look {
    fn insert(&self, key: u64, row: Row);

    /// Does what was put off while rows came.
    fn settle(&self) {}

    /// Shows the row of `key`, where it is present.
    fn look<T>(&self, key: u64, visit: impl FnOnce(&Row) -> T) -> Option<T>;
}

/// A cache as it is measured.
pub(crate) trait Peer: Sync {
    /// Puts the rows of `keys` in, one after another.
    fn fill(&self, keys: &[Key]);

    /// Looks all keys up and reads the rows that are present.
    fn read(&self, keys: &[Key]) -> Read;

    /// Looks all keys up and compares every byte of their rows to what it must be; returns the
    /// number of rows.
    fn check(&self, keys: &[Key]) -> Result<u64>;
}

impl<L: Look + Sync> Peer for L {
    fn fill(&self, keys: &[Key]) {
        keys.iter().for_each(|key| self.insert(key.0, row(*key)));
        self.settle();
    }

    fn read(&self, keys: &[Key]) -> Read {
        let mut read = Read::default();
        for key in keys {
            if let Some(sum) = self.look(key.0, |row| sum(row.iter().copied())) {
                read.take(sum);
            }
        }
        read
    }

    fn check(&self, keys: &[Key]) -> Result<u64> {
        let looks = keys
            .iter()
            .filter_map(|key| self.look(key.0, |row| workload::check(*key, row.iter().copied())));
        looks.map(|checked| checked.map(|()| 1)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cache_gives_back_the_rows_that_it_was_given() {
        let keys: Vec<Key> = (1..=2000).map(workload::key).collect();
        let (present, absent) = keys.split_at(1500);
        for engine in Engine::ALL {
            // Room enough that no part of a cache is full before the others.
            let peer = engine.empty(3000);
            assert_eq!(peer.read(&keys), Read::default(), "{engine:?}");
            peer.fill(present);
            assert_eq!(peer.check(present), Ok(1500), "{engine:?}");
            assert_eq!(peer.check(absent), Ok(0), "{engine:?}");
            let mut wanted = Read::default();
            present.iter().for_each(|key| wanted.take(sum(row(*key))));
            assert_eq!(peer.read(&keys), wanted, "{engine:?}");
            assert_eq!(peer.read(&[]), Read::default());
        }
    }

    #[test]
    fn a_full_cache_gives_no_wrong_rows() {
        let keys: Vec<Key> = (1..=20_000).map(workload::key).collect();
        for engine in Engine::ALL {
            let peer = engine.empty(4000);
            peer.fill(&keys);
            let found = peer.check(&keys).unwrap();
            assert!((1..=5000).contains(&found), "{engine:?} has {found} rows");
        }
    }

    #[test]
    fn a_wrong_row_is_noticed() {
        let (one, other) = (workload::key(1), workload::key(2));
        let cache = quick::Inline::new(1000);
        cache.insert(one.0, row(other));
        assert!(cache.check(&[one]).unwrap_err().contains(&format!("{:016x}", one.0)));
    }
}
