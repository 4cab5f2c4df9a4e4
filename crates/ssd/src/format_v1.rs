//! Reads stores of format version 1, to rewrite them in the current format.
//!
//! Pages of version 1 differ from those of version 2 in 8 bytes of a row's head, which hold the
//! row's sequence number: of two versions, the one with the higher number counts. Footers have the
//! same numbers, so only pages are read. `FORMAT.md` specifies both versions.
//!
//! - **Bounds.** A map of all keys: about 40 bytes each.

use std::collections::HashMap;

use serde::Deserialize;
use stepwell_base::Key;
use stepwell_disk::Disk;

use crate::identity::{Origin, StoreId};
use crate::layout::{Layout, ROW_BYTES_MAX};
use crate::manifest::{MANIFEST_BYTES_MAX, MANIFEST_NAME, checked_body};
use crate::numbers::{PageNumber, SegmentNumber};
use crate::segment::entry::SegmentEntry;
use crate::segment::{PageRead, SegmentFile, Spot, page};
use crate::stats::Counters;
use crate::{Error, Result};

/// The version that this module reads.
pub(crate) const VERSION: u64 = 1;

/// Callback for a row: segment, row number, key, sequence number, payload.
type VisitRow<'a> = dyn FnMut(SegmentNumber, u32, Key, u64, &[u8]) -> Result<()> + 'a;

/// The needed fields of a manifest of version 1.
#[derive(Debug, Deserialize)]
pub(crate) struct OldManifest {
    version: u64,
    table: u32,
    row_bytes: u64,
    page_bytes: u64,
    pub(crate) next_segment: u64,
    rows: u64,
    pub(crate) segments: Vec<SegmentEntry>,
}

impl OldManifest {
    /// The manifest in `disk`, if it is of version 1.
    pub(crate) fn load(disk: &dyn Disk) -> Result<Option<Self>> {
        if !disk.exists(MANIFEST_NAME)? {
            return Ok(None);
        }
        let bytes = disk.read(MANIFEST_NAME, MANIFEST_BYTES_MAX)?;
        let Some(body) = checked_body(&bytes) else { return Ok(None) };
        let manifest = serde_json::from_str::<Self>(&format!("{{\n{body}")).ok();
        let fits = |manifest: &Self| {
            let layout = Layout::old(manifest.table, manifest.row_bytes as usize);
            let holds = |entry: &SegmentEntry| {
                SegmentNumber::new(entry.segment).is_some()
                    && layout.footer_offset(entry.rows) <= entry.bytes
            };
            manifest.version == VERSION
                && layout.page_bytes as u64 == manifest.page_bytes
                && manifest.segments.iter().all(holds)
        };
        let admitted = |manifest: &Self| (1..=ROW_BYTES_MAX as u64).contains(&manifest.row_bytes);
        Ok(manifest.filter(|manifest| admitted(manifest) && fits(manifest)))
    }

    /// Checks that the store has the requested table and row size.
    pub(crate) fn check(&self, disk: &dyn Disk, table: u32, row_bytes: usize) -> Result<()> {
        if (self.table, self.row_bytes) == (table, row_bytes as u64) {
            return Ok(());
        }
        let why = format!(
            "holds rows of table {} of {} bytes, but table {table} of {row_bytes} was requested",
            self.table, self.row_bytes
        );
        Err(Error::Mismatch { path: disk.path().join(MANIFEST_NAME), why })
    }

    /// Calls `visit` with key and payload of every row of the store in `disk` that counts.
    pub(crate) fn for_each_current(
        &self,
        disk: &dyn Disk,
        visit: &mut dyn FnMut(Key, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut newest: HashMap<Key, (u64, SegmentNumber, u32)> = HashMap::new();
        self.for_each_row(disk, &mut |segment, row, key, seq, _| {
            let version = newest.entry(key).or_insert((seq, segment, row));
            *version = (*version).max((seq, segment, row));
            Ok(())
        })?;
        if newest.len() as u64 != self.rows {
            let why =
                format!("{} rows were found, the manifest counts {}", newest.len(), self.rows);
            let path = disk.path().join(MANIFEST_NAME);
            return Err(Error::Damaged { path, offset: 0, why });
        }
        self.for_each_row(disk, &mut |segment, row, key, seq, payload| match newest.get(&key)
            == Some(&(seq, segment, row))
        {
            true => visit(key, payload),
            false => Ok(()),
        })
    }

    /// Calls `visit` with segment, row number, key, sequence number and payload of every row.
    fn for_each_row(&self, disk: &dyn Disk, visit: &mut VisitRow<'_>) -> Result<()> {
        let layout = Layout::old(self.table, self.row_bytes as usize);
        let counters = Counters::new(1);
        for entry in &self.segments {
            let number = entry.here();
            let origin = Origin { store: StoreId::OLD, number };
            let spot = Spot {
                directory: 0,
                number,
                cached: false,
                layout,
                origin,
                counting: crate::key_shard::KeyShardSet::ALL,
            };
            let file = SegmentFile::open(disk, &spot)?;
            let bytes = file.file.len()?;
            if bytes != entry.bytes {
                let why = format!("the file has {bytes} bytes, the manifest says {}", entry.bytes);
                return Err(file.damaged(bytes.min(entry.bytes), why));
            }
            let pages = 1 + layout.pages(entry.rows);
            file.for_each_page(pages, &counters, &mut |PageRead { number, bytes, whole }| {
                if !whole {
                    let offset = layout.page_offset(number);
                    return Err(file.damaged(offset, "the page has a wrong checksum"));
                }
                let is_header = number == PageNumber::HEADER;
                let rows = if is_header { 0 } else { layout.rows_on(number, entry.rows) };
                for at in 0..rows {
                    let row = page::row(bytes, &layout, at);
                    let seq = u64::from(row.used) << 32 | u64::from(row.birth.0);
                    let number = layout.first_row(number) + at;
                    visit(file.number, number, row.key, seq, row.payload)?;
                }
                Ok(())
            })?;
        }
        Ok(())
    }
}
