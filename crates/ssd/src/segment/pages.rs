//! Packs rows into pages, which stay readable until they are in the file.
//!
//! ```text
//!   file              in flight                     current buffer
//!   [ pages written ] [ taken ][ taken ] …          [ full pages, the last one unfinished ]
//!                     being written, in any order   ▲ first_page
//! ```
//!
//! - **Why.** The writer does not hold the lock of look-ups while it writes, and a row must be
//!   readable as soon as the index points at it.
//! - **How.** The header page is page 0 of the first buffer, so the file is written in pieces of
//!   equal size from its first byte.
//! - **Bounds.** The current buffer and those in flight, whose number the writer bounds.

use std::collections::VecDeque;
use std::sync::Arc;

use stepwell_base::Key;
use stepwell_base::hash::Checksum;
use stepwell_disk::Buffer;

use super::header_and_tail;
use super::page::{self, Row};
use crate::identity::Origin;
use crate::layout::{Layout, PAGE_SUM_BYTES};
use crate::numbers::PageNumber;

#[derive(Debug)]
pub(crate) struct PageBuffer {
    layout: Layout,
    origin: Origin,
    buffer_pages: u32,
    /// Number of rows in the whole segment so far.
    rows: u32,
    current: Buffer,
    first_page: PageNumber,
    /// Number of pages begun in the current buffer.
    pages: u32,
    /// Number of rows on the last page.
    last_rows: u32,
    in_flight: VecDeque<TakenPages>,
    /// Checksum of the checksums of all sealed pages, in order.
    sums: Checksum,
}

/// Pages that were taken to be written to the file.
#[derive(Clone, Debug)]
pub(crate) struct TakenPages {
    pub(crate) first_page: PageNumber,
    pub(crate) buffer: Arc<Buffer>,
    /// Number of bytes of `buffer` that are pages.
    pub(crate) bytes: usize,
}

impl PageBuffer {
    /// The pages of a new segment; `current` must hold at least two.
    pub(crate) fn new(mut current: Buffer, layout: Layout, origin: Origin) -> Self {
        let buffer_pages = (current.len() / layout.page_bytes) as u32;
        assert!(buffer_pages > 1, "a buffer holds the header page and one more");
        let header = &mut current[..layout.page_bytes];
        header.fill(0);
        let sum = header_and_tail::put_header(header, &layout, &origin);
        let mut sums = Checksum::new();
        sums.update(&sum.to_le_bytes());
        Self {
            layout,
            origin,
            buffer_pages,
            rows: 0,
            current,
            first_page: PageNumber::HEADER,
            pages: 1,
            last_rows: layout.rows_per_page,
            in_flight: VecDeque::new(),
            sums,
        }
    }

    /// Number of rows pushed so far.
    pub(crate) fn rows(&self) -> u32 {
        self.rows
    }

    /// Number of rows that can be pushed before the next [`PageBuffer::take`].
    pub(crate) fn room(&self) -> u32 {
        let per_page = self.layout.rows_per_page;
        (self.buffer_pages - self.pages).saturating_mul(per_page) + per_page - self.last_rows
    }

    /// The page of the next row to push.
    pub(crate) fn next_page(&self) -> PageNumber {
        let is_new = self.last_rows == self.layout.rows_per_page;
        self.first_page + if is_new { self.pages } else { self.pages - 1 }
    }

    /// Appends a row.
    pub(crate) fn push(&mut self, row: &Row<'_>) {
        assert!(self.room() > 0, "a full buffer must be taken first");
        if self.last_rows == self.layout.rows_per_page {
            self.pages += 1;
            self.last_rows = 0;
        }
        let (layout, at) = (self.layout, self.last_rows);
        page::put_row(self.last_page(), &layout, at, row);
        self.last_rows += 1;
        self.rows += 1;
        if self.last_rows == layout.rows_per_page {
            self.seal_last();
        }
    }

    /// Overwrites the row of the same key on the unfinished page; returns false if there is none.
    pub(crate) fn replace(&mut self, row: &Row<'_>) -> bool {
        let (layout, rows) = (self.layout, self.last_rows);
        if rows == layout.rows_per_page {
            return false;
        }
        let page = self.last_page();
        let Some((at, _)) = page::find(page, &layout, rows, row.key) else { return false };
        page::put_row(page, &layout, at, row);
        true
    }

    fn last_page(&mut self) -> &mut [u8] {
        let end = self.pages as usize * self.layout.page_bytes;
        &mut self.current[end - self.layout.page_bytes..end]
    }

    fn seal_last(&mut self) {
        let number = self.first_page + (self.pages - 1);
        let (layout, origin) = (self.layout, self.origin);
        let used = self.last_rows as usize * layout.stride;
        let page = self.last_page();
        let sum_at = page.len() - PAGE_SUM_BYTES;
        // The buffer has old contents.
        page[used..sum_at].fill(0);
        let sum = page::seal(page, layout.table, &origin, number);
        self.sums.update(&sum.to_le_bytes());
    }

    /// Whether the current buffer is empty.
    pub(crate) fn is_taken(&self) -> bool {
        self.pages == 0
    }

    /// Bytes of a buffer.
    pub(crate) fn buffer_bytes(&self) -> usize {
        self.buffer_pages as usize * self.layout.page_bytes
    }

    /// Takes the pages of the current buffer to be written, and replaces it by `next`. Only a
    /// segment's last buffer may end with an unfinished page or have no `next`. `None` if the
    /// buffer is empty.
    pub(crate) fn take(&mut self, next: Option<Buffer>) -> Option<TakenPages> {
        assert!(self.pages > 0 || next.is_none(), "a replacement needs pages to take");
        if self.pages == 0 {
            return None;
        }
        if self.last_rows != self.layout.rows_per_page {
            self.seal_last();
            self.last_rows = self.layout.rows_per_page;
        }
        let bytes = self.pages as usize * self.layout.page_bytes;
        let next = next.unwrap_or_else(|| Buffer::new(0));
        let buffer = Arc::new(std::mem::replace(&mut self.current, next));
        let taken = TakenPages { first_page: self.first_page, buffer, bytes };
        self.first_page = self.first_page + self.pages;
        self.pages = 0;
        self.in_flight.push_back(taken.clone());
        Some(taken)
    }

    /// Records that the taken pages from this one on are in the file. Returns their buffer, unless
    /// it has other holders, which free it.
    pub(crate) fn landed(&mut self, first_page: PageNumber) -> Option<Buffer> {
        let at = self.in_flight.iter().position(|taken| taken.first_page == first_page);
        #[expect(clippy::expect_used, reason = "only pages that were taken land")]
        let taken = self.in_flight.remove(at.expect("pages in flight"));
        taken.and_then(|taken| Arc::into_inner(taken.buffer))
    }

    /// Takes back pages that were taken without a replacement. If they were written, their memory
    /// takes further rows; otherwise they are the current ones again.
    pub(crate) fn come_back(&mut self, taken: TakenPages, is_written: bool) {
        let TakenPages { first_page, buffer, bytes } = taken;
        drop(buffer);
        #[expect(clippy::expect_used, reason = "nobody else was given it")]
        let current = self.landed(first_page).expect("the only holder");
        self.current = current;
        if !is_written {
            self.first_page = first_page;
            self.pages = (bytes / self.layout.page_bytes) as u32;
        }
    }

    /// The current buffer, after the last row.
    pub(crate) fn into_buffer(self) -> Buffer {
        self.current
    }

    /// Number of buffers being written.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Checksum of all pages' checksums, after the last buffer was taken.
    pub(crate) fn pages_sum(&self) -> u64 {
        self.sums.value()
    }

    /// The row of `key` on a page, or `None` if the page is in the file.
    ///
    /// # Panics
    /// If the page is in memory and has no such row.
    pub(crate) fn find(&self, number: PageNumber, key: Key) -> Option<Row<'_>> {
        let (page, rows) = self.page(number)?;
        let found = page::find(page, &self.layout, rows, key);
        #[expect(clippy::expect_used, reason = "the index names the page that a row was pushed to")]
        Some(found.expect("the row is on the page that the index names").1)
    }

    /// A page and its number of rows, or `None` if it is in the file. An unfinished page has no
    /// checksum yet.
    pub(crate) fn page(&self, number: PageNumber) -> Option<(&[u8], u32)> {
        let (bytes, at, rows) = if number >= self.first_page {
            let at = number - self.first_page;
            let last = at + 1 == self.pages;
            let rows = if last { self.last_rows } else { self.layout.rows_per_page };
            (&self.current, at, rows)
        } else {
            let holds = |taken: &&TakenPages| {
                let pages = (taken.bytes / self.layout.page_bytes) as u32;
                (taken.first_page..taken.first_page + pages).contains(&number)
            };
            let taken = self.in_flight.iter().find(holds)?;
            let rows = self.layout.rows_on(number, self.rows);
            (&*taken.buffer, number - taken.first_page, rows)
        };
        Some((&bytes[at as usize * self.layout.page_bytes..][..self.layout.page_bytes], rows))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::StoreId;
    use crate::numbers::{Birth, SegmentNumber};

    fn origin() -> Origin {
        Origin { store: StoreId::OLD, number: SegmentNumber::of_manifest(4) }
    }

    #[test]
    fn rows_are_readable_until_they_are_written() {
        let layout = Layout::new(1, 1000);
        let mut pages = PageBuffer::new(Buffer::new(2 * layout.page_bytes), layout, origin());
        let mut file = Vec::new();
        let mut taken = Vec::new();
        let payload = |row: u32| vec![row as u8; 1000];
        let row_of = |row: u32, payload: &'static [u8]| Row {
            key: Key(row.into()),
            birth: Birth(4),
            used: row,
            payload,
        };
        for row in 0..30u32 {
            if pages.room() == 0 {
                let next = pages.take(Some(Buffer::new(2 * layout.page_bytes))).unwrap();
                file.extend_from_slice(&next.buffer[..next.bytes]);
                taken.push(next);
                if taken.len() == 3 {
                    // Buffers land in any order.
                    pages.landed(taken.remove(1).first_page);
                }
            }
            let page = pages.next_page();
            assert_eq!(page, layout.page_of(row));
            pages.push(&row_of(row, payload(row).leak()));
            let found = pages.find(page, Key(row.into())).unwrap();
            assert_eq!((found.used, found.payload), (row, &payload(row)[..]));
        }
        assert!(pages.find(PageNumber(2), Key(4)).is_none(), "it is in the file");
        assert_eq!(pages.find(PageNumber(1), Key(3)).unwrap().used, 3, "it is in flight");
        let last = pages.take(None).unwrap();
        file.extend_from_slice(&last.buffer[..last.bytes]);
        assert_eq!(pages.find(PageNumber(8), Key(29)).unwrap().used, 29);
        assert!(pages.is_taken() && pages.take(None).is_none());
        assert_eq!((pages.rows(), file.len() as u64), (30, layout.footer_offset(30)));
        let mut sums = Checksum::new();
        for (number, page) in PageNumber::HEADER.onwards().zip(file.chunks_exact(layout.page_bytes))
        {
            assert!(page::is_whole(page, 1, &origin(), number));
            sums.update(&page::sum(page).to_le_bytes());
            for row in (0..30).filter(|row| layout.page_of(*row) == number) {
                let (_, found) = page::find(page, &layout, 4, Key(row.into())).unwrap();
                assert_eq!(found.payload, payload(row));
            }
        }
        assert_eq!(sums.value(), pages.pages_sum());
    }

    #[test]
    fn a_row_on_the_unfinished_page_is_replaced() {
        let layout = Layout::new(1, 1000);
        let mut pages = PageBuffer::new(Buffer::new(3 * layout.page_bytes), layout, origin());
        let row =
            |key: u64, used: u32| Row { key: Key(key), birth: Birth(4), used, payload: &[7; 1000] };
        assert!(!pages.replace(&row(1, 1)));
        pages.push(&row(1, 1));
        assert!(pages.replace(&row(1, 2)));
        assert!(!pages.replace(&row(2, 2)));
        (2..5).for_each(|key| pages.push(&row(key, 1)));
        assert!(!pages.replace(&row(1, 3)), "that page is finished");
        assert_eq!(pages.find(PageNumber(1), Key(1)).unwrap().used, 2);
        assert_eq!(pages.rows(), 4);
    }
}
