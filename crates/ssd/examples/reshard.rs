//! Bytes that merges write after key shards were redistributed: links turn a table over n stores
//! into one over m, and then each store merges until its space is within the setting.
//!
//! ```text
//! cargo run --release -p stepwell-ssd --example reshard -- [ROWS] [SEGMENT_MIB]
//! ```

#![expect(clippy::print_stdout, reason = "its figures are what it is for")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use stepwell_base::Key;
use stepwell_disk::{Disk, MemDisk};
use stepwell_ssd::{
    Compaction, KEY_SHARDS, KeyShardSet, Result, Store, StoreOptions, Verify, key_shard,
};

const ROW_BYTES: usize = 256;
const BATCH: u64 = 4096;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1).filter_map(|argument| argument.parse().ok());
    let (rows, mib) = (arguments.next().unwrap_or(400_000), arguments.next().unwrap_or(4));
    println!("{rows} rows of {ROW_BYTES} bytes, segments of {mib} MiB, in memory");
    println!(
        "from  to  linked/live  lists read/live  restored ms  written/live  merge ms  space after"
    );
    for (from, to) in [(1, 1), (2, 3), (4, 8), (8, 4), (3, 2), (1, 4)] {
        deal(rows, mib << 20, from, to)?;
    }
    Ok(())
}

fn options(segment_bytes: u64, number: usize, count: usize) -> StoreOptions {
    StoreOptions {
        segment_bytes,
        key_shards: KeyShardSet::part(number, count),
        compaction: Compaction::Inline,
        ..StoreOptions::new(0, ROW_BYTES)
    }
}

/// Puts every row into the store that has its key's shard.
fn put(stores: &[Store], rows: u64) -> Result<()> {
    let owner: Vec<usize> = (0..KEY_SHARDS)
        .map(|shard| {
            let has = |store: &Store| store.key_shards().contains(shard as u8);
            stores.iter().position(has).unwrap_or_default()
        })
        .collect();
    for first in (0..rows).step_by(BATCH as usize) {
        let mut keys = vec![Vec::new(); stores.len()];
        for key in (first..rows.min(first + BATCH)).map(Key) {
            keys[owner[usize::from(key_shard(key))]].push(key);
        }
        for (store, keys) in stores.iter().zip(keys) {
            let bytes = vec![1; keys.len() * ROW_BYTES];
            store.put_many(&keys, &vec![1; keys.len()], &bytes)?;
        }
    }
    Ok(())
}

/// Redistributes a table from `from` stores to `to`, and prints the cost.
fn deal(rows: u64, segment_bytes: u64, from: usize, to: usize) -> Result<()> {
    let world = MemDisk::new();
    let directory = |name: &str, number: usize| {
        world.create_directory(&PathBuf::from(format!("/{name}-{number}")))
    };
    let mut stores = Vec::new();
    for number in 0..from {
        let options = options(segment_bytes, number, from);
        stores.push(Store::create(directory("old", number)?, options)?);
    }
    put(&stores, rows)?;
    let mut snapshots = Vec::new();
    for (number, store) in stores.iter().enumerate() {
        let to = directory("snapshot", number)?;
        store.snapshot(to.path())?;
        snapshots.push(to.path().to_owned());
    }
    drop(stores);
    let sources: Vec<&Path> = snapshots.iter().map(PathBuf::as_path).collect();
    let (mut linked, mut listed, mut written, mut live, mut files) = (0, 0, 0, 0, 0);
    let (mut restored_ms, mut merged_ms) = (0, 0);
    for number in 0..to {
        let disk: Arc<dyn Disk> = directory("new", number)?;
        let started = Instant::now();
        let options = options(segment_bytes, number, to);
        let store = Store::restore_shards(vec![disk], &sources, Verify::Listed, options)?;
        restored_ms += started.elapsed().as_millis();
        let before = store.stats();
        let started = Instant::now();
        // As a commit does if space is above the setting.
        while store.stats().bytes_debt > 0 && store.compact()? > 0 {}
        merged_ms += started.elapsed().as_millis();
        let after = store.stats();
        store.expire_before(1)?;
        store.commit()?;
        linked += before.bytes_files;
        listed += before.bytes_read;
        written += after.bytes_written - before.bytes_written;
        live += after.bytes_live;
        files += store.stats().bytes_files;
    }
    let over_live = |bytes: u64| bytes as f64 / live as f64;
    println!(
        "{from:4}{to:4}{:13.2}{:17.3}{restored_ms:13}{:14.2}{merged_ms:10}{:13.2}",
        over_live(linked),
        over_live(listed),
        over_live(written),
        over_live(files),
    );
    Ok(())
}
