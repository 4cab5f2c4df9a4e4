//! Visits the rows of a checkpoint.

use std::collections::BTreeMap;
use std::path::Path;

use stepwell_base::Key;
use stepwell_base::stop::StopRequest;
use stepwell_disk::FileDisk;
use stepwell_engine::process_limits::{Wants, lacks};
use stepwell_engine::{Checkpoint, TableSpec};
use stepwell_ssd::{Manifest, StoreOptions};

use crate::failure::Failure;

/// Threads that open a store, of a few rows or of many, including its read threads.
const THREADS: u64 = 3;
/// Bytes for buffers of reads, writes and rows.
const BUFFER_BYTES: u64 = 96 << 20;

/// Bytes of the largest index among a checkpoint's stores.
pub(crate) fn largest_index(checkpoint: &Checkpoint) -> u64 {
    checkpoint.rows.iter().map(|rows| index_of(&rows.path)).max().unwrap_or(0)
}

/// Bytes of the indexes of all ranks for one table group, the largest sum over groups.
pub(crate) fn largest_indexes_of_group(checkpoint: &Checkpoint) -> u64 {
    let mut of_groups = BTreeMap::new();
    for rows in &checkpoint.rows {
        *of_groups.entry(rows.group).or_default() += index_of(&rows.path);
    }
    of_groups.into_values().max().unwrap_or(0)
}

/// Bytes of the index of a store; 0 if the store cannot be read, as opening it fails later.
fn index_of(store: &Path) -> u64 {
    let manifest = FileDisk::open(store).ok().and_then(|disk| Manifest::load(&disk).ok());
    manifest.map_or(0, |manifest| {
        let rows = manifest.segments.iter().map(|segment| u64::from(segment.rows)).sum();
        index_bytes(rows, manifest.row_bytes as usize)
    })
}

/// Bytes of the index of a store with `rows` rows.
pub(crate) fn index_bytes(rows: u64, row_bytes: usize) -> u64 {
    // A scan has a bit for each row.
    StoreOptions::new(0, row_bytes).index_bytes_for(rows) + rows / 8
}

/// Fails if this process has no room for so many bytes and the buffers.
pub(crate) fn refuse_lack(bytes: u64) -> Result<(), String> {
    let bytes = bytes.saturating_add(BUFFER_BYTES);
    let wants = Wants { bytes, mapped: 0, threads: THREADS, processes: 1 };
    lacks(&wants).map_or(Ok(()), Err)
}

/// A visitor of a key's row.
pub(crate) type VisitRow<'a> = dyn FnMut(Key, &[f32]) -> Result<(), Failure> + 'a;

/// Visits the existing rows of table `number` with their keys, in no particular order.
///
/// # Errors
/// The visitor's first error; if a row cannot be read; on a request to `stop`.
pub(crate) fn each_row(
    checkpoint: &Checkpoint,
    number: usize,
    spec: &TableSpec,
    stop: &StopRequest,
    visit: &mut VisitRow<'_>,
) -> Result<(), Failure> {
    let salt = spec.salt();
    checkpoint.each_row(number, spec, stop, &mut |key, row: &[f32]| visit(key.salted(salt), row))
}
