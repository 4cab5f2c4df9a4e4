//! The rows of a checkpoint, one after the other.

use stepwell_base::Key;
use stepwell_base::stop::StopRequest;
use stepwell_disk::FileDisk;
use stepwell_engine::room::{Wants, lacks};
use stepwell_engine::{Checkpoint, TableSpec};
use stepwell_ssd::{Manifest, StoreOptions};

use crate::failure::Failure;

/// Threads that open a store, of a few rows and of many, and those of its reads.
const THREADS: u64 = 3;
/// Bytes of reads, of writes and of rows that wait.
const BUFFER_BYTES: u64 = 96 << 20;

/// Bytes of the largest index of a store of a checkpoint's; where `together`, of those that all
/// ranks have of one table group.
pub(crate) fn largest_index(checkpoint: &Checkpoint, together: bool) -> u64 {
    let mut of_groups: Vec<u64> = Vec::new();
    for rows in &checkpoint.rows {
        // What cannot be read is told when it is opened.
        let manifest = FileDisk::open(&rows.path).ok().and_then(|disk| Manifest::load(&disk).ok());
        let bytes = manifest.map_or(0, |manifest| {
            let rows = manifest.segments.iter().map(|segment| u64::from(segment.rows)).sum();
            index_bytes(rows, manifest.row_bytes as usize)
        });
        match of_groups.get_mut(rows.group).filter(|_| together) {
            Some(of_group) => *of_group += bytes,
            None => of_groups.push(bytes),
        }
    }
    of_groups.into_iter().max().unwrap_or(0)
}

/// Bytes of the index of a store of so many rows.
pub(crate) fn index_bytes(rows: u64, row_bytes: usize) -> u64 {
    // A scan has a bit for each row.
    StoreOptions::new(0, row_bytes).index_bytes_for(rows) + rows / 8
}

/// Refuses what takes so many bytes, beside buffers, where this process has no room for them.
pub(crate) fn refuse_lack(bytes: u64) -> Result<(), String> {
    let bytes = bytes.saturating_add(BUFFER_BYTES);
    let wants = Wants { bytes, mapped: 0, threads: THREADS, processes: 1 };
    lacks(&wants).map_or(Ok(()), Err)
}

/// What is done with the row of a key.
pub(crate) type VisitRow<'a> = dyn FnMut(Key, &[f32]) -> Result<(), Failure> + 'a;

/// Visits the rows of table `number` that exist, with their keys, in no particular order.
///
/// # Errors
/// The visitor's, at once; when a row cannot be read; and when somebody asks to `stop`.
pub(crate) fn each_row(
    checkpoint: &Checkpoint,
    (number, spec): (usize, &TableSpec),
    stop: &StopRequest,
    visit: &mut VisitRow<'_>,
) -> Result<(), Failure> {
    let salt = spec.salt();
    checkpoint.each_row((number, spec), stop, &mut |key, row: &[f32]| visit(key.salted(salt), row))
}
