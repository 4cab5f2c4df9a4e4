//! Visits the rows of a checkpoint one after another.
//!
//! - **Cost.** One read of each segment, with the snapshot's index in memory.
//! - **Failure.** A row whose length differs from the table's is damage.

use std::path::Path;
use std::sync::Arc;

use stepwell_base::Key;
use stepwell_base::stop::StopRequest;
use stepwell_disk::FileDisk;
use stepwell_ssd::{Error as StoreError, Manifest, StoreOptions, View};

use super::reader::{Checkpoint, OLDER};
use crate::table_spec::TableSpec;
use crate::{Error, Result};

/// Rows scanned between two checks for a stop request.
const ROWS_BETWEEN: u64 = 4096;

/// Called with each key, salted as in the store, and its row.
pub type Visit<'a, E> = dyn FnMut(Key, &[f32]) -> std::result::Result<(), E> + 'a;

/// Opens the snapshot of a store, with an index as large as its rows need.
///
/// # Errors
/// If the snapshot can't be read.
pub fn open_rows(path: &Path) -> Result<(View, Manifest)> {
    let disk = FileDisk::open(path)?;
    let manifest = Manifest::load(&disk)?;
    let options = StoreOptions {
        index_bytes_max: u64::MAX,
        ..StoreOptions::new(manifest.table, manifest.row_bytes as usize)
    };
    Ok((View::open(Arc::new(disk), options)?, manifest))
}

/// The lanes of a row.
pub fn lanes(row: &[u8]) -> Vec<f32> {
    let (lanes, _) = row.as_chunks::<4>();
    lanes.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

impl Checkpoint {
    /// Visits the existing rows of table `number`, in no particular order.
    ///
    /// # Errors
    /// The visitor's error, at once; if a row can't be read; and if a `stop` is requested.
    pub fn each_row<E: From<Error>>(
        &self,
        number: usize,
        spec: &TableSpec,
        stop: &StopRequest,
        visit: &mut Visit<'_, E>,
    ) -> std::result::Result<(), E> {
        let (mut failed, mut seen) = (None, 0);
        for rows in self.rows_of(number)? {
            let (store, _) = open_rows(&rows.path)?;
            let scanned = store.scan_live(&mut |key, _used, row| {
                seen += 1;
                if seen % ROWS_BETWEEN == 0 && stop.is_made() {
                    return Err(StoreError::Stopped);
                }
                let row = lanes(row);
                if row.len() != spec.row_lanes() {
                    let (has, wants, name) = (row.len(), spec.row_lanes(), &spec.name);
                    let why = format!(
                        "its rows have {has} lanes, but table '{name}' has {wants}: it is damaged; \
                         {OLDER}"
                    );
                    failed = Some(Error::Damaged { path: rows.path.clone(), why }.into());
                    return Err(StoreError::Stopped);
                }
                if !spec.owns(&row) || !spec.exists(&row, self.step) {
                    return Ok(());
                }
                visit(key, &row).map_err(|why| {
                    failed = Some(why);
                    StoreError::Stopped
                })
            });
            if let Some(why) = failed {
                return Err(why);
            }
            scanned.map_err(Error::from)?;
        }
        Ok(())
    }
}
