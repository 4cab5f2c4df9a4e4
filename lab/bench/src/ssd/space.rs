//! Measures the space of a full segment, for rows of many sizes.
//!
//! - **How.** For each size, a small store with default options gets as many rows as fill one
//!   segment, and one commit. The result is the lengths of its files, without the manifest.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use stepwell_disk::Disk;
use stepwell_ssd::{LOCK_NAME, MANIFEST_NAME, Store, StoreOptions};

use super::bench::Bench;
use super::figures::Figures;
use super::rows::key;
use crate::{Error, Result};

/// Rows for which the head of 16 bytes and the list entry of 9 weigh most: 89 bytes for 64 are
/// 1.39.
const SMALL_BYTES: usize = 64;
const STEP_BYTES: usize = 512;
const LARGEST_BYTES: usize = 16_384;

impl Bench<'_> {
    /// The maximum over sizes from 512 to 16384 bytes, and 64 bytes separately.
    pub(super) fn row_space(&self, figures: &mut Figures, say: &mut dyn FnMut(&str)) -> Result<()> {
        say("full segments of rows of 64 to 16384 bytes");
        figures.row_space_64 = self.row_space_of(SMALL_BYTES)?;
        for row_bytes in (STEP_BYTES..=LARGEST_BYTES).step_by(STEP_BYTES) {
            let space = self.row_space_of(row_bytes)?;
            figures.row_space_worst = figures.row_space_worst.max(space);
        }
        Ok(())
    }

    fn row_space_of(&self, row_bytes: usize) -> Result<f64> {
        let disk = self.subdirectory(&format!("rows-of-{row_bytes}"))?;
        let space = row_space(&disk, row_bytes);
        let _ = fs::remove_dir_all(disk.path());
        space
    }
}

/// Bytes of a full segment's file divided by bytes of its rows' payload.
fn row_space(disk: &Arc<dyn Disk>, row_bytes: usize) -> Result<f64> {
    const BATCH: u64 = 1024;
    let options = StoreOptions { index_bytes_max: u64::MAX, ..StoreOptions::new(0, row_bytes) };
    let count = u64::from(options.segment_rows());
    let store = Store::create(Arc::clone(disk), options)?;
    let rows = vec![0x5A; BATCH as usize * row_bytes];
    for first in (0..count).step_by(BATCH as usize) {
        let keys: Vec<_> = (first..count.min(first + BATCH)).map(key).collect();
        store.put_many(&keys, &vec![0; keys.len()], &rows[..keys.len() * row_bytes])?;
    }
    store.commit()?;
    let files = segments(disk.path())?;
    if files.len() != 1 {
        let why = format!(
            "{count} rows of {row_bytes} bytes should fill one segment, but the files have \
             {files:?} bytes"
        );
        return Err(Error::Arguments(why));
    }
    Ok(files[0] as f64 / (count * row_bytes as u64) as f64)
}

/// Lengths of a store's files without its manifest and lock.
fn segments(directory: &Path) -> Result<Vec<u64>> {
    let cannot = |error| {
        let why = format!("cannot list {}: {error}", directory.display());
        Error::Arguments(why)
    };
    let mut lengths = Vec::new();
    for entry in fs::read_dir(directory).map_err(cannot)? {
        let entry = entry.map_err(cannot)?;
        if entry.file_name() != MANIFEST_NAME && entry.file_name() != LOCK_NAME {
            lengths.push(entry.metadata().map_err(cannot)?.len());
        }
    }
    Ok(lengths)
}

#[cfg(test)]
mod tests {
    use stepwell_disk::FileDisk;

    use super::*;

    #[test]
    fn a_row_takes_its_head_and_its_place_in_the_list() {
        let home = tempfile::tempdir().unwrap();
        for (row_bytes, least, most) in [(64, 1.390, 1.405), (4096, 1.0061, 1.103)] {
            let path = home.path().join(row_bytes.to_string());
            let disk: Arc<dyn Disk> = Arc::new(FileDisk::create(&path).unwrap());
            let space = row_space(&disk, row_bytes).unwrap();
            assert!((least..most).contains(&space), "rows of {row_bytes} bytes: {space}");
        }
    }
}
