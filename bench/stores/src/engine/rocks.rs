//! RocksDB in two settings: as FBGEMM's SSD tables set it, and levelled for small space.
//!
//! How       Both write without a log, read and write around the page cache, and look a batch of
//!           keys up with one MultiGet, whose reads of one file go to io_uring together.
//!           RocksDB cuts a batch into groups of 32 sorted keys. It reads several files at once
//!           only where it is built with folly's coroutines, which the Rust binding is not;
//!           sorted groups mostly fall into one file each, so little is lost.
//!           Keys are big-endian and compared as bytes, which costs less than FBGEMM's comparator.

use std::path::Path;
use std::thread::available_parallelism;

use rocksdb::{
    BlockBasedIndexType, BlockBasedOptions, Cache, ChecksumType, DB, DBCompactionStyle,
    DBCompressionType, DataBlockIndexType, Options, ReadOptions, SliceTransform,
    UniversalCompactOptions, WaitForCompactOptions, WriteBatch, WriteOptions,
};

use super::{CACHE_BYTES, Store, WRITE_BUFFER_BYTES, missing};
use crate::Result;
use crate::workload::{Batch, KEY_BYTES, Key};

pub(super) const FBGEMM: &str = "FBGEMM's SSD options: universal compaction (size ratio 10, 400 % \
    amplification, trigger 8), hash index, hashed blocks, bloom 10 bits, no checksums, no block \
    cache, direct I/O, 4 write buffers of 128 MiB, 2 merged";

pub(super) const LEVEL: &str = "level compaction, 4 KiB blocks, bloom 10 bits, checksums, block \
    cache of 64 MiB with indexes beside it, direct I/O, 2 write buffers of 256 MiB";

const BLOOM_BITS: f64 = 10.0;
const BLOCK_BYTES: usize = 4096;

/// A RocksDB of either setting.
pub(super) struct Rocks {
    db: DB,
    verify_checksums: bool,
}

impl Rocks {
    /// With the options of FBGEMM's `EmbeddingRocksDB` and the defaults of its Python side; its
    /// 2 GiB of write buffers are scaled to what the other settings have. Its statistics are left
    /// out: they cost time alone.
    pub(super) fn fbgemm(path: &Path) -> Result<Self> {
        const BUFFERS: usize = 4;
        let mut universal = UniversalCompactOptions::default();
        universal.set_size_ratio(10);
        universal.set_min_merge_width(2);
        universal.set_max_size_amplification_percent(400);
        let mut options = common(&mut fbgemm_table());
        options.set_compaction_style(DBCompactionStyle::Universal);
        options.set_universal_compaction_options(&universal);
        options.set_level_zero_file_num_compaction_trigger(8);
        options.set_level_zero_slowdown_writes_trigger(32);
        options.set_level_zero_stop_writes_trigger(64);
        options.set_write_buffer_size(2 * WRITE_BUFFER_BYTES / BUFFERS);
        options.set_max_write_buffer_number(BUFFERS as i32);
        options.set_min_write_buffer_number_to_merge(2);
        options.set_target_file_size_base(2 << 30);
        options.set_prefix_extractor(SliceTransform::create_fixed_prefix(KEY_BYTES));
        options.set_allow_concurrent_memtable_write(false);
        options.set_enable_write_thread_adaptive_yield(true);
        options.set_avoid_unnecessary_blocking_io(true);
        options.set_memtable_prefix_bloom_ratio(0.05);
        options.set_memtable_whole_key_filtering(true);
        Self::open(&options, path, false)
    }

    pub(super) fn level(path: &Path) -> Result<Self> {
        let mut table = BlockBasedOptions::default();
        table.set_block_cache(&Cache::new_lru_cache(CACHE_BYTES));
        table.set_block_size(BLOCK_BYTES);
        table.set_bloom_filter(BLOOM_BITS, false);
        let mut options = common(&mut table);
        options.set_compaction_style(DBCompactionStyle::Level);
        options.set_write_buffer_size(WRITE_BUFFER_BYTES);
        options.set_max_write_buffer_number(2);
        options.set_target_file_size_base(WRITE_BUFFER_BYTES as u64);
        options.set_max_bytes_for_level_base(4 * WRITE_BUFFER_BYTES as u64);
        options.set_max_subcompactions(cores());
        Self::open(&options, path, true)
    }

    fn open(options: &Options, path: &Path, verify_checksums: bool) -> Result<Self> {
        let family = [(rocksdb::DEFAULT_COLUMN_FAMILY_NAME, options.clone())];
        let db = DB::open_cf_with_opts(options, path, family)
            .map_err(|error| format!("cannot open RocksDB in {}: {error}", path.display()))?;
        Ok(Self { db, verify_checksums })
    }
}

fn fbgemm_table() -> BlockBasedOptions {
    let mut table = BlockBasedOptions::default();
    table.disable_cache();
    table.set_index_type(BlockBasedIndexType::HashSearch);
    table.set_data_block_index_type(DataBlockIndexType::BinaryAndHash);
    table.set_data_block_hash_ratio(0.75);
    table.set_checksum_type(ChecksumType::NoChecksum);
    table.set_format_version(5);
    table.set_bloom_filter(BLOOM_BITS, false);
    table
}

/// What both settings share.
fn common(table: &mut BlockBasedOptions) -> Options {
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_block_based_table_factory(table);
    options.set_compression_type(DBCompressionType::None);
    options.set_use_direct_reads(true);
    options.set_use_direct_io_for_flush_and_compaction(true);
    options.set_max_open_files(-1);
    // Every key asked for exists: filters of the last level would only cost.
    options.set_optimize_filters_for_hits(true);
    options.set_max_background_jobs(cores().max(4) as i32);
    options
}

fn cores() -> u32 {
    available_parallelism().map_or(1, |cores| cores.get() as u32)
}

impl Store for Rocks {
    fn put(&self, batch: &Batch) -> Result<()> {
        let mut writes = WriteBatch::with_capacity_bytes(batch.bytes() + batch.bytes() / 8);
        for (key, row) in batch.iter() {
            writes.put(key, row);
        }
        let mut options = WriteOptions::default();
        options.disable_wal(true);
        self.db.write_opt(writes, &options).map_err(|e| format!("RocksDB cannot write: {e}"))
    }

    /// Without a log, rows are durable once their buffer is a file; RocksDB syncs its files.
    fn settle(&self) -> Result<()> {
        let mut options = WaitForCompactOptions::default();
        options.set_flush(true);
        self.db.wait_for_compact(&options).map_err(|e| format!("RocksDB cannot compact: {e}"))
    }

    fn get(&self, keys: &[Key], row: &mut dyn FnMut(usize, &[u8])) -> Result<()> {
        let mut options = ReadOptions::default();
        options.set_async_io(true);
        options.set_verify_checksums(self.verify_checksums);
        let family = self.db.cf_handle(rocksdb::DEFAULT_COLUMN_FAMILY_NAME);
        let family = family.ok_or("RocksDB has lost its default column family")?;
        let found = self.db.batched_multi_get_cf_opt(family, keys, false, &options);
        for (position, (key, found)) in keys.iter().zip(found).enumerate() {
            let value = found.map_err(|error| format!("RocksDB cannot read: {error}"))?;
            row(position, &value.ok_or_else(|| missing("RocksDB", key))?);
        }
        Ok(())
    }
}
