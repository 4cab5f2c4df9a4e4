//! fjall, its rows in its tree or in blob files.
//!
//! - **How.** The load goes around memtable and journal: rows are collected, sorted and ingested as
//!   files (`Keyspace::start_ingestion`, which wants them in order), and all of them are compacted
//!   at its end. Updates go through memtable and journal, which cannot be left out; the journal is
//!   synced at commits alone, as ours are durable at commits alone. It has no look-up of many keys,
//!   so keys are got one by one, by many threads. Its reads go through the page cache, which counts
//!   against its memory (`withhold`).

use std::path::{Path, PathBuf};
use std::time::Duration;

use fjall::config::{BlockSizePolicy, CompressionPolicy, PartitioningPolicy, PinningPolicy};
use fjall::{
    CompressionType, Database, Keyspace, KeyspaceCreateOptions, KvSeparationOptions, PersistMode,
};

use super::{Setup, Store, missing};
use crate::Result;
use crate::workload::{Batch, KEY_BYTES, Key};

pub(super) const TREE: &str = "bulk load by ingestion of sorted files; levels of ratio 10, blocks \
    of 4 KiB, no compression, indexes and filters pinned, block cache of 3/8 of the memory, \
    memtables of 1/8, journal synced at commits alone, gets one by one, through the page cache";

pub(super) const BLOB: &str = "as fjall, with rows in blob files (KV separation)";

/// How often the background work is looked at while settling, and how many looks in a row must
/// find none: a compaction may be queued and not yet counted.
const LOOK: Duration = Duration::from_millis(10);
const QUIET_LOOKS: u32 = 10;

/// A fjall database with one keyspace.
pub(super) struct Fjall {
    /// Absent between two openings alone.
    open: Option<Open>,
    path: PathBuf,
    separate: bool,
    memory_bytes: u64,
    /// Rows of the bulk load that are not in a file yet; nothing once it is over.
    load: Option<Run>,
}

/// An open database. The keyspace goes first.
struct Open {
    rows: Keyspace,
    database: Database,
}

/// Rows on their way into a file.
#[derive(Debug)]
struct Run {
    keys: Vec<(Key, u32)>,
    rows: Vec<u8>, // (keys.len(), row_bytes)
    row_bytes: usize,
    bytes_max: usize,
}

impl Run {
    fn is_full(&self) -> bool {
        self.keys.len() * KEY_BYTES + self.rows.len() >= self.bytes_max
    }

    fn push(&mut self, batch: &Batch) {
        let first = self.keys.len() as u32;
        self.keys.extend(batch.keys().iter().copied().zip(first..));
        self.rows.extend_from_slice(batch.rows());
    }

    /// Writes a file of it. A bulk load has every key once.
    fn ingest(&mut self, into: &Keyspace) -> fjall::Result<()> {
        if self.keys.is_empty() {
            return Ok(());
        }
        self.keys.sort_unstable();
        let mut ingestion = into.start_ingestion()?;
        for (key, at) in &self.keys {
            let row = &self.rows[*at as usize * self.row_bytes..][..self.row_bytes];
            ingestion.write(*key, row)?;
        }
        ingestion.finish()?;
        self.keys.clear();
        self.rows.clear();
        Ok(())
    }
}

impl Open {
    fn at(path: &Path, separate: bool, memory_bytes: u64) -> fjall::Result<Self> {
        // Its cache has no share for indexes and filters: these are pinned beside it, and so small
        // that blocks get what RocksDB's have. Pages of the system take what is left.
        let database = Database::builder(path)
            .cache_size(memory_bytes / 8 * 3)
            .journal_compression(CompressionType::None)
            .manual_journal_persist(true)
            .max_journaling_size(memory_bytes)
            .open()?;
        let options = || {
            KeyspaceCreateOptions::default()
                .data_block_compression_policy(CompressionPolicy::all(CompressionType::None))
                .index_block_compression_policy(CompressionPolicy::all(CompressionType::None))
                .data_block_size_policy(BlockSizePolicy::all(4096))
                .index_block_pinning_policy(PinningPolicy::all(true))
                .filter_block_pinning_policy(PinningPolicy::all(true))
                .index_block_partitioning_policy(PartitioningPolicy::all(false))
                .filter_block_partitioning_policy(PartitioningPolicy::all(false))
                // Every key asked for exists: filters of the last level would only cost.
                .expect_point_read_hits(true)
                // Its documentation's upper advice: beside the active one up to four wait.
                .max_memtable_size(memory_bytes / 8)
                .manual_journal_persist(true)
                .with_kv_separation(separate.then(separation))
        };
        let rows = database.keyspace("rows", options)?;
        Ok(Self { rows, database })
    }

    fn is_busy(&self) -> bool {
        self.database.outstanding_flushes() > 0
            || self.rows.sealed_memtable_count() > 0
            || self.database.active_compactions() > 0
    }

    fn wait(&self) {
        let mut quiet = 0;
        while quiet < QUIET_LOOKS {
            std::thread::sleep(LOOK);
            quiet = if self.is_busy() { 0 } else { quiet + 1 };
        }
    }

    fn put(&self, batch: &Batch) -> fjall::Result<()> {
        let mut writes = self.database.batch();
        for (key, row) in batch.iter() {
            writes.insert(&self.rows, *key, row);
        }
        writes.commit()
    }

    fn settle(&self) -> fjall::Result<()> {
        self.rows.rotate_memtable_and_wait()?;
        self.wait();
        self.database.persist(PersistMode::SyncAll)
    }
}

impl Fjall {
    pub(super) fn create(path: &Path, separate: bool, setup: &Setup) -> Result<Self> {
        let load = Run {
            keys: Vec::new(),
            rows: Vec::new(),
            row_bytes: setup.row_bytes,
            bytes_max: setup.memory_bytes / 16 * 3,
        };
        let (path, memory_bytes) = (path.to_path_buf(), setup.memory_bytes as u64);
        let mut store = Self { open: None, path, separate, memory_bytes, load: Some(load) };
        let opened = store.open_again();
        opened.map_err(|e| format!("cannot open fjall in {}: {e}", store.path.display()))?;
        Ok(store)
    }

    fn open_again(&mut self) -> fjall::Result<()> {
        // The directory is one database's at a time.
        self.open = None;
        self.open = Some(Open::at(&self.path, self.separate, self.memory_bytes)?);
        Ok(())
    }

    fn open(&self) -> Result<&Open> {
        self.open.as_ref().ok_or_else(|| "fjall was not opened again".to_owned())
    }

    /// Compacts what was ingested, and opens the database anew: it removes the files that
    /// compaction replaced only then.
    fn end_load(&mut self) -> Result<()> {
        self.commit()?;
        self.load = None;
        let open = self.open()?;
        open.wait();
        open.rows.major_compact().map_err(|error| format!("fjall cannot compact: {error}"))?;
        open.wait();
        self.open_again().map_err(|error| format!("cannot open fjall again: {error}"))
    }
}

/// Every row, in files that are collected where half of them is stale.
fn separation() -> KvSeparationOptions {
    KvSeparationOptions::default()
        .separation_threshold(1)
        .compression(CompressionType::None)
        .staleness_threshold(0.5)
        .age_cutoff(1.0)
}

impl Store for Fjall {
    fn put(&mut self, batch: &Batch) -> Result<()> {
        let open = self.open.as_ref().ok_or("fjall was not opened again")?;
        let put = match &mut self.load {
            Some(load) => {
                load.push(batch);
                if load.is_full() { load.ingest(&open.rows) } else { Ok(()) }
            }
            None => open.put(batch),
        };
        put.map_err(|error| format!("fjall cannot write: {error}"))
    }

    /// Files are durable once they are ingested, memtables once the journal is synced.
    fn commit(&mut self) -> Result<()> {
        let open = self.open.as_ref().ok_or("fjall was not opened again")?;
        let committed = match &mut self.load {
            Some(load) => load.ingest(&open.rows),
            None => open.database.persist(PersistMode::SyncAll),
        };
        committed.map_err(|error| format!("fjall cannot commit: {error}"))
    }

    fn settle(&mut self) -> Result<()> {
        if self.load.is_some() {
            self.end_load()?;
        }
        self.open()?.settle().map_err(|error| format!("fjall cannot flush: {error}"))
    }

    fn get(&self, keys: &[Key], row: &mut dyn FnMut(usize, &[u8])) -> Result<()> {
        let rows = &self.open()?.rows;
        for (position, key) in keys.iter().enumerate() {
            let found = rows.get(key).map_err(|e| format!("fjall cannot read: {e}"))?;
            row(position, &found.ok_or_else(|| missing("fjall", key))?);
        }
        Ok(())
    }
}
