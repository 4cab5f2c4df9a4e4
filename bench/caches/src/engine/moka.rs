//! `moka`, its sync cache: a table without locks for readers, TinyLFU or LRU.
//!
//! - **How.** Room for all rows from the start, so the table never grows. A look-up gives out a
//!   clone of the value, of an `Arc` as its documents advise or of the whole row, and notes the use
//!   in a queue, which callers work off now and then.

use std::sync::Arc;

use moka::policy::EvictionPolicy;
use moka::sync::Cache;

use super::{Hasher, Look};
use crate::workload::Row;

fn new<V: Clone + Send + Sync + 'static>(
    rows: usize,
    policy: EvictionPolicy,
) -> Cache<u64, V, Hasher> {
    let builder = Cache::builder().max_capacity(rows as u64).initial_capacity(rows);
    builder.eviction_policy(policy).build_with_hasher(Hasher::default())
}

/// Rows behind an `Arc`.
pub(super) struct Behind(Cache<u64, Arc<Row>, Hasher>);

impl Behind {
    pub(super) fn tiny_lfu(rows: usize) -> Self {
        Self(new(rows, EvictionPolicy::tiny_lfu()))
    }

    pub(super) fn lru(rows: usize) -> Self {
        Self(new(rows, EvictionPolicy::lru()))
    }
}

impl Look for Behind {
    fn insert(&self, key: u64, row: Row) {
        self.0.insert(key, Arc::new(row));
    }

    fn settle(&self) {
        self.0.run_pending_tasks();
    }

    #[inline]
    fn look<T>(&self, key: u64, visit: impl FnOnce(&Row) -> T) -> Option<T> {
        self.0.get(&key).map(|row| visit(&row))
    }
}

/// Rows in the cache itself.
pub(super) struct Inline(Cache<u64, Row, Hasher>);

impl Inline {
    pub(super) fn tiny_lfu(rows: usize) -> Self {
        Self(new(rows, EvictionPolicy::tiny_lfu()))
    }
}

impl Look for Inline {
    fn insert(&self, key: u64, row: Row) {
        self.0.insert(key, row);
    }

    fn settle(&self) {
        self.0.run_pending_tasks();
    }

    #[inline]
    fn look<T>(&self, key: u64, visit: impl FnOnce(&Row) -> T) -> Option<T> {
        self.0.get(&key).map(|row| visit(&row))
    }
}
