//! The rows of a checkpoint, one after the other.

use std::path::Path;
use std::sync::Arc;

use stepwell_base::Key;
use stepwell_base::stop::StopRequest;
use stepwell_disk::FileDisk;
use stepwell_engine::room::{Wants, lacks};
use stepwell_engine::{Checkpoint, TableSpec};
use stepwell_ssd::{Manifest, StoreOptions, View};

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

/// A snapshot of a store, opened.
pub(crate) fn open(path: &Path) -> Result<(View, Manifest), Failure> {
    let disk = FileDisk::open(path)?;
    let manifest = Manifest::load(&disk)?;
    let options = StoreOptions {
        index_bytes_max: u64::MAX,
        ..StoreOptions::new(manifest.table, manifest.row_bytes as usize)
    };
    Ok((View::open(Arc::new(disk), options)?, manifest))
}

/// The lanes of a row.
pub(crate) fn lanes(row: &[u8]) -> Vec<f32> {
    let (lanes, _) = row.as_chunks::<4>();
    lanes.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

/// Rows between two looks at whether somebody asked to stop.
const ROWS_BETWEEN: u64 = 4096;

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
    let (mut failed, mut seen, salt) = (None, 0, spec.salt());
    for rows in checkpoint.rows_of(number)? {
        let (store, _) = open(&rows.path)?;
        let scanned = store.scan_live(&mut |key, _used, row| {
            seen += 1;
            if seen % ROWS_BETWEEN == 0 && stop.is_made() {
                return Err(stepwell_ssd::Error::Stopped);
            }
            let row = lanes(row);
            if row.len() != spec.row_lanes() {
                failed = Some(Failure::Damage(format!(
                    "{}: its rows have {} lanes, and table '{}' has {}: it is damaged",
                    rows.path.display(),
                    row.len(),
                    spec.name,
                    spec.row_lanes()
                )));
                return Err(stepwell_ssd::Error::Stopped);
            }
            if !spec.owns(&row) || !spec.exists(&row, checkpoint.step) {
                return Ok(());
            }
            visit(key.salted(salt), &row).map_err(|why| {
                failed = Some(why);
                stepwell_ssd::Error::Stopped
            })
        });
        if let Some(why) = failed {
            return Err(why);
        }
        scanned?;
    }
    Ok(())
}
