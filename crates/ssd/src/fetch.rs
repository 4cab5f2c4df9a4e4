//! Reading many rows of sealed or flushed pages at once.
//!
//! How       Rows are sorted by (file, row); rows of a page share its read, neighbouring pages
//!           share one read of at most [`RUN_BYTES`]; reads are submitted in windows of
//!           [`WINDOW_BYTES`], [`TICKETS_MAX`] in flight, and rows are handed out as windows
//!           complete.
//! Failure   A page without its checksum, or one with another key where a row should be, is an
//!           error that names file, offset and key; nothing else is handed out then.
//! Cost      One read per run of pages; 24 bytes of list per row; the windows.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use stepwell_base::Key;
use stepwell_disk::{Disk, Read, Ticket};

use crate::layout::Layout;
use crate::segment::{SegmentFile, page};
use crate::stats::Counters;
use crate::{Error, Result};

/// Bytes of one read of neighbouring pages at most, but for a single larger page.
pub(crate) const RUN_BYTES: u64 = 128 << 10;
/// Bytes of reads that are submitted together at most, but for the last of them.
pub(crate) const WINDOW_BYTES: u64 = 1 << 20;
/// Windows in flight.
pub(crate) const TICKETS_MAX: usize = 2;

/// A row to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Wanted {
    /// Which of the files given along.
    pub(crate) file: u32,
    /// Its number there.
    pub(crate) row: u32,
    /// The caller's own number of it.
    pub(crate) at: u32,
    /// The key that must lie there.
    pub(crate) key: Key,
}

/// Bytes of a [`Wanted`].
pub(crate) const WANTED_BYTES: u64 = size_of::<Wanted>() as u64;

/// What rows are read from.
pub(crate) struct Fetch<'a> {
    pub(crate) disk: &'a dyn Disk,
    pub(crate) layout: &'a Layout,
    pub(crate) counters: &'a Counters,
    pub(crate) files: &'a [Arc<SegmentFile>],
}

/// What it took.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Fetched {
    pub(crate) reads: u64,
    pub(crate) pages: u64,
}

/// Neighbouring pages of a file and the rows wanted from them.
struct Run {
    file: u32,
    first_page: u32,
    pages: u32,
    wanted: Range<usize>,
}

type Visit<'a> = dyn FnMut(&Wanted, u64, &[u8]) -> Result<()> + 'a;

impl Fetch<'_> {
    /// Sorts `wanted` and hands each row's sequence number and payload to `visit`, in that order.
    pub(crate) fn rows(&self, wanted: &mut [Wanted], visit: &mut Visit<'_>) -> Result<Fetched> {
        wanted.sort_unstable();
        let mut fetched = Fetched::default();
        let mut next = 0;
        let mut in_flight: VecDeque<(Ticket, Vec<Run>)> = VecDeque::new();
        loop {
            while next < wanted.len() && in_flight.len() < TICKETS_MAX {
                let runs = self.window(wanted, &mut next);
                fetched.reads += runs.len() as u64;
                fetched.pages += runs.iter().map(|run| u64::from(run.pages)).sum::<u64>();
                in_flight.push_back((self.submit(&runs)?, runs));
            }
            let Some((ticket, runs)) = in_flight.pop_front() else { return Ok(fetched) };
            for (read, run) in ticket.wait()?.iter().zip(&runs) {
                self.hand_out(&read.buffer, run, wanted, visit)?;
            }
        }
    }

    /// The next runs, as many as a window holds.
    fn window(&self, wanted: &[Wanted], next: &mut usize) -> Vec<Run> {
        let mut runs = Vec::new();
        let mut bytes = 0;
        while *next < wanted.len() && bytes < WINDOW_BYTES {
            let run = self.run(wanted, *next);
            *next = run.wanted.end;
            bytes += u64::from(run.pages) * self.layout.page_bytes as u64;
            runs.push(run);
        }
        runs
    }

    /// The run that begins with the page of the row at `start`.
    fn run(&self, wanted: &[Wanted], start: usize) -> Run {
        let first = wanted[start];
        let first_page = self.layout.page_of(first.row);
        let pages_max = (RUN_BYTES / self.layout.page_bytes as u64).max(1) as u32;
        let (mut last_page, mut end) = (first_page, start + 1);
        for row in &wanted[start + 1..] {
            if row.file != first.file {
                break;
            }
            let page = self.layout.page_of(row.row);
            if page > last_page + 1 || page - first_page >= pages_max {
                break;
            }
            last_page = page;
            end += 1;
        }
        let pages = last_page - first_page + 1;
        Run { file: first.file, first_page, pages, wanted: start..end }
    }

    fn submit(&self, runs: &[Run]) -> Result<Ticket> {
        let read = |run: &Run| Read {
            file: Arc::clone(&self.files[run.file as usize].file),
            offset: self.layout.page_offset(run.first_page),
            buffer: vec![0; run.pages as usize * self.layout.page_bytes],
        };
        let reads: Vec<Read> = runs.iter().map(read).collect();
        self.counters.read(reads.iter().map(|read| read.buffer.len()).sum());
        Ok(self.disk.submit(reads)?)
    }

    fn hand_out(
        &self,
        buffer: &[u8],
        run: &Run,
        wanted: &[Wanted],
        visit: &mut Visit<'_>,
    ) -> Result<()> {
        let mut checked = None;
        for row in &wanted[run.wanted.clone()] {
            let number = self.layout.page_of(row.row);
            let start = (number - run.first_page) as usize * self.layout.page_bytes;
            let page = &buffer[start..start + self.layout.page_bytes];
            if checked != Some(number) {
                self.check(page, number, row)?;
                checked = Some(number);
            }
            let found = page::row(page, self.layout, row.row);
            if found.key != row.key {
                return Err(self.damaged(row, number, &format!("key {:016x} lies", found.key.0)));
            }
            visit(row, found.seq, found.payload)?;
        }
        Ok(())
    }

    fn check(&self, page: &[u8], number: u32, row: &Wanted) -> Result<()> {
        let segment = self.files[row.file as usize].number;
        if page::is_whole(page, self.layout.table, segment, number) {
            return Ok(());
        }
        Err(self.damaged(row, number, "a page without its checksum lies"))
    }

    fn damaged(&self, row: &Wanted, page: u32, what: &str) -> Error {
        let offset = self.layout.page_offset(page);
        let why = format!("{what} where key {:016x} is wanted (row {})", row.key.0, row.row);
        self.files[row.file as usize].damaged(offset, why)
    }
}
