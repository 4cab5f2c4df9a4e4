//! Rows being packed into pages, readable until their pages are in the file.
//!
//! ```text
//!   file              flushing              bytes
//!   [ pages written ] [ being written now ] [ full pages, the last one unfinished ]
//!                     ▲ first_page          ▲ first_row
//! ```
//!
//! Why: the writer writes without holding the lock under which readers look, and a row must be
//! readable from the moment the index points at it.
//! Invariants  I1 `first_row` is the first row of a page. I2 At most one flush is under way.
//! Bounds: two times the buffer's pages: one being filled, one being written or kept for its turn.

use std::sync::Arc;

use super::page::{self, Row};
use crate::layout::Layout;

#[derive(Debug)]
pub(crate) struct PageBuffer {
    layout: Layout,
    segment: u64,
    pages_max: u32,
    first_row: u32,
    rows: u32,
    bytes: Vec<u8>,
    flushing: Option<Flush>,
    /// The memory of the last flush.
    spare: Vec<u8>,
}

/// Pages on their way into the file.
#[derive(Clone, Debug)]
pub(crate) struct Flush {
    first_row: u32,
    pub(crate) bytes: Arc<Vec<u8>>,
}

impl PageBuffer {
    pub(crate) fn new(layout: Layout, segment: u64, pages_max: u32) -> Self {
        assert!(pages_max > 0, "a buffer holds at least one page");
        let (bytes, spare) = (Vec::new(), Vec::new());
        let (first_row, rows, flushing) = (0, 0, None);
        Self { layout, segment, pages_max, first_row, rows, bytes, flushing, spare }
    }

    /// Rows that can be pushed before the next flush.
    pub(crate) fn room(&self) -> u32 {
        self.pages_max.saturating_mul(self.layout.rows_per_page) - self.rows
    }

    /// Puts a row after the last one. // row: (row_bytes)
    pub(crate) fn push(&mut self, row: Row<'_>) {
        assert!(self.room() > 0, "a full buffer is flushed first");
        let layout = self.layout;
        if self.rows.is_multiple_of(layout.rows_per_page) {
            self.bytes.resize(self.bytes.len() + layout.page_bytes, 0);
        }
        let start = self.bytes.len() - layout.page_bytes;
        page::put_row(&mut self.bytes[start..], &layout, self.rows, row);
        self.rows += 1;
        if self.rows.is_multiple_of(layout.rows_per_page) {
            self.seal_last();
        }
    }

    fn seal_last(&mut self) {
        let number = self.layout.page_of(self.first_row + self.rows - 1);
        let start = self.bytes.len() - self.layout.page_bytes;
        page::seal(&mut self.bytes[start..], self.layout.table, self.segment, number);
    }

    /// Takes all pages out to be written; an unfinished one only as the segment's last.
    pub(crate) fn begin_flush(&mut self) -> Flush {
        assert!(self.flushing.is_none(), "I2: one flush at a time");
        if !self.rows.is_multiple_of(self.layout.rows_per_page) {
            self.seal_last();
        }
        let mut next = std::mem::take(&mut self.spare);
        next.clear();
        let bytes = Arc::new(std::mem::replace(&mut self.bytes, next));
        let flush = Flush { first_row: self.first_row, bytes };
        self.first_row += self.rows;
        self.rows = 0;
        self.flushing = Some(flush.clone());
        flush
    }

    /// The pages of the flush are in the file: `flush` is what began it.
    pub(crate) fn end_flush(&mut self, flush: Flush) {
        self.flushing = None;
        self.spare = Arc::into_inner(flush.bytes).unwrap_or_default();
    }

    /// The row, unless it is in the file already.
    pub(crate) fn row(&self, row: u32) -> Option<Row<'_>> {
        if row >= self.first_row {
            assert!(row - self.first_row < self.rows, "row {row} was never pushed");
            return Some(self.row_of(&self.bytes, self.first_row, row));
        }
        let flush = self.flushing.as_ref().filter(|flush| row >= flush.first_row)?;
        Some(self.row_of(&flush.bytes, flush.first_row, row))
    }

    fn row_of<'a>(&self, bytes: &'a [u8], first_row: u32, row: u32) -> Row<'a> {
        let pages =
            (row / self.layout.rows_per_page - first_row / self.layout.rows_per_page) as usize;
        page::row(&bytes[pages * self.layout.page_bytes..], &self.layout, row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stepwell_base::Key;

    #[test]
    fn rows_are_readable_until_they_are_written() {
        let layout = Layout::new(1, 1000);
        let mut pages = PageBuffer::new(layout, 4, 2);
        let mut file = vec![0; layout.page_bytes];
        let payload = |row: u32| vec![row as u8; 1000];
        let mut written = 0;
        for row in 0..30u32 {
            if pages.room() == 0 {
                let flush = pages.begin_flush();
                (written..row)
                    .for_each(|row| assert_eq!(pages.row(row).unwrap().seq, u64::from(row)));
                file.extend_from_slice(&flush.bytes);
                pages.end_flush(flush);
                written = row;
            }
            let value = Row { key: Key(5), seq: u64::from(row), payload: &payload(row) };
            pages.push(value);
            assert_eq!(pages.row(row).unwrap().payload, payload(row));
            assert_eq!(pages.row(written).unwrap().seq, u64::from(written));
            assert!(written == 0 || pages.row(written - 1).is_none());
        }
        file.extend_from_slice(&pages.begin_flush().bytes);
        assert_eq!(file.len() as u64, layout.footer_offset(30));
        for row in 0..30 {
            let number = layout.page_of(row);
            let page = &file[layout.page_offset(number) as usize..][..layout.page_bytes];
            assert!(page::is_whole(page, 1, 4, number));
            assert_eq!(page::row(page, &layout, row).payload, payload(row));
        }
    }
}
