//! Visits every live row, as of one moment, concurrently with writers and merges.
//!
//! - **How.** When a scan begins, it records which rows are live, in a bit for each row of each
//!   segment. It holds the segments' files, which stay readable after they are merged and removed,
//!   and copies pages of segments being written that are not in their files. Then it reads spans of
//!   adjacent pages with live rows, several at a time, and visits the rows in order of segments and
//!   rows.
//!
//! ```text
//!  begin ─► writers wait: copy memory ─► writers continue: read key lists, set bits ─► read pages
//!           merges wait ──────────────────────────────────────────────────────────┘
//! ```
//!
//! [`pin`](super::pin) explains why the bits are those of one moment.
//! - **Failure.** An unreadable page or a visitor's error stops the scan where it is; the next call
//!   continues there.
//! - **Bounds.** A bit for each row of the remaining segments; slightly more than 2^18 recorded
//!   rows while it begins, when writers wait; copies of pages in memory, at most a store's write
//!   buffers; one list of keys at a time; and twice the bytes of a reader.
//! - **Cost.** Lists of keys, 9 bytes a row; pages with live rows, each once.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use stepwell_base::Key;
use stepwell_disk::{Queue, Wait};

use super::pin::{Pinned, Version};
use crate::numbers::PageNumber;
use crate::segment::page;
use crate::store::core::{Core, Store};
use crate::store::merging::live_rows::NOT_WHOLE;
use crate::{Error, Result};

/// Callback for a row: its key, the step of its last use, and its payload.
pub type Visit<'a> = dyn FnMut(Key, u32, &[u8]) -> Result<()> + 'a;

/// The most bytes of one read, unless a single page is larger.
const SPAN_BYTES: usize = 128 << 10;
/// Number of rows that [`Store::scan_live`] visits at once.
const ROWS_AT_ONCE: usize = 4096;

/// Every live row of a store as of the moment it began, in order of segments and rows.
///
/// Writers and merges continue concurrently. What they remove takes space until the scan is past it
/// or dropped (`segments_pinned` and `bytes_pinned` of [`Stats`](crate::Stats)). A scan may pause
/// for any time.
///
/// ```
/// use std::sync::Arc;
///
/// use stepwell_base::Key;
/// use stepwell_disk::MemDisk;
/// use stepwell_ssd::{Store, StoreOptions};
///
/// # fn main() -> Result<(), stepwell_ssd::Error> {
/// let store = Store::create(Arc::new(MemDisk::new()), StoreOptions::new(0, 1))?;
/// let keys: Vec<Key> = (0..100).map(Key).collect();
/// store.put_many(&keys, &[7; 100], &[1; 100])?;
///
/// let mut scan = store.scan()?;
/// store.delete_many(&keys)?;
/// let mut visited = 0;
/// while scan.visit(30, &mut |_key, used, row| {
///     assert_eq!((used, row), (7, &[1][..]));
///     visited += 1;
///     Ok(())
/// })? > 0
/// {
///     // At most thirty rows, then something else.
/// }
/// assert_eq!((visited, store.len()), (100, 0));
/// # Ok(())
/// # }
/// ```
pub struct Scan {
    core: Arc<Core>,
    version: Version,
    /// The remaining segments, and the number of segments already passed.
    segments: VecDeque<Pinned>,
    passed: usize,
    /// The row to visit next, in the first remaining segment.
    row: u32,
    /// Place where the next read starts.
    ahead: Ahead,
    queue: Box<dyn Queue>,
    /// Reads in flight or done, in order.
    spans: VecDeque<PageSpan>,
    spans_bytes: usize,
    next_token: u64,
}

/// Position of a scan in one version of one store. A later scan can continue there, of the store or
/// a snapshot with exactly that version ([`Store::scan_from`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cursor {
    version: u64,
    segment: u64,
    row: u32,
}

/// Place where a read starts.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Ahead {
    /// Index of the segment among all of the scan's.
    segment: usize,
    row: u32,
}

/// Adjacent pages of a segment.
struct PageSpan {
    token: u64,
    /// Index of the segment among all of the scan's.
    segment: usize,
    first_page: PageNumber,
    pages: u32,
    /// Bytes of the pages, or the error of reading them; `None` while the read is in flight.
    outcome: Option<Result<Vec<u8>>>,
}

impl fmt::Debug for Scan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scan").field("cursor", &self.cursor()).finish_non_exhaustive()
    }
}

impl Store {
    /// Begins a scan of every row that is live now. Writers wait briefly, merges while lists of
    /// keys are read: a tenth of the bytes of a store of small rows, less for larger ones.
    ///
    /// Holds a bit for each row, live or stale, twice the bytes of a reader, and a copy of the
    /// write buffers.
    ///
    /// # Errors
    /// If a list of keys cannot be read or is damaged.
    pub fn scan(&self) -> Result<Scan> {
        Scan::begin(&self.core, None)
    }

    /// [`Store::scan`], starting where another scan was. The store must have the version that the
    /// other scan began with: nothing was put, deleted, expired or merged since. A snapshot opened
    /// with [`View`](crate::View) always does.
    ///
    /// # Errors
    /// Same as [`Store::scan`]; and if the store has another version.
    pub fn scan_from(&self, cursor: &Cursor) -> Result<Scan> {
        Scan::begin(&self.core, Some(cursor))
    }

    /// Visits every row that is live now with key, step of its last use and payload, but no expired
    /// rows. Segments come in order of their numbers, rows in the order they were written. This is
    /// a complete [`Scan`].
    ///
    /// # Errors
    /// The visitor's error, immediately; and if a page cannot be read or is damaged.
    pub fn scan_live(&self, visit: &mut Visit<'_>) -> Result<()> {
        let mut scan = self.scan()?;
        while scan.visit(ROWS_AT_ONCE, visit)? > 0 {}
        Ok(())
    }
}

impl Scan {
    fn begin(core: &Arc<Core>, from: Option<&Cursor>) -> Result<Self> {
        let queue = core.new_queue()?;
        let (segments, version) = core.pin(from.map(|cursor| cursor.version))?;
        let mut scan = Self {
            core: Arc::clone(core),
            version,
            segments: VecDeque::new(),
            passed: 0,
            row: 0,
            ahead: Ahead::default(),
            queue,
            spans: VecDeque::new(),
            spans_bytes: 0,
            next_token: 0,
        };
        scan.segments = segments.into();
        core.count_pins(scan.segments.iter().map(Pinned::counted));
        if let Some(cursor) = from {
            while scan
                .segments
                .front()
                .is_some_and(|first| u64::from(first.file.number) < cursor.segment)
            {
                scan.pass();
            }
            let here =
                scan.segments.front().is_some_and(|of| u64::from(of.file.number) == cursor.segment);
            scan.row = if here { cursor.row } else { 0 };
            scan.ahead.row = scan.row;
        }
        Ok(scan)
    }

    /// Visits up to `rows_max` more rows and returns how many; 0 at the end. If the visitor fails,
    /// its row is the next one.
    ///
    /// # Errors
    /// The visitor's error, immediately; and if a page cannot be read or is damaged.
    ///
    /// # Panics
    /// If `rows_max` is 0.
    pub fn visit(&mut self, rows_max: usize, visit: &mut Visit<'_>) -> Result<usize> {
        assert!(rows_max > 0, "visits at least one row");
        let mut visited = 0;
        while visited < rows_max && self.read_first()? {
            let (Some(span), Some(segment)) = (self.spans.front(), self.segments.front()) else {
                unreachable!("a span of a segment that is left")
            };
            let Some(Ok(bytes)) = &span.outcome else { unreachable!("it was read") };
            let layout = &segment.file.layout;
            let end = layout.first_row(span.first_page + span.pages);
            let Some(row) = segment.next_live(self.row).filter(|row| *row < end) else {
                self.row = end;
                self.pop_span();
                continue;
            };
            let page = (layout.page_of(row) - span.first_page) as usize * layout.page_bytes;
            let at = row % layout.rows_per_page;
            let found = page::row(&bytes[page..page + layout.page_bytes], layout, at);
            self.row = row;
            if found.used >= self.version.expire_before {
                visit(found.key, found.used, found.payload)?;
                visited += 1;
            }
            self.row += 1;
        }
        Ok(visited)
    }

    /// Number of rows put and keys deleted when the scan began.
    pub fn next_seq(&self) -> u64 {
        self.version.next_seq
    }

    /// Position of the scan: the next row that is visited is there or after it.
    pub fn cursor(&self) -> Cursor {
        let first = self.segments.front();
        let segment = first.map_or(u64::MAX, |segment| segment.file.number.into());
        Cursor { version: self.version.number, segment, row: self.row }
    }

    /// Waits until the first span is read; returns false at the end.
    fn read_first(&mut self) -> Result<bool> {
        loop {
            self.start()?;
            match self.spans.front().map(|span| (span.segment, &span.outcome)) {
                None if self.ahead.segment == self.passed + self.segments.len() => {
                    while !self.segments.is_empty() {
                        self.pass();
                    }
                    return Ok(false);
                }
                Some((segment, _)) if segment > self.passed => self.pass(),
                Some((_, Some(Ok(_)))) => return Ok(true),
                Some((_, Some(Err(_)))) => return Err(self.fail()),
                // If none could be started, reads whose result is no longer needed are in flight.
                Some((_, None)) | None => self.complete()?,
            }
        }
    }

    /// Returns the error of the first span; the next call reads all spans again.
    fn fail(&mut self) -> Error {
        let failed = self.spans.pop_front().and_then(|span| span.outcome);
        let Some(Err(error)) = failed else { unreachable!("a span that failed") };
        self.spans.clear();
        self.spans_bytes = 0;
        self.ahead = Ahead { segment: self.passed, row: self.row };
        error
    }

    /// Drops the first segment, which is finished.
    fn pass(&mut self) {
        let passed = self.segments.pop_front();
        self.core.unpin(passed.iter().map(|pin| pin.counted().0));
        self.passed += 1;
        self.row = 0;
        self.ahead = self.ahead.max(Ahead { segment: self.passed, row: 0 });
    }

    fn pop_span(&mut self) {
        let span = self.spans.pop_front();
        self.spans_bytes -=
            span.map_or(0, |span| span.pages as usize * self.core.layout.page_bytes);
    }

    /// Starts as many reads as there is room for.
    fn start(&mut self) -> Result<()> {
        let page_bytes = self.core.layout.page_bytes;
        while self.spans_bytes < self.core.options.reader_bytes() {
            let Some((mut span, ahead)) = self.next_span() else { return Ok(()) };
            let bytes = span.pages as usize * page_bytes;
            if !self.spans.is_empty() && self.spans_bytes + bytes > self.core.options.reader_bytes()
            {
                return Ok(());
            }
            if span.outcome.is_none() {
                let segment = &self.segments[span.segment - self.passed];
                let (file, first) =
                    (&segment.file, segment.file.layout.page_offset(span.first_page));
                span.token = self.next_token;
                if !self.queue.read(span.token, &file.file, first, bytes)? {
                    return Ok(());
                }
                self.core.counters.read(file.directory, bytes);
                self.next_token += 1;
            }
            self.ahead = ahead;
            self.spans_bytes += bytes;
            self.spans.push_back(span);
        }
        Ok(())
    }

    /// The next span, and where the one after it starts.
    fn next_span(&mut self) -> Option<(PageSpan, Ahead)> {
        let bytes_max = SPAN_BYTES.min(self.core.options.reader_bytes() / 2);
        loop {
            let Ahead { segment: number, row } = self.ahead;
            let segment = self.segments.get(number - self.passed)?;
            let Some(row) = segment.next_live(row) else {
                self.ahead = Ahead { segment: number + 1, row: 0 };
                continue;
            };
            let layout = &segment.file.layout;
            let first_page = layout.page_of(row);
            let pages = segment.pages_together(first_page, bytes_max);
            let outcome = segment.pages.get(&first_page).map(|page| Ok(page.clone()));
            let ahead = Ahead { segment: number, row: layout.first_row(first_page + pages) };
            return Some((
                PageSpan { token: 0, segment: number, first_page, pages, outcome },
                ahead,
            ));
        }
    }

    /// Waits for a read in flight, and processes all that are done.
    fn complete(&mut self) -> Result<()> {
        let (core, spans, segments) = (&self.core, &mut self.spans, &self.segments);
        let passed = self.passed;
        self.queue.complete(Wait::ForOne, &mut |done| {
            let under_way =
                |span: &&mut PageSpan| span.token == done.token && span.outcome.is_none();
            // The result is no longer needed.
            let Some(span) = spans.iter_mut().find(under_way) else { return };
            let segment = &segments[span.segment - passed];
            span.outcome = Some(match done.outcome {
                Ok(bytes) => core.whole(segment, span, bytes),
                Err(error) => Err(error.into()),
            });
        })?;
        Ok(())
    }
}

impl Pinned {
    /// Number of adjacent pages from `first` on with live rows: all in the file, or one in memory.
    fn pages_together(&self, first: PageNumber, bytes_max: usize) -> u32 {
        let layout = &self.file.layout;
        let pages_max = (bytes_max / layout.page_bytes).max(1) as u32;
        let mut pages = 1;
        while pages < pages_max && !self.pages.contains_key(&first) {
            let next = first + pages;
            let live = self.next_live(layout.first_row(next)).map(|row| layout.page_of(row));
            if live != Some(next) || self.pages.contains_key(&next) {
                break;
            }
            pages += 1;
        }
        pages
    }
}

impl Drop for Scan {
    fn drop(&mut self) {
        self.core.unpin(self.segments.iter().map(|pin| pin.counted().0));
    }
}

impl Core {
    /// The bytes of a span, if all its pages are intact.
    fn whole(&self, segment: &Pinned, span: &PageSpan, bytes: &[u8]) -> Result<Vec<u8>> {
        let (file, layout) = (&segment.file, &segment.file.layout);
        for (bytes, number) in bytes.chunks_exact(layout.page_bytes).zip(span.first_page.onwards())
        {
            if !page::is_whole(bytes, layout.table, &file.origin, number) {
                let keys = self.keys_of(segment, number);
                return Err(self.page_lost(file, number, NOT_WHOLE, keys));
            }
        }
        Ok(bytes.to_vec())
    }

    /// Keys of the live rows of a page; none if the list of keys cannot be read.
    fn keys_of(&self, segment: &Pinned, page: PageNumber) -> Vec<Key> {
        let file = &segment.file;
        let read = || file.counting(&file.tail(file.file.len()?, &self.counters)?, &self.counters);
        let rows = read().map(|counting| counting.rows).unwrap_or_default();
        let wanted = |(row, _): &&(u32, Key)| {
            file.layout.page_of(*row) == page && segment.next_live(*row) == Some(*row)
        };
        rows.iter().filter(wanted).map(|(_, key)| *key).collect()
    }
}
