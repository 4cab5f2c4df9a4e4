//! Reading a segment's file back; nothing in it is trusted before its checksum was.

use std::sync::Arc;

use stepwell_base::hash::Checksum;
use stepwell_base::{Key, hash};
use stepwell_disk::{BLOCK_BYTES, Buffer, Disk, File};

use super::draft::{Deletion, Run, first_of_shards};
use super::marks::{self, Fault, Header, Tail};
use super::page::{self, Row, u32_and_rest, u64_and_rest};
use super::{CHUNK_BYTES, name};
use crate::identity::Origin;
use crate::layout::{DELETION_BYTES, KEY_BYTES, Layout, RUN_BYTES, TAIL_BYTES, Version};
use crate::rule::{Lie, ROW_UNMOVED};
use crate::stats::Counters;
use crate::{Error, FORMAT_VERSION, Result, SegmentEntry};

/// An open segment's file, its number here, the directory that it lies in, and what its bytes say.
#[derive(Debug)]
pub(crate) struct SegmentFile {
    pub(crate) number: u64,
    pub(crate) directory: usize,
    /// Whether it goes through the system's page cache.
    pub(crate) cached: bool,
    pub(crate) file: Arc<dyn File>,
    pub(crate) layout: Layout,
    pub(crate) origin: Origin,
}

/// What is done with a page: its number, its bytes, and whether it is whole.
pub(crate) type VisitPage<'a> = dyn FnMut(u32, &[u8], bool) -> Result<()> + 'a;

/// A footer that had its checksum.
#[derive(Clone, Debug, Default)]
pub(crate) struct Footer {
    /// Of every row, in order.
    pub(crate) keys: Vec<Key>,
    /// Of version 2 alone.
    runs: Vec<Run>,
    pub(crate) deletions: Vec<Deletion>,
}

impl Footer {
    /// The birth of each row, in order, where the footer tells: in version 2.
    pub(crate) fn births(&self) -> impl Iterator<Item = u32> {
        self.runs.iter().flat_map(|run| std::iter::repeat_n(run.birth, run.rows as usize))
    }
}

/// A segment to be made or opened: where it lies, and what its bytes are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spot {
    pub(crate) directory: usize,
    pub(crate) number: u64,
    pub(crate) cached: bool,
    pub(crate) layout: Layout,
    pub(crate) origin: Origin,
}

impl SegmentFile {
    fn new(spot: &Spot, file: Arc<dyn File>) -> Self {
        let Spot { directory, number, cached, layout, origin } = *spot;
        Self { number, directory, cached, file, layout, origin }
    }

    /// Makes the file of a segment that takes so many bytes.
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

    /// Bytes from `offset` on, which need not be aligned.
    fn read(&self, offset: u64, bytes: usize, counters: &Counters) -> Result<Buffer> {
        let mut buffer = Buffer::new(bytes);
        self.file.read_at(offset, &mut buffer)?;
        counters.read(self.directory, buffer.len());
        Ok(buffer)
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
        marks::check_header(&header, &self.layout, &self.origin).map_err(|f| self.fault(0, f))
    }

    /// The tail of a file of so many bytes, which fits them.
    pub(crate) fn tail(&self, bytes: u64, counters: &Counters) -> Result<Tail> {
        let short = || self.damaged(bytes, "the file does not have the length of a segment");
        let whole = bytes.is_multiple_of(BLOCK_BYTES as u64);
        let at = bytes.checked_sub(BLOCK_BYTES as u64).filter(|_| whole).ok_or_else(short)?;
        let block = self.read(at, BLOCK_BYTES, counters)?;
        let offset = bytes - TAIL_BYTES as u64;
        let last = block.last_chunk().ok_or_else(short)?;
        let tail = Tail::decode(last, &self.layout, &self.origin);
        let tail = tail.map_err(|f| self.fault(offset, f))?;
        if self.layout.file_bytes(&tail.counts) != bytes {
            return Err(self.damaged(offset, "the tail is that of a file of another length"));
        }
        Ok(tail)
    }

    /// The footer, all of it in memory.
    pub(crate) fn footer(&self, tail: &Tail, counters: &Counters) -> Result<Footer> {
        let start = self.layout.footer_offset(tail.counts.rows);
        let bytes = self.layout.footer_bytes(&tail.counts) as usize;
        let mut whole = Vec::with_capacity(bytes);
        while whole.len() < bytes {
            let count = (bytes - whole.len()).min(CHUNK_BYTES as usize);
            let chunk = self.read(start + whole.len() as u64, count, counters)?;
            whole.extend_from_slice(&chunk[..count]);
        }
        if hash::checksum(&whole) != tail.footer_sum {
            return Err(self.damaged(start, "the footer does not have its checksum"));
        }
        let footer = match self.layout.version {
            Version::Two => decode_old(&whole, tail),
            Version::Three => decode(&whole, tail),
        };
        footer.map_err(|why| self.damaged(start, why))
    }

    /// The deletions of a segment whose footer was read before.
    pub(crate) fn deletions(&self, tail: &Tail, counters: &Counters) -> Result<Vec<Deletion>> {
        if tail.counts.deletions == 0 {
            return Ok(Vec::new());
        }
        Ok(self.footer(tail, counters)?.deletions)
    }

    /// What is known of it as a whole, by a footer of its own.
    pub(crate) fn lie(&self, tail: &Tail, footer: &Footer) -> Lie {
        let births = match self.layout.version {
            Version::Two => {
                let births = || footer.runs.iter().map(|run| run.birth);
                (births().min().unwrap_or(0), births().max().unwrap_or(0))
            }
            Version::Three => tail.births,
        };
        let number = self.origin.number as u32;
        Lie { number, merged: births != (number, number), births }
    }

    /// One data page, which is whole.
    pub(crate) fn page(&self, number: u32, counters: &Counters) -> Result<Buffer> {
        let offset = self.layout.page_offset(number);
        let bytes = self.read(offset, self.layout.page_bytes, counters)?;
        if page::is_whole(&bytes, self.layout.table, &self.origin, number) {
            return Ok(bytes);
        }
        Err(self.damaged(offset, "the page does not have its checksum"))
    }

    /// Visits every page with its bytes, the header included, and whether it is whole. A page that
    /// cannot be read is none.
    pub(crate) fn for_each_page(
        &self,
        pages: u32,
        counters: &Counters,
        visit: &mut VisitPage<'_>,
    ) -> Result<()> {
        let layout = &self.layout;
        let at_once = (CHUNK_BYTES / layout.page_bytes as u64).max(1) as u32;
        let mut first = 0;
        while first < pages {
            let count = at_once.min(pages - first);
            let bytes = count as usize * layout.page_bytes;
            let chunk = self.read(layout.page_offset(first), bytes, counters);
            let chunk = chunk.or_else(|_| self.read_what_can_be(first, count, counters))?;
            for (page, number) in chunk.chunks_exact(layout.page_bytes).zip(first..first + count) {
                visit(number, page, page::is_whole(page, layout.table, &self.origin, number))?;
            }
            first += count;
        }
        Ok(())
    }

    /// Pages one by one, zeros in the place of those that cannot be read.
    fn read_what_can_be(&self, first: u32, count: u32, counters: &Counters) -> Result<Buffer> {
        let layout = &self.layout;
        let mut chunk = Buffer::new(count as usize * layout.page_bytes);
        for (page, number) in chunk.chunks_exact_mut(layout.page_bytes).zip(first..) {
            if let Ok(bytes) = self.read(layout.page_offset(number), page.len(), counters) {
                page.copy_from_slice(&bytes);
            }
        }
        Ok(chunk)
    }

    /// Reads the whole file and checks every sum in it.
    pub(crate) fn check_all(&self, entry: &SegmentEntry, counters: &Counters) -> Result<()> {
        let tail = self.check(entry, counters)?;
        self.footer(&tail, counters)?;
        let pages = 1 + self.layout.pages(tail.counts.rows);
        let mut sums = Checksum::new();
        self.for_each_page(pages, counters, &mut |number, page, whole| {
            sums.update(&page::sum(page).to_le_bytes());
            let offset = self.layout.page_offset(number);
            let why = "the page does not have its checksum";
            if whole { Ok(()) } else { Err(self.damaged(offset, why)) }
        })?;
        if sums.value() != tail.pages_sum {
            return Err(self.damaged(0, "the pages' checksums do not have theirs"));
        }
        Ok(())
    }
}

/// A footer of version 3.
fn decode(bytes: &[u8], tail: &Tail) -> std::result::Result<Footer, String> {
    let rows = tail.counts.rows as usize;
    let (by_shard, rest) = bytes.split_at(rows * KEY_BYTES as usize);
    let (deletions, key_shards) = rest.split_at(rest.len() - rows);
    let mut next = first_of_shards(key_shards);
    let keys = key_shards.iter().map(|shard| {
        let next = &mut next[usize::from(*shard)];
        let key = u64_and_rest(&by_shard[*next * KEY_BYTES as usize..]).0;
        *next += 1;
        Key(key)
    });
    let keys = keys.collect();
    Ok(Footer { keys, runs: Vec::new(), deletions: decode_deletions(deletions).collect() })
}

/// A footer of version 2.
fn decode_old(bytes: &[u8], tail: &Tail) -> std::result::Result<Footer, String> {
    let (keys, rest) = bytes.split_at(tail.counts.rows as usize * KEY_BYTES as usize);
    let (runs, deletions) = rest.split_at(tail.counts.runs as usize * RUN_BYTES as usize);
    let runs: Vec<Run> = runs.chunks_exact(RUN_BYTES as usize).map(decode_run).collect();
    let rows: u64 = runs.iter().map(|run| u64::from(run.rows)).sum();
    if rows != u64::from(tail.counts.rows) {
        return Err(format!("the runs have {rows} rows together"));
    }
    let unmoved = |deletion: Deletion| match deletion.row {
        u32::MAX => Deletion { row: ROW_UNMOVED, ..deletion },
        _ => deletion,
    };
    let keys = keys.chunks_exact(KEY_BYTES as usize).map(|key| Key(u64_and_rest(key).0)).collect();
    Ok(Footer { keys, runs, deletions: decode_deletions(deletions).map(unmoved).collect() })
}

fn decode_run(bytes: &[u8]) -> Run {
    let (birth, rest) = u32_and_rest(bytes);
    Run { birth, rows: u32_and_rest(rest).0 }
}

fn decode_deletions(bytes: &[u8]) -> impl Iterator<Item = Deletion> {
    bytes.chunks_exact(DELETION_BYTES as usize).map(|bytes| {
        let (key, rest) = u64_and_rest(bytes);
        let (birth, rest) = u32_and_rest(rest);
        Deletion { key: Key(key), birth, row: u32_and_rest(rest).0 }
    })
}

/// The last row of `key` among the rows of a page of a segment of `rows` rows, and its number.
pub(crate) fn row_of<'a>(
    bytes: &'a [u8],
    layout: &Layout,
    page: u32,
    rows: u32,
    key: Key,
) -> Option<(u32, Row<'a>)> {
    let (at, row) = page::find(bytes, layout, layout.rows_on(page, rows), key)?;
    Some((layout.first_row(page) + at, row))
}

/// What a file's header page tells, where that is whole.
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
    Ok(marks::is_whole(&page).then_some(header))
}
