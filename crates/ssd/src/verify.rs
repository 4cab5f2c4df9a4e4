//! Checking every byte of a store or snapshot against its checksums.

use stepwell_base::Key;
use stepwell_disk::Disk;

use crate::layout::Layout;
use crate::manifest::sum_text;
use crate::segment::{CHUNK_BYTES, SegmentFile, page};
use crate::stats::Counters;
use crate::{Manifest, Result, SegmentEntry};

/// What was checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Number of the commit.
    pub commit: u64,
    /// Segments that it names.
    pub segments: u64,
    /// Data pages in them.
    pub pages: u64,
    /// Rows in them, live and stale.
    pub rows: u64,
    /// Bytes of their files.
    pub bytes: u64,
}

/// Reads everything that the manifest in `disk` names and checks it: each file's length and
/// checksum, each page's, the lists of keys against the pages.
///
/// Holds 16 bytes for each row of a segment, and a chunk of its file.
///
/// # Errors
/// The first thing that does not fit, by file and offset.
pub fn verify(disk: &dyn Disk) -> Result<Verified> {
    let manifest = Manifest::load(disk)?;
    let mut verified = Verified { commit: manifest.commit, ..Verified::default() };
    for entry in &manifest.segments {
        let layout = manifest.layout();
        verify_segment(disk, &layout, entry)?;
        verified.segments += 1;
        verified.pages += u64::from(entry.rows.div_ceil(layout.rows_per_page));
        verified.rows += u64::from(entry.rows);
        verified.bytes += entry.bytes;
    }
    Ok(verified)
}

fn verify_segment(disk: &dyn Disk, layout: &Layout, entry: &SegmentEntry) -> Result<()> {
    let counters = Counters::default();
    let file = SegmentFile::open(disk, entry.segment)?;
    let tail = file.check(layout, entry, &counters)?;
    let on_pages = verify_pages(&file, layout, entry.rows)?;
    file.for_each_entry(layout, &tail, &counters, &mut |row, key, seq| {
        if on_pages.get(row as usize) == Some(&(key, seq)) {
            return Ok(());
        }
        let offset = layout.footer_offset(entry.rows);
        Err(file.damaged(offset, format!("the list of keys names another row {row} than its page")))
    })?;
    let found = sum_text(file.checksum(entry.bytes, &counters)?);
    if found != entry.checksum {
        let why = format!("checksum {found} of the file, the manifest says {}", entry.checksum);
        return Err(file.damaged(0, why));
    }
    Ok(())
}

/// Checks every data page; returns key and sequence number of every row.
fn verify_pages(file: &SegmentFile, layout: &Layout, rows: u32) -> Result<Vec<(Key, u64)>> {
    let pages = rows.div_ceil(layout.rows_per_page);
    let chunk_pages = (CHUNK_BYTES / layout.page_bytes as u64).max(1) as u32;
    let mut found = Vec::with_capacity(rows as usize);
    let mut first = 1;
    while first <= pages {
        let count = chunk_pages.min(pages + 1 - first);
        let mut chunk = vec![0; count as usize * layout.page_bytes];
        file.file.read_at(layout.page_offset(first), &mut chunk)?;
        for (bytes, number) in chunk.chunks_exact(layout.page_bytes).zip(first..) {
            if !page::is_whole(bytes, layout.table, file.number, number) {
                let offset = layout.page_offset(number);
                return Err(file.damaged(offset, "the page does not have its checksum"));
            }
            let on_page = (number - 1) * layout.rows_per_page;
            for row in (on_page..rows).take(layout.rows_per_page as usize) {
                let row = page::row(bytes, layout, row);
                found.push((row.key, row.seq));
            }
        }
        first += count;
    }
    Ok(found)
}
