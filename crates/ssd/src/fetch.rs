//! The reads of one look-up: pages are sorted, neighbours read together, rows distributed as reads
//! complete.
//!
//! - **How.** Rows are sorted by (file, page). Rows of a page need one read; neighbouring pages are
//!   read together, at most [`SPAN_BYTES`] at a time. As many reads are in flight as the queue
//!   takes; when a read completes, its rows are copied to their destination. When harvesting
//!   ([`harvest`](crate::harvest)), a read covers a whole unit of pages.
//! - **Failure.** A page with a wrong checksum or without a row that should be on it is an error
//!   that names file, offset, table and keys. The look-up fails when all its reads are done, with
//!   the first such page in order of (file, page).
//! - **Cost.** One read per span of pages; 16 bytes of list per row.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use stepwell_base::Key;
use stepwell_disk::{Done, Queue, Wait};

use crate::harvest::{Beside, FoundAt, Page};
use crate::layout::Layout;
use crate::numbers::{PageNumber, Slot, SlotPage};
use crate::segment::{SegmentFile, page};
use crate::stats::{AGE_PARTS, Counters, PageYield, add};
use crate::{Error, Result};

/// The most bytes of one read of neighbouring pages, unless a single page is larger.
const SPAN_BYTES: usize = 128 << 10;

/// Buffers that rows are copied to.
pub(crate) struct Destination<'a> {
    pub(crate) keys: &'a [Key],
    rows: &'a mut [u8], // (keys, row_bytes)
    found: &'a mut [bool],
    row_bytes: usize,
}

impl<'a> Destination<'a> {
    /// # Panics
    /// If the lengths do not match.
    pub(crate) fn new(
        keys: &'a [Key],
        rows: &'a mut [u8],
        found: &'a mut [bool],
        row_bytes: usize,
    ) -> Self {
        found.fill(false);
        Self::going_on(keys, rows, found, row_bytes)
    }

    /// Makes a destination that already has some rows.
    pub(crate) fn going_on(
        keys: &'a [Key],
        rows: &'a mut [u8],
        found: &'a mut [bool],
        row_bytes: usize,
    ) -> Self {
        assert!(found.len() == keys.len(), "`found` needs a place for every key");
        assert!(rows.len() == keys.len() * row_bytes, "{row_bytes} bytes for every key");
        assert!(u32::try_from(keys.len()).is_ok(), "at most 2^32 keys at once");
        Self { keys, rows, found, row_bytes }
    }

    pub(crate) fn put(&mut self, at: usize, payload: &[u8]) {
        self.rows[at * self.row_bytes..(at + 1) * self.row_bytes].copy_from_slice(payload);
        self.found[at] = true;
    }
}

/// A row to read: file and page in one sortable number, and its position in the destination.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    place: u64,
    at: u32,
}

impl Wanted {
    fn file(self) -> usize {
        (self.place >> 32) as usize
    }

    fn page(self) -> PageNumber {
        PageNumber(self.place as u32)
    }
}

/// Properties of the store that its reads depend on.
#[derive(Clone, Copy)]
pub(crate) struct Reading<'a> {
    pub(crate) layout: &'a Layout,
    pub(crate) counters: &'a Counters,
    /// Bytes of a queue's reads.
    pub(crate) queue_bytes: usize,
    /// Number of pages that are read together, to harvest rows.
    pub(crate) unit: u32,
}

impl Reading<'_> {
    /// The most pages of one read.
    pub(crate) fn pages_max(&self) -> u32 {
        (SPAN_BYTES.min(self.queue_bytes) / self.layout.page_bytes).max(1) as u32
    }

    /// The pages to read with a page.
    fn unit_of(&self, source: &Source, page: PageNumber) -> Range<PageNumber> {
        let unit = self.unit.min(self.pages_max());
        // A segment that is being written may not have the unit's other pages yet.
        if unit == 1 || !source.is_sealed {
            return page..page + 1;
        }
        let first = PageNumber::FIRST + (page - PageNumber::FIRST) / unit * unit;
        first..(first + unit).min(PageNumber::FIRST + self.layout.pages(source.rows))
    }
}

/// A segment to read from.
pub(crate) struct Source {
    /// Slot in the table.
    pub(crate) slot: Slot,
    pub(crate) file: Arc<SegmentFile>,
    /// Number of rows in the segment.
    pub(crate) rows: u32,
    pub(crate) is_sealed: bool,
    /// Age group of the segment, of [`AGE_PARTS`]; 0 is the youngest.
    pub(crate) age: usize,
}

/// Neighbouring pages of a file and the rows wanted from them.
struct PageSpan {
    wanted: Range<u32>,
    pages: Range<PageNumber>,
    /// Whether only the rows' own page is read, after a read of several pages failed.
    is_alone: bool,
    started: Instant,
}

impl PageSpan {
    fn page_count(&self) -> usize {
        (self.pages.end - self.pages.start) as usize
    }
}

/// The reads of one look-up.
#[derive(Default)]
pub(crate) struct Fetch {
    sources: Vec<Source>,
    wanted: Vec<Wanted>,
    /// Rows used before this step are skipped.
    expire_before: u32,
    pub(crate) buffered: u64,
    pub(crate) absent: u64,
    next: usize,
    /// Rows, by page, whose read failed together with pages that were not requested.
    again: Vec<Range<u32>>,
    spans: Vec<PageSpan>,
    spans_done: usize,
    pages_used: u64,
    pages_read: u64,
    by_age: [PageYield; AGE_PARTS],
    /// The error, with the position in `wanted` of the first row that it affects.
    failure: Option<(u32, Error)>,
    times: Vec<Duration>,
}

impl Fetch {
    /// Makes a look-up that skips rows used before `expire_before`.
    pub(crate) fn new(expire_before: u32) -> Self {
        Self { expire_before, ..Self::default() }
    }

    /// Adds a row to read from a page.
    pub(crate) fn want(&mut self, SlotPage { slot, page }: SlotPage, at: u32) {
        self.wanted.push(Wanted { place: u64::from(slot.0) << 32 | u64::from(page.0), at });
    }

    /// Sorts the rows and takes the source of each slot that has some.
    pub(crate) fn sort(&mut self, mut segment: impl FnMut(Slot) -> Source) {
        self.wanted.sort_unstable_by_key(|wanted| wanted.place);
        let mut last = None;
        for wanted in &mut self.wanted {
            let slot = Slot(wanted.file() as u32);
            if last != Some(slot) {
                last = Some(slot);
                self.sources.push(segment(slot));
            }
            // From here on, `place` has the number of the source, which has the same order as the
            // slot.
            wanted.place = (self.sources.len() as u64 - 1) << 32 | u64::from(wanted.page().0);
        }
    }

    /// Whether nothing is left to read.
    pub(crate) fn is_done(&self) -> bool {
        self.next == self.wanted.len()
            && self.again.is_empty()
            && self.spans_done == self.spans.len()
    }

    /// Starts as many reads as the queue takes; their tokens have `number` in the upper half.
    pub(crate) fn start(
        &mut self,
        reading: Reading<'_>,
        number: u32,
        queue: &mut dyn Queue,
    ) -> Result<()> {
        while let Some(span) = self.next_span(&reading) {
            let PageSpan { wanted, pages, .. } = &span;
            let count = span.page_count();
            let source = &self.sources[self.wanted[wanted.start as usize].file()];
            let bytes = count * reading.layout.page_bytes;
            let offset = reading.layout.page_offset(pages.start);
            let token = u64::from(number) << 32 | self.spans.len() as u64;
            if !queue.read(token, &source.file.file, offset, bytes)? {
                return Ok(());
            }
            reading.counters.read(source.file.directory, bytes);
            add(&reading.counters.depth_sum, queue.in_flight() as u64);
            self.pages_read += count as u64;
            match span.is_alone {
                true => drop(self.again.pop()),
                false => self.next = wanted.end as usize,
            }
            self.spans.push(span);
        }
        Ok(())
    }

    /// The next span to read, if any is left.
    fn next_span(&self, reading: &Reading<'_>) -> Option<PageSpan> {
        let started = Instant::now();
        if let Some(wanted) = self.again.last().cloned() {
            let page = self.wanted[wanted.start as usize].page();
            return Some(PageSpan { wanted, pages: page..page + 1, is_alone: true, started });
        }
        if self.next == self.wanted.len() {
            return None;
        }
        let (end, pages) = self.next_pages(reading);
        let wanted = self.next as u32..end as u32;
        Some(PageSpan { wanted, pages, is_alone: false, started })
    }

    /// The end of the next span's rows in `wanted`, and its pages.
    fn next_pages(&self, reading: &Reading<'_>) -> (usize, Range<PageNumber>) {
        let first = self.wanted[self.next];
        let source = &self.sources[first.file()];
        let (mut pages, mut end) = (reading.unit_of(source, first.page()), self.next + 1);
        for row in &self.wanted[end..] {
            if row.file() != first.file() {
                break;
            }
            if row.page() >= pages.end {
                let unit = reading.unit_of(source, row.page());
                if unit.start > pages.end || unit.end - pages.start > reading.pages_max() {
                    break;
                }
                pages.end = unit.end;
            }
            end += 1;
        }
        (end, pages)
    }

    /// Completes reads of a queue that this look-up alone uses; waits for at least one in flight.
    pub(crate) fn complete(
        &mut self,
        reading: Reading<'_>,
        queue: &mut dyn Queue,
        destination: &mut Destination<'_>,
    ) -> Result<()> {
        let mut beside = Beside::default();
        queue.complete(Wait::ForOne, &mut |done| {
            self.done(reading, done, destination, &mut beside);
        })?;
        Ok(())
    }

    /// Distributes the rows of a finished read.
    pub(crate) fn done(
        &mut self,
        reading: Reading<'_>,
        done: Done<'_>,
        destination: &mut Destination<'_>,
        beside: &mut Beside,
    ) {
        let number = done.token as u32 as usize;
        self.spans_done += 1;
        self.times.push(self.spans[number].started.elapsed());
        let outcome = match done.outcome {
            Err(_) if self.read_alone(number) => return,
            Ok(bytes) => self.scatter(reading, number, bytes, destination, beside),
            Err(error) => Err((self.spans[number].wanted.start, error.into())),
        };
        // Rows are in the order of their pages; the order of reads does not matter.
        if let Err((first, error)) = outcome
            && self.failure.as_ref().is_none_or(|(other, _)| first < *other)
        {
            self.failure = Some((first, error));
        }
    }

    /// Schedules the rows of a failed read again without pages that were not requested, which may
    /// be at fault; returns false if there were none.
    fn read_alone(&mut self, number: usize) -> bool {
        let span = &self.spans[number];
        let rows = &self.wanted[span.wanted.start as usize..span.wanted.end as usize];
        let by_page = || rows.chunk_by(|a, b| a.place == b.place);
        if span.is_alone || by_page().count() == span.page_count() {
            return false;
        }
        let mut first = span.wanted.start;
        for on_page in by_page() {
            self.again.push(first..first + on_page.len() as u32);
            first += on_page.len() as u32;
        }
        true
    }

    /// Copies the rows of a read to the destination. If a page is bad, returns an error with the
    /// position in `wanted` of its first row.
    fn scatter(
        &mut self,
        reading: Reading<'_>,
        number: usize,
        bytes: &[u8],
        destination: &mut Destination<'_>,
        beside: &mut Beside,
    ) -> std::result::Result<(), (u32, Error)> {
        let layout = reading.layout;
        let span = &self.spans[number];
        let mut first_on_page = span.wanted.start;
        let mut rows = &self.wanted[span.wanted.start as usize..span.wanted.end as usize];
        assert!(bytes.len() == span.page_count() * layout.page_bytes, "a read is complete");
        let Some(first) = rows.first() else { return Ok(()) };
        let source = &self.sources[first.file()];
        for (bytes, number) in bytes.chunks_exact(layout.page_bytes).zip(span.pages.start.onwards())
        {
            let on_page = rows.partition_point(|row| row.page() <= number);
            let on_page = rows.split_off(..on_page).unwrap_or_default();
            let page = Page { bytes, layout, rows: layout.rows_on(number, source.rows) };
            let is_whole = page::is_whole(bytes, layout.table, &source.file.origin, number);
            let (segment, is_around) = (source.file.number, on_page.is_empty());
            let at = SlotPage { slot: source.slot, page: number };
            let place = FoundAt { at, segment, is_around };
            if is_around {
                // Not requested: damage of the page is reported when it is requested.
                if is_whole {
                    let rows = beside.look(page, place, self.expire_before, |_| false);
                    self.by_age[source.age].add(rows);
                }
                continue;
            }
            self.pages_used += 1;
            let first = first_on_page;
            first_on_page += on_page.len() as u32;
            let lost = |why: &str| {
                let keys = on_page.iter().map(|row| destination.keys[row.at as usize]).collect();
                let path = source.file.file.path().to_owned();
                let (offset, table) = (layout.page_offset(number), layout.table);
                (
                    first,
                    Error::Page { path, offset, table, page: number.0, why: why.to_owned(), keys },
                )
            };
            if !is_whole {
                return Err(lost("it has a wrong checksum"));
            }
            for row in on_page {
                let key = destination.keys[row.at as usize];
                let Some((_, found)) = page::find(bytes, layout, page.rows, key) else {
                    return Err(lost("a row is missing from it"));
                };
                if found.used >= self.expire_before {
                    destination.put(row.at as usize, found.payload);
                }
            }
            let own = |key| on_page.iter().any(|row| destination.keys[row.at as usize] == key);
            let rows = beside.look(page, place, self.expire_before, own);
            self.by_age[source.age].add(rows);
        }
        Ok(())
    }

    /// Adds the look-up of `keys` keys to the counters and returns its outcome.
    pub(crate) fn end(mut self, counters: &Counters, keys: usize) -> Result<()> {
        assert!(self.is_done(), "a look-up ends when its reads are done");
        add(&counters.lookups, keys as u64);
        add(&counters.lookups_absent, self.absent);
        add(&counters.lookups_buffered, self.buffered);
        add(&counters.lookups_read, self.wanted.len() as u64);
        add(&counters.lookup_pages, self.pages_used);
        add(&counters.reads, self.spans.len() as u64);
        add(&counters.pages_read, self.pages_read);
        counters.harvested(&self.by_age);
        counters.took(&mut self.times);
        match self.failure {
            Some((_, error)) => Err(error),
            None => Ok(()),
        }
    }
}
