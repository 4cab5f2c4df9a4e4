//! `quick_cache`, its sync cache: S3-FIFO in shards, each under a lock that readers share.
//!
//! - **How.** Four shards a core and 97 % of the room for hot rows, its defaults. Memory is
//!   reserved for all rows at once: arrays that grow would be moved and lose their huge pages. A
//!   look-up gives out a clone of the value: of an `Arc`, or of the whole row while the shard is
//!   locked.

use std::sync::Arc;

use quick_cache::UnitWeighter;
use quick_cache::sync::{Cache, DefaultLifecycle};

use super::{Hasher, Look};
use crate::workload::Row;

type Quick<V> = Cache<u64, V, UnitWeighter, Hasher>;

/// Shards are not equally full: one row in so many is made room for beside those of all.
const SPARE: usize = 64;

fn new<V: Clone>(rows: usize) -> Quick<V> {
    let lifecycle = DefaultLifecycle::default();
    let cache = Quick::with(rows, rows as u64, UnitWeighter, Hasher::default(), lifecycle);
    cache.reserve(rows + rows / SPARE);
    cache
}

/// Rows behind an `Arc`.
pub(super) struct Behind(Quick<Arc<Row>>);

impl Behind {
    pub(super) fn new(rows: usize) -> Self {
        Self(new(rows))
    }
}

impl Look for Behind {
    fn insert(&self, key: u64, row: Row) {
        self.0.insert(key, Arc::new(row));
    }

    #[inline]
    fn look<T>(&self, key: u64, visit: impl FnOnce(&Row) -> T) -> Option<T> {
        self.0.get(&key).map(|row| visit(&row))
    }
}

/// Rows in the cache itself.
pub(super) struct Inline(Quick<Row>);

impl Inline {
    pub(super) fn new(rows: usize) -> Self {
        Self(new(rows))
    }
}

impl Look for Inline {
    fn insert(&self, key: u64, row: Row) {
        self.0.insert(key, row);
    }

    #[inline]
    fn look<T>(&self, key: u64, visit: impl FnOnce(&Row) -> T) -> Option<T> {
        self.0.get(&key).map(|row| visit(&row))
    }
}
