//! `foyer`, its cache in memory: records with a count of references, in shards.
//!
//! - **How.** Rows lie in the records themselves: a look-up gives out a counted reference to one,
//!   so nothing is copied. Both policies here let readers share a shard's lock; LRU, its default,
//!   takes it for itself in every look-up. Eight shards, its default.

use foyer::{Cache, CacheBuilder, EvictionConfig, S3FifoConfig, SieveConfig};

use super::{Hasher, Look};
use crate::workload::Row;

pub(super) struct Foyer(Cache<u64, Row, Hasher>);

impl Foyer {
    pub(super) fn s3_fifo(rows: usize) -> Self {
        Self::new(rows, S3FifoConfig::default().into())
    }

    pub(super) fn sieve(rows: usize) -> Self {
        Self::new(rows, SieveConfig.into())
    }

    fn new(rows: usize, policy: EvictionConfig) -> Self {
        let builder = CacheBuilder::new(rows).with_hash_builder(Hasher::default());
        Self(builder.with_eviction_config(policy).build())
    }
}

impl Look for Foyer {
    fn insert(&self, key: u64, row: Row) {
        self.0.insert(key, row);
    }

    #[inline]
    fn look<T>(&self, key: u64, visit: impl FnOnce(&Row) -> T) -> Option<T> {
        self.0.get(&key).map(|entry| visit(entry.value()))
    }
}
