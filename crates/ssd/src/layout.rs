//! Where rows lie: on pages, pages in segments.
//!
//! ```text
//! segment  [ header page ][ data page 1 ] … [ data page n ][ footer ][ zeros ][ tail: 128 B ]
//! page     [ row ][ row ] … [ zeros ][ checksum u64 ]       a multiple of 4 KiB, the same for all
//! row      [ key u64 ][ birth u32 ][ used u32 ][ payload ]  never crosses a page
//! footer   [ keys: 8 B a row ][ runs: 8 B each ][ deletions: 16 B each ]
//! ```
//!
//! Rows of a segment are numbered from 0 in order of appending; pages from 0, the header being 0.
//! Every offset that is read or written is a multiple of 4 KiB, so that direct I/O can do it.

use stepwell_disk::BLOCK_BYTES;

/// Pages are multiples of this.
pub(crate) const PAGE_ALIGN_BYTES: usize = BLOCK_BYTES;
/// Key, birth and last use before a row's payload.
pub(crate) const ROW_HEAD_BYTES: usize = 16;
/// A row's key in the footer.
pub(crate) const KEY_BYTES: u64 = 8;
/// A run of rows of one birth in the footer.
pub(crate) const RUN_BYTES: u64 = 8;
/// A deletion in the footer.
pub(crate) const DELETION_BYTES: u64 = 16;
/// The checksum at the end of a page.
pub(crate) const PAGE_SUM_BYTES: usize = 8;
/// The tail at the end of a segment.
pub(crate) const TAIL_BYTES: usize = 128;

/// Sizes that follow from a row's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Number of the table.
    pub(crate) table: u32,
    /// Bytes of a payload.
    pub(crate) row_bytes: usize,
    /// Bytes from a row to the next.
    pub(crate) stride: usize,
    /// Bytes of a page.
    pub(crate) page_bytes: usize,
    /// Rows of a full page.
    pub(crate) rows_per_page: u32,
}

/// How many of each thing a segment holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) rows: u32,
    pub(crate) runs: u32,
    pub(crate) deletions: u32,
}

impl Counts {
    /// Without a row or deletion.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows == 0 && self.deletions == 0
    }

    /// Bytes of a footer before its padding.
    pub(crate) fn footer_bytes(&self) -> u64 {
        u64::from(self.rows) * KEY_BYTES
            + u64::from(self.runs) * RUN_BYTES
            + u64::from(self.deletions) * DELETION_BYTES
    }
}

impl Layout {
    pub(crate) fn new(table: u32, row_bytes: usize) -> Self {
        let stride = row_bytes + ROW_HEAD_BYTES;
        let page_bytes = (stride + PAGE_SUM_BYTES).next_multiple_of(PAGE_ALIGN_BYTES);
        let rows_per_page = ((page_bytes - PAGE_SUM_BYTES) / stride) as u32;
        Self { table, row_bytes, stride, page_bytes, rows_per_page }
    }

    /// The page of a row.
    pub(crate) fn page_of(&self, row: u32) -> u32 {
        1 + row / self.rows_per_page
    }

    /// The first row of a data page.
    pub(crate) fn first_row(&self, page: u32) -> u32 {
        (page - 1) * self.rows_per_page
    }

    /// Data pages of so many rows.
    pub(crate) fn pages(&self, rows: u32) -> u32 {
        rows.div_ceil(self.rows_per_page)
    }

    /// Rows on a data page of a segment of `rows` rows.
    pub(crate) fn rows_on(&self, page: u32, rows: u32) -> u32 {
        rows.saturating_sub(self.first_row(page)).min(self.rows_per_page)
    }

    /// Where a page starts in its file.
    pub(crate) fn page_offset(&self, page: u32) -> u64 {
        u64::from(page) * self.page_bytes as u64
    }

    /// Where the footer of a segment of so many rows starts.
    pub(crate) fn footer_offset(&self, rows: u32) -> u64 {
        (1 + u64::from(self.pages(rows))) * self.page_bytes as u64
    }

    /// Length of the file of a segment.
    pub(crate) fn file_bytes(&self, counts: &Counts) -> u64 {
        let footer = counts.footer_bytes() + TAIL_BYTES as u64;
        self.footer_offset(counts.rows) + footer.next_multiple_of(PAGE_ALIGN_BYTES as u64)
    }

    /// Rows that a segment of at most so many bytes holds, in whole pages, all of one birth.
    pub(crate) fn rows_max(&self, segment_bytes: u64) -> u32 {
        let fixed = self.page_bytes as u64 + TAIL_BYTES as u64 + RUN_BYTES;
        let per_page = self.page_bytes as u64 + u64::from(self.rows_per_page) * KEY_BYTES;
        // The padding of the footer takes less than one unit of alignment.
        let room = segment_bytes.saturating_sub(fixed + PAGE_ALIGN_BYTES as u64 - 1);
        let pages = room / per_page;
        (pages * u64::from(self.rows_per_page)).min(u64::from(u32::MAX >> 1)) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_the_smallest_that_holds_a_row() {
        for (row_bytes, page_bytes, rows) in
            [(1, 4096, 240), (64, 4096, 51), (256, 4096, 15), (4072, 4096, 1), (4073, 8192, 2)]
        {
            let layout = Layout::new(0, row_bytes);
            assert_eq!((layout.page_bytes, layout.rows_per_page), (page_bytes, rows));
        }
    }

    #[test]
    fn a_full_segment_keeps_its_bound() {
        for row_bytes in [1, 64, 300, 5000] {
            let layout = Layout::new(0, row_bytes);
            for segment_bytes in [32_768, 65_536, 1 << 20] {
                let rows = layout.rows_max(segment_bytes);
                assert!(rows > 0 && rows.is_multiple_of(layout.rows_per_page));
                let full = Counts { rows, runs: 1, deletions: 0 };
                assert!(layout.file_bytes(&full) <= segment_bytes);
                let more = Counts { rows: rows + 2 * layout.rows_per_page, ..full };
                assert!(layout.file_bytes(&more) > segment_bytes - layout.page_bytes as u64);
            }
        }
    }

    #[test]
    fn what_is_not_payload_stays_below_a_tenth() {
        let layout = Layout::new(0, 256);
        let rows = layout.rows_max(64 << 20);
        let bytes = layout.file_bytes(&Counts { rows, runs: 1, deletions: 0 });
        let over = bytes as f64 / (f64::from(rows) * 256.0) - 1.0;
        assert!(over < 0.1, "{over}");
    }

    #[test]
    fn the_last_page_may_have_fewer_rows() {
        let layout = Layout::new(0, 256);
        assert_eq!([1, 2, 3].map(|page| layout.rows_on(page, 20)), [15, 5, 0]);
        assert_eq!((layout.pages(20), layout.page_of(14), layout.page_of(15)), (2, 1, 2));
    }
}
