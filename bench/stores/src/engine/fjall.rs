//! fjall, near its defaults.
//!
//! How       Batches go through its journal, which is synced once, when settling. It has no look-up
//!           of many keys, so keys are got one by one. Its reads go through the page cache.

use std::path::Path;
use std::time::Duration;

use fjall::config::{BlockSizePolicy, CompressionPolicy};
use fjall::{CompressionType, Database, Keyspace, KeyspaceCreateOptions, PersistMode};

use super::{CACHE_BYTES, Store, WRITE_BUFFER_BYTES, missing};
use crate::Result;
use crate::workload::{Batch, Key};

pub(super) const SETTING: &str = "levelled compaction, 4 KiB blocks, no compression, block cache \
    of 64 MiB, memtables of 256 MiB, journal synced at the end alone, gets one by one, page cache \
    withheld while reading";

/// How often the background work is looked at while settling, and how many looks in a row must
/// find none: a compaction may be queued and not yet counted.
const LOOK: Duration = Duration::from_millis(10);
const QUIET_LOOKS: u32 = 10;

/// An open fjall database with one keyspace.
pub(super) struct Fjall {
    database: Database,
    rows: Keyspace,
}

impl Fjall {
    pub(super) fn open(path: &Path) -> Result<Self> {
        Self::create(path)
            .map_err(|error| format!("cannot open fjall in {}: {error}", path.display()))
    }

    fn create(path: &Path) -> fjall::Result<Self> {
        let database = Database::builder(path)
            .cache_size(CACHE_BYTES as u64)
            .journal_compression(CompressionType::None)
            .max_journaling_size(4 * WRITE_BUFFER_BYTES as u64)
            .open()?;
        let options = || {
            KeyspaceCreateOptions::default()
                .data_block_compression_policy(CompressionPolicy::all(CompressionType::None))
                .data_block_size_policy(BlockSizePolicy::all(4096))
                .expect_point_read_hits(true)
                .max_memtable_size(WRITE_BUFFER_BYTES as u64)
        };
        let rows = database.keyspace("rows", options)?;
        Ok(Self { database, rows })
    }

    fn is_busy(&self) -> bool {
        self.database.outstanding_flushes() > 0
            || self.rows.sealed_memtable_count() > 0
            || self.database.active_compactions() > 0
    }
}

impl Store for Fjall {
    fn put(&self, batch: &Batch) -> Result<()> {
        let mut writes = self.database.batch();
        for (key, row) in batch.iter() {
            writes.insert(&self.rows, *key, row);
        }
        writes.commit().map_err(|error| format!("fjall cannot write: {error}"))
    }

    fn settle(&self) -> Result<()> {
        let cannot = |error| format!("fjall cannot flush: {error}");
        self.rows.rotate_memtable_and_wait().map_err(cannot)?;
        let mut quiet = 0;
        while quiet < QUIET_LOOKS {
            std::thread::sleep(LOOK);
            quiet = if self.is_busy() { 0 } else { quiet + 1 };
        }
        self.database.persist(PersistMode::SyncAll).map_err(cannot)
    }

    fn get(&self, keys: &[Key], row: &mut dyn FnMut(usize, &[u8])) -> Result<()> {
        for (position, key) in keys.iter().enumerate() {
            let found = self.rows.get(key).map_err(|e| format!("fjall cannot read: {e}"))?;
            row(position, &found.ok_or_else(|| missing("fjall", key))?);
        }
        Ok(())
    }
}
