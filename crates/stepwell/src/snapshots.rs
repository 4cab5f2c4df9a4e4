//! The rows of a checkpoint, one after the other.

use std::path::Path;
use std::sync::Arc;

use stepwell_disk::FileDisk;
use stepwell_ssd::{Manifest, StoreOptions, View};

/// A snapshot of a store, opened.
pub(crate) fn open(path: &Path) -> Result<(View, Manifest), String> {
    let message = |error: stepwell_ssd::Error| error.to_string();
    let disk = FileDisk::open(path).map_err(|error| error.to_string())?;
    let manifest = Manifest::load(&disk).map_err(message)?;
    let options = StoreOptions {
        index_bytes_max: u64::MAX,
        ..StoreOptions::new(manifest.table, manifest.row_bytes as usize)
    };
    Ok((View::open(Arc::new(disk), options).map_err(message)?, manifest))
}

/// The lanes of a row.
pub(crate) fn lanes(row: &[u8]) -> Vec<f32> {
    let (lanes, _) = row.as_chunks::<4>();
    lanes.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}
