//! Reads a segment's file back; nothing in it is trusted before its checksum was verified.

use std::sync::Arc;

use stepwell_base::Key;
use stepwell_base::hash::Checksum;
use stepwell_disk::{BLOCK_BYTES, Buffer, Disk, File};

use super::entry::SegmentEntry;
use super::header_and_tail::{self, Fault, Header, Tail};
use super::page::{self, Row};
use super::{READ_BYTES, name};
use crate::identity::Origin;
use crate::key_shard::KeyShardSet;
use crate::layout::{FORMAT_VERSION, Layout, TAIL_BYTES};
use crate::numbers::{PageNumber, SegmentNumber};
use crate::stats::Counters;
use crate::{Error, Result};

/// An open segment file: its number here, its directory, and its format.
#[derive(Debug)]
pub(crate) struct SegmentFile {
    pub(crate) number: SegmentNumber,
    pub(crate) directory: usize,
    /// Whether the file uses the system's page cache.
    pub(crate) cached: bool,
    pub(crate) file: Arc<dyn File>,
    pub(crate) layout: Layout,
    pub(crate) origin: Origin,
    /// The key shards whose rows and deletions count.
    pub(crate) counting: KeyShardSet,
}

/// A page as it was read.
#[derive(Clone, Copy)]
pub(crate) struct PageRead<'a> {
    pub(crate) number: PageNumber,
    pub(crate) bytes: &'a [u8],
    /// Whether the page is intact and in its place.
    pub(crate) whole: bool,
}

pub(crate) type VisitPage<'a> = dyn FnMut(PageRead<'_>) -> Result<()> + 'a;

/// A segment to create or open: its place and its format.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spot {
    pub(crate) directory: usize,
    pub(crate) number: SegmentNumber,
    pub(crate) cached: bool,
    pub(crate) layout: Layout,
    pub(crate) origin: Origin,
    pub(crate) counting: KeyShardSet,
}

impl SegmentFile {
    fn new(spot: &Spot, file: Arc<dyn File>) -> Self {
        let Spot { directory, number, cached, layout, origin, counting } = *spot;
        Self { number, directory, cached, file, layout, origin, counting }
    }

    /// Creates a segment's file, which will take `bytes` bytes.
    pub(crate) fn create(disk: &dyn Disk, spot: &Spot, bytes: u64) -> Result<Self> {
        let name = name(spot.number);
        let file = if spot.cached { disk.create(&name) } else { disk.create_direct(&name, bytes) };
        Ok(Self::new(spot, file?))
    }

    pub(crate) fn open(disk: &dyn Disk, spot: &Spot) -> Result<Self> {
        let name = name(spot.number);
        let file = if spot.cached { disk.open(&name) } else { disk.open_direct(&name) };
        Ok(Self::new(spot, file?))
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

    /// Reads `bytes` bytes from `offset`, which need not be aligned.
    pub(super) fn read(&self, offset: u64, bytes: usize, counters: &Counters) -> Result<Buffer> {
        let mut buffer = Buffer::new(bytes);
        self.read_into(offset, bytes, &mut buffer, counters)?;
        Ok(buffer)
    }

    /// Reads `bytes` bytes into the front of a buffer that is large enough.
    pub(super) fn read_into<'a>(
        &self,
        offset: u64,
        bytes: usize,
        buffer: &'a mut Buffer,
        counters: &Counters,
    ) -> Result<&'a [u8]> {
        let blocks = bytes.next_multiple_of(BLOCK_BYTES);
        self.file.read_at(offset, &mut buffer[..blocks])?;
        counters.read(self.directory, blocks);
        Ok(&buffer[..bytes])
    }

    /// Checks header, length and tail against each other and the manifest.
    pub(crate) fn check(&self, entry: &SegmentEntry, counters: &Counters) -> Result<Tail> {
        let bytes = self.file.len()?;
        if bytes != entry.bytes || !bytes.is_multiple_of(BLOCK_BYTES as u64) {
            let why = format!("the file has {bytes} bytes, the manifest says {}", entry.bytes);
            return Err(self.damaged(bytes.min(entry.bytes), why));
        }
        self.check_header(counters)?;
        let tail = self.tail(bytes, counters)?;
        let (found, sum) = (tail.sum(&self.layout, &self.origin), entry.sum());
        if tail.counts.rows != entry.rows || found != sum {
            let why = format!(
                "{} rows and checksum {found:016x}, the manifest says {} and {sum:016x}",
                tail.counts.rows, entry.rows
            );
            return Err(self.damaged(bytes - TAIL_BYTES as u64, why));
        }
        Ok(tail)
    }

    pub(crate) fn check_header(&self, counters: &Counters) -> Result<()> {
        let header = self.read(0, self.layout.page_bytes, counters)?;
        header_and_tail::check_header(&header, &self.layout, &self.origin)
            .map_err(|f| self.fault(0, f))
    }

    /// Reads the tail of a file of `bytes` bytes; it must match that length.
    pub(crate) fn tail(&self, bytes: u64, counters: &Counters) -> Result<Tail> {
        let short = || self.damaged(bytes, "no segment has this file's length");
        let whole = bytes.is_multiple_of(BLOCK_BYTES as u64);
        let at = bytes.checked_sub(BLOCK_BYTES as u64).filter(|_| whole).ok_or_else(short)?;
        let block = self.read(at, BLOCK_BYTES, counters)?;
        let offset = bytes - TAIL_BYTES as u64;
        let last = block.last_chunk().ok_or_else(short)?;
        let tail = Tail::decode(last, &self.layout, &self.origin);
        let tail = tail.map_err(|f| self.fault(offset, f))?;
        if self.layout.file_bytes(&tail.counts) != bytes {
            return Err(self.damaged(offset, "the tail does not match the file's length"));
        }
        Ok(tail)
    }

    /// Reads one data page and checks it.
    pub(crate) fn page(&self, number: PageNumber, counters: &Counters) -> Result<Buffer> {
        let offset = self.layout.page_offset(number);
        let bytes = self.read(offset, self.layout.page_bytes, counters)?;
        if page::is_whole(&bytes, self.layout.table, &self.origin, number) {
            return Ok(bytes);
        }
        Err(self.damaged(offset, "the page has a wrong checksum"))
    }

    /// Calls `visit` for every page, including the header. An unreadable page counts as damaged.
    pub(crate) fn for_each_page(
        &self,
        pages: u32,
        counters: &Counters,
        visit: &mut VisitPage<'_>,
    ) -> Result<()> {
        let layout = &self.layout;
        let at_once = (READ_BYTES / layout.page_bytes as u64).max(1) as u32;
        let (mut first, end) = (PageNumber::HEADER, PageNumber::HEADER + pages);
        while first < end {
            let count = at_once.min(end - first);
            let bytes = count as usize * layout.page_bytes;
            let together = self.read(layout.page_offset(first), bytes, counters);
            let together = match together {
                Err(error) if !error.is_no_descriptor() => {
                    self.read_what_can_be(first, count, counters)?
                }
                read => read?,
            };
            for (bytes, number) in together.chunks_exact(layout.page_bytes).zip(first.onwards()) {
                let whole = page::is_whole(bytes, layout.table, &self.origin, number);
                visit(PageRead { number, bytes, whole })?;
            }
            first = first + count;
        }
        Ok(())
    }

    /// Reads pages one by one; unreadable ones are zeros.
    fn read_what_can_be(
        &self,
        first: PageNumber,
        count: u32,
        counters: &Counters,
    ) -> Result<Buffer> {
        let layout = &self.layout;
        let mut together = Buffer::new(count as usize * layout.page_bytes);
        for (page, number) in together.chunks_exact_mut(layout.page_bytes).zip(first.onwards()) {
            match self.read(layout.page_offset(number), page.len(), counters) {
                Ok(bytes) => page.copy_from_slice(&bytes),
                Err(error) if error.is_no_descriptor() => return Err(error),
                Err(_) => {}
            }
        }
        Ok(together)
    }

    /// Reads the whole file and checks every sum in it.
    pub(crate) fn check_all(&self, entry: &SegmentEntry, counters: &Counters) -> Result<()> {
        let tail = self.check(entry, counters)?;
        self.footer(&tail, counters)?;
        let pages = 1 + self.layout.pages(tail.counts.rows);
        let mut sums = Checksum::new();
        self.for_each_page(pages, counters, &mut |page| {
            sums.update(&page::sum(page.bytes).to_le_bytes());
            let offset = self.layout.page_offset(page.number);
            let why = "the page has a wrong checksum";
            if page.whole { Ok(()) } else { Err(self.damaged(offset, why)) }
        })?;
        if sums.value() != tail.pages_sum {
            return Err(self.damaged(0, "the checksum over all pages is wrong"));
        }
        Ok(())
    }
}

/// The last row of `key` on a page of a segment of `rows` rows, and its number.
pub(crate) fn row_of<'a>(
    bytes: &'a [u8],
    layout: &Layout,
    page: PageNumber,
    rows: u32,
    key: Key,
) -> Option<(u32, Row<'a>)> {
    let (at, row) = page::find(bytes, layout, layout.rows_on(page, rows), key)?;
    Some((layout.first_row(page) + at, row))
}

/// Reads a file's header page; `None` if it is not intact.
pub(crate) fn header_of(file: &dyn File) -> Result<Option<Header>> {
    let length = file.len()?;
    let mut block = Buffer::new(BLOCK_BYTES);
    if length < block.len() as u64 {
        return Ok(None);
    }
    file.read_at(0, &mut block)?;
    let Some(header) = Header::read(&block) else { return Ok(None) };
    if length < header.layout.page_bytes as u64 {
        return Ok(None);
    }
    let mut page = Buffer::new(header.layout.page_bytes);
    file.read_at(0, &mut page)?;
    Ok(header_and_tail::is_whole(&page).then_some(header))
}
