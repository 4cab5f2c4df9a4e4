//! The store that all rows are in before a run, and the raw disk below it.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use stepwell_base::random::Stream;
use stepwell_disk::{BLOCK_BYTES, Disk, FileDisk, QueueOptions};
use stepwell_engine::TableSpec;
use stepwell_settings::Config;
use stepwell_ssd::{Store, StoreOptions};

use super::stream::Ids;
use crate::ssd::{Shuffle, scaled};
use crate::{Error, Result};

/// Rows that are put at once.
const BATCH: u64 = 4096;
/// Seconds of a measurement of the raw disk.
const RAW_SECONDS: f64 = 2.0;
/// Raw reads in flight.
const RAW_DEPTH: usize = 128;

/// The one table of a run of `config`.
pub(super) fn table(config: &Config) -> Result<TableSpec> {
    let tables = stepwell_train::tables(config).map_err(|e| Error::Arguments(e.to_string()))?;
    let table = tables.into_iter().next();
    table.ok_or_else(|| Error::Arguments("a model without a table".to_owned()))
}

/// Puts the rows of all ids, in random order, into a new store in `directory`.
pub(super) fn load(ids: &Ids, config: &Config, directory: &Path) -> Result<()> {
    let table = table(config)?;
    let disk = Arc::new(FileDisk::open(directory)?);
    let options = StoreOptions {
        segment_bytes: config.tiers.segment.0,
        index_bytes_max: config.tiers.index.0,
        cached_bytes: 0,
        ..StoreOptions::new(table.id.0, table.row_bytes())
    };
    let store = Store::create(disk, options)?;
    let order = Shuffle::new(ids.count(), 1);
    let mut rows = vec![0.0f32; BATCH as usize * table.row_lanes()];
    for first in (0..ids.count()).step_by(BATCH as usize) {
        let end = ids.count().min(first + BATCH);
        let keys: Vec<_> = (first..end).map(|place| ids.key_of(order.at(place))).collect();
        let lanes = keys.len() * table.row_lanes();
        for (key, row) in keys.iter().zip(rows.chunks_exact_mut(table.row_lanes())) {
            table.initial_row(*key, row);
        }
        store.put_many(&keys, &vec![0; keys.len()], bytemuck::cast_slice(&rows[..lanes]))?;
    }
    store.commit()?;
    Ok(())
}

/// Random reads of a page each per second, from the segments in `directory`.
pub(super) fn raw_read_iops(directory: &Path, seed: u64) -> Result<f64> {
    let disk = FileDisk::open(directory)?;
    let mut files = Vec::new();
    for name in disk.list()? {
        let file = disk.open_direct(&name)?;
        let blocks = file.len()? / BLOCK_BYTES as u64;
        if blocks > 256 {
            files.push((file, blocks));
        }
    }
    if files.is_empty() {
        return Err(Error::Arguments("--rows: too few to read pages from".to_owned()));
    }
    let options = QueueOptions { depth: RAW_DEPTH, read_bytes: RAW_DEPTH * BLOCK_BYTES };
    let mut queue = disk.queue(options)?;
    let mut dice = Stream::from_state(seed);
    let begin = Instant::now();
    let mut done = 0usize;
    while begin.elapsed().as_secs_f64() < RAW_SECONDS {
        loop {
            let (file, blocks) = &files[scaled(dice.next_u64(), files.len() as u64) as usize];
            let offset = scaled(dice.next_u64(), *blocks) * BLOCK_BYTES as u64;
            if !queue.read(0, file, offset, BLOCK_BYTES)? {
                break;
            }
        }
        done += queue.complete(true, &mut |_| {})?;
    }
    let rate = done as f64 / begin.elapsed().as_secs_f64();
    while queue.in_flight() > 0 {
        queue.complete(true, &mut |_| {})?;
    }
    Ok(rate)
}
