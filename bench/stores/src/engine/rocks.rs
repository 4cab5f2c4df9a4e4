//! RocksDB in three settings: levels, sorted runs ("universal"), and rows in blob files.
//!
//! - **How.** The load is a bulk load as RocksDB's FAQ and `PrepareForBulkLoad` have it: vector
//!   memtables, which cost an append a row and are sorted when flushed; no automatic compaction;
//!   then one manual compaction, and the store is opened anew with what it serves and is updated
//!   with. All of that is inside the load's clock. A commit is a flush: without a log, which ours
//!   has none of either, rows are durable once their memtable is a file, and RocksDB syncs its
//!   files. Batches are looked up by MultiGet with io_uring (see `read_options`); threads make up
//!   for what it does one after the other. Keys are big-endian, so that RocksDB's own comparison of
//!   bytes serves.

use std::path::{Path, PathBuf};
use std::thread::available_parallelism;

use rocksdb::{
    BlockBasedOptions, BlockBasedTablePinningTier, BottommostLevelCompaction, Cache, ChecksumType,
    CompactOptions, CompactionPri, DB, DBCompactionStyle, DBCompressionType, DataBlockIndexType,
    MemtableFactory, Options, ReadOptions, UniversalCompactOptions, WaitForCompactOptions,
    WriteBatch, WriteOptions,
};

use super::{Setup, Store, missing};
use crate::Result;
use crate::workload::{Batch, Key};

pub(super) const LEVEL: &str = "bulk load into vector memtables; levels of ratio 10, blocks of 4 \
    KiB with hashed entries, ribbon filters but for the last level, indexes and filters pinned in \
    the block cache (half of the memory), 2 memtables of 3/16, no log, direct I/O, checksums, \
    MultiGet by io_uring";

pub(super) const UNIVERSAL: &str = "as rocksdb-level, with universal compaction (size ratio 10, \
    space of twice the rows at most) as FBGEMM's SSD tables set it";

pub(super) const BLOB: &str = "as rocksdb-level, with rows in blob files, collected where half of \
    the oldest quarter is stale";

/// What the tree's shape and compaction are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Level,
    Universal,
    Blob,
}

/// A RocksDB of any setting.
pub(super) struct Rocks {
    /// Absent between two openings alone.
    db: Option<DB>,
    path: PathBuf,
    kind: Kind,
    memory_bytes: usize,
    is_loading: bool,
}

impl Rocks {
    pub(super) fn create(path: &Path, kind: Kind, setup: &Setup) -> Result<Self> {
        let options = loading(kind, setup.memory_bytes);
        let db = Some(open(&options, path)?);
        let (path, memory_bytes) = (path.to_path_buf(), setup.memory_bytes);
        Ok(Self { db, path, kind, memory_bytes, is_loading: true })
    }

    fn db(&self) -> Result<&DB> {
        self.db.as_ref().ok_or_else(|| "RocksDB was not opened again".to_owned())
    }

    /// Ends the bulk load: one compaction of everything, and other options from here on.
    fn end_load(&mut self) -> Result<()> {
        let db = self.db()?;
        db.flush().map_err(|error| format!("RocksDB cannot flush: {error}"))?;
        let mut compaction = CompactOptions::default();
        compaction.set_bottommost_level_compaction(BottommostLevelCompaction::ForceOptimized);
        db.compact_range_opt(None::<&[u8]>, None::<&[u8]>, &compaction);
        // The directory is one process's at a time.
        self.db = None;
        self.db = Some(open(&serving(self.kind, self.memory_bytes), &self.path)?);
        self.is_loading = false;
        Ok(())
    }
}

fn open(options: &Options, path: &Path) -> Result<DB> {
    let family = [(rocksdb::DEFAULT_COLUMN_FAMILY_NAME, options.clone())];
    DB::open_cf_with_opts(options, path, family)
        .map_err(|error| format!("cannot open RocksDB in {}: {error}", path.display()))
}

/// What reads and updates are served with.
fn serving(kind: Kind, memory_bytes: usize) -> Options {
    let mut options = common(kind, memory_bytes);
    match kind {
        Kind::Level | Kind::Blob => {
            // L0 at its trigger of four memtables is as large as the level below it: the tuning
            // guide's advice. Levels keep their default ratio of 10.
            options.set_max_bytes_for_level_base(4 * memtable_bytes(memory_bytes) as u64);
            // What overlaps least goes down first: fewer bytes written where keys are uniform.
            options.set_compaction_pri(CompactionPri::MinOverlappingRatio);
            // The load has nothing stale. Any compaction moves what is live in the files within
            // the cutoff: beyond the default of the oldest quarter that costs more than it frees.
            // Once half of these is stale, compactions are forced.
            options.set_enable_blob_gc(kind == Kind::Blob);
            options.set_blob_gc_age_cutoff(0.25);
            options.set_blob_gc_force_threshold(0.5);
        }
        Kind::Universal => {
            let mut universal = UniversalCompactOptions::default();
            // As FBGEMM has it, but for space: it allows five times the rows, ours at most two.
            universal.set_size_ratio(10);
            universal.set_min_merge_width(2);
            universal.set_max_size_amplification_percent(100);
            options.set_compaction_style(DBCompactionStyle::Universal);
            options.set_universal_compaction_options(&universal);
            options.set_level_zero_file_num_compaction_trigger(8);
        }
    }
    // Writers are slowed down late: the clock stops only when compaction is done.
    options.set_level_zero_slowdown_writes_trigger(32);
    options.set_level_zero_stop_writes_trigger(64);
    options
}

/// What the bulk load is done with: `PrepareForBulkLoad` but for the number of levels, so that the
/// files lie where they are then served from.
fn loading(kind: Kind, memory_bytes: usize) -> Options {
    const NEVER: i32 = 1 << 30;
    let mut options = common(kind, memory_bytes);
    options.set_memtable_factory(MemtableFactory::Vector);
    // A vector takes rows of one writer at a time.
    options.set_allow_concurrent_memtable_write(false);
    options.set_disable_auto_compactions(true);
    options.set_level_zero_file_num_compaction_trigger(NEVER);
    options.set_level_zero_slowdown_writes_trigger(NEVER);
    options.set_level_zero_stop_writes_trigger(NEVER);
    options.set_soft_pending_compaction_bytes_limit(0);
    options.set_hard_pending_compaction_bytes_limit(0);
    options.set_max_compaction_bytes(1 << 60);
    options
}

/// What loading and serving share.
fn common(kind: Kind, memory_bytes: usize) -> Options {
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_block_based_table_factory(&table(memory_bytes));
    // Rows are random bytes.
    options.set_compression_type(DBCompressionType::None);
    // The page cache would be memory outside the budget; ours goes around it too.
    options.set_use_direct_reads(true);
    options.set_use_direct_io_for_flush_and_compaction(true);
    options.set_max_open_files(-1);
    // Every key asked for exists: filters of the last level would only cost.
    options.set_optimize_filters_for_hits(true);
    options.set_write_buffer_size(memtable_bytes(memory_bytes));
    options.set_max_write_buffer_number(2);
    // Few files, so that more of a batch's keys, which MultiGet reads file by file, share one.
    options.set_target_file_size_base(256 << 20);
    options.set_level_compaction_dynamic_level_bytes(true);
    // Each input of a compaction has such a buffer: the load's compaction has fifty inputs, and
    // the default of 2 MiB would take them beyond the budget.
    options.set_compaction_readahead_size(512 << 10);
    options.set_max_background_jobs(cores().max(4) as i32);
    options.set_max_subcompactions(cores());
    if kind == Kind::Blob {
        options.set_enable_blob_files(true);
        options.set_min_blob_size(1);
        options.set_blob_file_size(64 << 20);
        options.set_blob_compaction_readahead_size(512 << 10);
    }
    options
}

fn table(memory_bytes: usize) -> BlockBasedOptions {
    const BLOOM_BITS: f64 = 10.0;
    let mut table = BlockBasedOptions::default();
    // Half of the memory, for indexes and filters first: 17 million rows have 40 MiB of them. They
    // are counted, and pinned, so that none is ever read twice; a partitioned index would save
    // memory that is not short, and cost reads.
    table.set_block_cache(&Cache::new_hyper_clock_cache(memory_bytes / 2, 0));
    table.set_cache_index_and_filter_blocks(true);
    table.set_unpartitioned_pinning_tier(BlockBasedTablePinningTier::All);
    // The disk's own unit: less is not to be had by direct I/O, more is read for nothing.
    table.set_block_size(4096);
    // Rows are found in a block by hash; ribbon filters take 30 % less than bloom filters.
    table.set_data_block_index_type(DataBlockIndexType::BinaryAndHash);
    table.set_data_block_hash_ratio(0.75);
    table.set_ribbon_filter(BLOOM_BITS);
    // The fastest of its checksums, and what ours has.
    table.set_checksum_type(ChecksumType::XXH3);
    table.set_format_version(6);
    table
}

/// Two memtables are 3/8 of the memory, which leaves an eighth for everything else.
fn memtable_bytes(memory_bytes: usize) -> usize {
    memory_bytes / 16 * 3
}

fn cores() -> u32 {
    available_parallelism().map_or(1, |cores| cores.get() as u32)
}

/// MultiGet sorts a batch, cuts it into groups of 32 keys and reads the blocks of one file by
/// io_uring together. `async_io` has it read several files together only where RocksDB is built
/// with folly's coroutines, which the Rust binding is not; it is asked for all the same.
fn read_options() -> ReadOptions {
    let mut options = ReadOptions::default();
    options.set_async_io(true);
    options.set_verify_checksums(true);
    options
}

impl Store for Rocks {
    fn put(&mut self, batch: &Batch) -> Result<()> {
        let mut writes = WriteBatch::with_capacity_bytes(batch.bytes() + batch.bytes() / 8);
        for (key, row) in batch.iter() {
            writes.put(key, row);
        }
        let mut options = WriteOptions::default();
        options.disable_wal(true);
        self.db()?.write_opt(writes, &options).map_err(|e| format!("RocksDB cannot write: {e}"))
    }

    fn commit(&mut self) -> Result<()> {
        self.db()?.flush().map_err(|error| format!("RocksDB cannot flush: {error}"))
    }

    fn settle(&mut self) -> Result<()> {
        if self.is_loading {
            self.end_load()?;
        }
        let mut options = WaitForCompactOptions::default();
        options.set_flush(true);
        self.db()?.wait_for_compact(&options).map_err(|e| format!("RocksDB cannot compact: {e}"))
    }

    fn get(&self, keys: &[Key], row: &mut dyn FnMut(usize, &[u8])) -> Result<()> {
        let db = self.db()?;
        let family = db.cf_handle(rocksdb::DEFAULT_COLUMN_FAMILY_NAME);
        let family = family.ok_or("RocksDB has lost its default column family")?;
        let found = db.batched_multi_get_cf_opt(family, keys, false, &read_options());
        for (position, (key, found)) in keys.iter().zip(found).enumerate() {
            let value = found.map_err(|error| format!("RocksDB cannot read: {error}"))?;
            row(position, &value.ok_or_else(|| missing("RocksDB", key))?);
        }
        Ok(())
    }
}
