//! The measured store and the raw file: their disk, and the rows that are put.

use std::path::Path;
use std::sync::Arc;

use stepwell_disk::{Disk, FileDisk};
use stepwell_ssd::StoreOptions;

use super::options::Options;
use super::rows::Rows;
use crate::Result;

/// The measured store, and the raw file.
pub(super) struct Bench<'a> {
    pub(super) options: &'a Options,
    pub(super) disk: Arc<FileDisk>,
    pub(super) rows: Rows,
}

impl<'a> Bench<'a> {
    pub(super) fn new(options: &'a Options, home: &Path) -> Result<Self> {
        let disk = Arc::new(FileDisk::open(home)?);
        let rows = Rows::new(options.rows, options.row_bytes, options.skew);
        Ok(Self { options, disk, rows })
    }

    pub(super) fn store_options(&self) -> StoreOptions {
        StoreOptions {
            rows_hint: self.options.rows,
            index_bytes_max: u64::MAX,
            read_depth: self.options.depth,
            ..StoreOptions::new(0, self.options.row_bytes)
        }
    }

    pub(super) fn subdirectory(&self, name: &str) -> Result<Arc<dyn Disk>> {
        Ok(self.disk.create_directory(&self.disk.path().join(name))?)
    }
}
