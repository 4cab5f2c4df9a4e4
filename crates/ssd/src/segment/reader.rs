//! Reading a segment's file back; nothing in it is trusted before its checksum was.

use std::sync::Arc;

use stepwell_base::hash::Checksum;
use stepwell_base::{Key, hash};
use stepwell_disk::{BLOCK_BYTES, Buffer, Disk, File};

use super::draft::{Deletion, Run};
use super::marks::{self, Fault, Tail};
use super::page::{self, u32_and_rest, u64_and_rest};
use super::{CHUNK_BYTES, name};
use crate::layout::{KEY_BYTES, Layout, RUN_BYTES, TAIL_BYTES};
use crate::options::ROW_BYTES_MAX;
use crate::stats::Counters;
use crate::{Error, FORMAT_VERSION, Result, SegmentEntry};

/// An open segment's file, its number, and the directory that it lies in.
#[derive(Debug)]
pub(crate) struct SegmentFile {
    pub(crate) number: u64,
    pub(crate) directory: usize,
    /// Whether it goes through the system's page cache.
    pub(crate) cached: bool,
    pub(crate) file: Arc<dyn File>,
}

/// What is done with a page: its number, its bytes, and whether it is whole.
pub(crate) type VisitPage<'a> = dyn FnMut(u32, &[u8], bool) -> Result<()> + 'a;

/// The parts of a footer after its keys.
#[derive(Clone, Debug, Default)]
pub(crate) struct Footer {
    pub(crate) runs: Vec<Run>,
    pub(crate) deletions: Vec<Deletion>,
    /// Checksum of the bytes that these were read from.
    sum: u64,
}

impl SegmentFile {
    /// Makes the file of a segment that takes so many bytes.
    pub(crate) fn create(
        disk: &dyn Disk,
        directory: usize,
        number: u64,
        bytes: u64,
        cached: bool,
    ) -> Result<Self> {
        let name = name(number);
        let file = if cached { disk.create(&name) } else { disk.create_direct(&name, bytes) };
        Ok(Self { number, directory, cached, file: file? })
    }

    pub(crate) fn open(disk: &dyn Disk, directory: usize, number: u64) -> Result<Self> {
        Self::open_as(disk, directory, number, false)
    }

    pub(crate) fn open_as(
        disk: &dyn Disk,
        directory: usize,
        number: u64,
        cached: bool,
    ) -> Result<Self> {
        let name = name(number);
        let file = if cached { disk.open(&name) } else { disk.open_direct(&name) };
        Ok(Self { number, directory, cached, file: file? })
    }

    pub(crate) fn damaged(&self, offset: u64, why: impl Into<String>) -> Error {
        Error::Damaged { path: self.file.path().to_owned(), offset, why: why.into() }
    }

    fn fault(&self, offset: u64, fault: Fault) -> Error {
        match fault {
            Fault::Damage(why) => self.damaged(offset, why),
            Fault::Version(found) => {
                let path = self.file.path().to_owned();
                Error::Version { path, found, known: FORMAT_VERSION }
            }
        }
    }

    /// Bytes from `offset` on, which need not be aligned.
    fn read(&self, offset: u64, bytes: usize, counters: &Counters) -> Result<Buffer> {
        let mut buffer = Buffer::new(bytes);
        self.file.read_at(offset, &mut buffer)?;
        counters.read(self.directory, buffer.len());
        Ok(buffer)
    }

    /// Checks header, length and tail against each other and the manifest.
    pub(crate) fn check(
        &self,
        layout: &Layout,
        entry: &SegmentEntry,
        counters: &Counters,
    ) -> Result<Tail> {
        let bytes = self.file.len()?;
        if bytes != entry.bytes || !bytes.is_multiple_of(BLOCK_BYTES as u64) {
            let why = format!("the file has {bytes} bytes, the manifest says {}", entry.bytes);
            return Err(self.damaged(bytes.min(entry.bytes), why));
        }
        self.check_header(layout, counters)?;
        let tail = self.tail(layout, bytes, counters)?;
        let (found, sum) = (tail.sum(layout, self.number), entry.sum());
        if tail.counts.rows != entry.rows || found != sum {
            let why = format!(
                "{} rows and checksum {found:016x}, the manifest says {} and {sum:016x}",
                tail.counts.rows, entry.rows
            );
            return Err(self.damaged(bytes - TAIL_BYTES as u64, why));
        }
        Ok(tail)
    }

    pub(crate) fn check_header(&self, layout: &Layout, counters: &Counters) -> Result<()> {
        let header = self.read(0, layout.page_bytes, counters)?;
        marks::check_header(&header, layout, self.number).map_err(|f| self.fault(0, f))
    }

    /// The tail of a file of so many bytes, which fits them.
    pub(crate) fn tail(&self, layout: &Layout, bytes: u64, counters: &Counters) -> Result<Tail> {
        let short = || self.damaged(bytes, "the file does not have the length of a segment");
        let whole = bytes.is_multiple_of(BLOCK_BYTES as u64);
        let at = bytes.checked_sub(BLOCK_BYTES as u64).filter(|_| whole).ok_or_else(short)?;
        let block = self.read(at, BLOCK_BYTES, counters)?;
        let offset = bytes - TAIL_BYTES as u64;
        let last = block.last_chunk().ok_or_else(short)?;
        let tail = Tail::decode(last, layout, self.number).map_err(|f| self.fault(offset, f))?;
        if layout.file_bytes(&tail.counts) != bytes {
            return Err(self.damaged(offset, "the tail is that of a file of another length"));
        }
        Ok(tail)
    }

    /// Runs and deletions of a footer; trusted only once [`SegmentFile::for_each_key`] was
    /// through with it.
    pub(crate) fn footer(
        &self,
        layout: &Layout,
        tail: &Tail,
        counters: &Counters,
    ) -> Result<Footer> {
        let start = layout.footer_offset(tail.counts.rows);
        let (from, to) = (after_keys(layout, tail), start + tail.counts.footer_bytes());
        let aligned = from - from % BLOCK_BYTES as u64;
        let buffer = self.read(aligned, (to - aligned) as usize, counters)?;
        let bytes = &buffer[(from - aligned) as usize..(to - aligned) as usize];
        let (runs, deletions) = bytes.split_at(tail.counts.runs as usize * RUN_BYTES as usize);
        let sum = hash::checksum(bytes);
        let footer =
            Footer { runs: decode_runs(runs), deletions: decode_deletions(deletions), sum };
        let rows: u64 = footer.runs.iter().map(|run| u64::from(run.rows)).sum();
        if rows != u64::from(tail.counts.rows) {
            return Err(self.damaged(from, format!("the runs have {rows} rows together")));
        }
        Ok(footer)
    }

    /// Visits row number, key and birth of every row, in order.
    ///
    /// Rows are visited before the footer's checksum is known: on an error all of them are void.
    pub(crate) fn for_each_key(
        &self,
        layout: &Layout,
        tail: &Tail,
        footer: &Footer,
        counters: &Counters,
        visit: &mut dyn FnMut(u32, Key, u32) -> Result<()>,
    ) -> Result<()> {
        let start = layout.footer_offset(tail.counts.rows);
        let end = start + tail.counts.footer_bytes();
        // Runs and deletions were read before: what was read then must be what is summed now.
        let (mut sum, mut after_keys) = (Checksum::new(), Checksum::new());
        let mut births = footer.runs.iter().flat_map(|run| repeat(run.birth, run.rows));
        let (mut offset, mut row) = (start, 0);
        while offset < end {
            let bytes = (end - offset).min(CHUNK_BYTES) as usize;
            let chunk = self.read(offset, bytes, counters)?;
            sum.update(&chunk[..bytes]);
            let left = (tail.counts.rows - row) as usize;
            after_keys.update(&chunk[bytes.min(left * KEY_BYTES as usize)..bytes]);
            for key in chunk[..bytes].chunks_exact(KEY_BYTES as usize).take(left) {
                // The runs were counted: there is a birth for every row.
                visit(row, Key(u64_and_rest(key).0), births.next().unwrap_or_default())?;
                row += 1;
            }
            offset += bytes as u64;
        }
        if sum.value() != tail.footer_sum || after_keys.value() != footer.sum {
            return Err(self.damaged(start, "the footer does not have its checksum"));
        }
        Ok(())
    }

    /// Key and birth of the rows on one page, from a footer that was checked.
    pub(crate) fn keys_of_page(
        &self,
        layout: &Layout,
        tail: &Tail,
        footer: &Footer,
        page: u32,
        counters: &Counters,
    ) -> Result<Vec<(Key, u32)>> {
        let rows = layout.rows_on(page, tail.counts.rows);
        let first = layout.first_row(page);
        let from = layout.footer_offset(tail.counts.rows) + u64::from(first) * KEY_BYTES;
        let aligned = from - from % BLOCK_BYTES as u64;
        let bytes = rows as usize * KEY_BYTES as usize;
        let skipped = (from - aligned) as usize;
        let buffer = self.read(aligned, skipped + bytes, counters)?;
        let keys = buffer[skipped..skipped + bytes].chunks_exact(KEY_BYTES as usize);
        let births = footer.runs.iter().flat_map(|run| repeat(run.birth, run.rows));
        let births = births.skip(first as usize);
        Ok(keys.map(|key| Key(u64_and_rest(key).0)).zip(births).collect())
    }

    /// Visits every page with its bytes, the header included, and whether it is whole. A page that
    /// cannot be read is none.
    pub(crate) fn for_each_page(
        &self,
        layout: &Layout,
        pages: u32,
        counters: &Counters,
        visit: &mut VisitPage<'_>,
    ) -> Result<()> {
        let at_once = (CHUNK_BYTES / layout.page_bytes as u64).max(1) as u32;
        let mut first = 0;
        while first < pages {
            let count = at_once.min(pages - first);
            let bytes = count as usize * layout.page_bytes;
            let chunk = self.read(layout.page_offset(first), bytes, counters);
            let chunk = chunk.or_else(|_| self.read_what_can_be(layout, first, count, counters))?;
            for (page, number) in chunk.chunks_exact(layout.page_bytes).zip(first..first + count) {
                visit(number, page, page::is_whole(page, layout.table, self.number, number))?;
            }
            first += count;
        }
        Ok(())
    }

    /// Pages one by one, zeros in the place of those that cannot be read.
    fn read_what_can_be(
        &self,
        layout: &Layout,
        first: u32,
        count: u32,
        counters: &Counters,
    ) -> Result<Buffer> {
        let mut chunk = Buffer::new(count as usize * layout.page_bytes);
        for (page, number) in chunk.chunks_exact_mut(layout.page_bytes).zip(first..) {
            if let Ok(bytes) = self.read(layout.page_offset(number), page.len(), counters) {
                page.copy_from_slice(&bytes);
            }
        }
        Ok(chunk)
    }

    /// Reads the whole file and checks every sum in it.
    pub(crate) fn check_all(
        &self,
        layout: &Layout,
        entry: &SegmentEntry,
        counters: &Counters,
    ) -> Result<()> {
        let tail = self.check(layout, entry, counters)?;
        let footer = self.footer(layout, &tail, counters)?;
        self.for_each_key(layout, &tail, &footer, counters, &mut |_, _, _| Ok(()))?;
        let pages = 1 + layout.pages(tail.counts.rows);
        let mut sums = Checksum::new();
        self.for_each_page(layout, pages, counters, &mut |number, page, whole| {
            sums.update(&page::sum(page).to_le_bytes());
            let offset = layout.page_offset(number);
            let why = "the page does not have its checksum";
            if whole { Ok(()) } else { Err(self.damaged(offset, why)) }
        })?;
        if sums.value() != tail.pages_sum {
            return Err(self.damaged(0, "the pages' checksums do not have theirs"));
        }
        Ok(())
    }
}

/// Where a footer's runs start.
fn after_keys(layout: &Layout, tail: &Tail) -> u64 {
    layout.footer_offset(tail.counts.rows) + u64::from(tail.counts.rows) * KEY_BYTES
}

fn repeat(birth: u32, rows: u32) -> impl Iterator<Item = u32> {
    std::iter::repeat_n(birth, rows as usize)
}

fn decode_runs(bytes: &[u8]) -> Vec<Run> {
    let run = |bytes: &[u8]| {
        let (birth, rest) = u32_and_rest(bytes);
        Run { birth, rows: u32_and_rest(rest).0 }
    };
    bytes.chunks_exact(RUN_BYTES as usize).map(run).collect()
}

fn decode_deletions(bytes: &[u8]) -> Vec<Deletion> {
    let deletion = |bytes: &[u8]| {
        let (key, rest) = u64_and_rest(bytes);
        let (birth, rest) = u32_and_rest(rest);
        Deletion { key: Key(key), birth, row: u32_and_rest(rest).0 }
    };
    bytes.chunks_exact(crate::layout::DELETION_BYTES as usize).map(deletion).collect()
}

/// The layout that a file's header page tells, where that is whole.
pub(crate) fn layout_of(file: &SegmentFile) -> Result<Option<Layout>> {
    let length = file.file.len()?;
    let mut block = Buffer::new(BLOCK_BYTES);
    if length < block.len() as u64 {
        return Ok(None);
    }
    file.file.read_at(0, &mut block)?;
    let (_, rest) = u64_and_rest(&block);
    let (_, rest) = u32_and_rest(rest);
    let (table, rest) = u32_and_rest(rest);
    let row_bytes = u32_and_rest(rest).0 as usize;
    if !(1..=ROW_BYTES_MAX).contains(&row_bytes) {
        return Ok(None);
    }
    let layout = Layout::new(table, row_bytes);
    if length < layout.page_bytes as u64 {
        return Ok(None);
    }
    let mut page = Buffer::new(layout.page_bytes);
    file.file.read_at(0, &mut page)?;
    let whole = marks::check_header(&page, &layout, file.number).is_ok();
    Ok(whole.then_some(layout))
}
