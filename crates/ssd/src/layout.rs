//! Where rows lie: on pages, pages in segments.
//!
//! ```text
//! segment  [ header page ][ data page 1 ] … [ data page n ][ footer: 16 B a row ][ tail: 48 B ]
//! page     [ row ][ row ] … [ zeros ][ checksum u64 ]      a multiple of 4 KiB, the same for all
//! row      [ key u64 ][ seq u64 ][ payload ]               never crosses a page
//! ```
//!
//! Rows of a segment are numbered from 0 in order of appending; pages from 0, the header being 0.

/// Pages are multiples of this.
pub(crate) const PAGE_ALIGN_BYTES: usize = 4096;
/// Key and sequence number before a row's payload, and an entry of a footer.
pub(crate) const ENTRY_BYTES: u64 = 16;
/// The checksum at the end of a page.
pub(crate) const PAGE_SUM_BYTES: usize = 8;
/// The tail at the end of a segment.
pub(crate) const TAIL_BYTES: usize = 48;

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

impl Layout {
    pub(crate) fn new(table: u32, row_bytes: usize) -> Self {
        let stride = row_bytes + ENTRY_BYTES as usize;
        let page_bytes = (stride + PAGE_SUM_BYTES).next_multiple_of(PAGE_ALIGN_BYTES);
        let rows_per_page = ((page_bytes - PAGE_SUM_BYTES) / stride) as u32;
        Self { table, row_bytes, stride, page_bytes, rows_per_page }
    }

    /// The page of a row.
    pub(crate) fn page_of(&self, row: u32) -> u32 {
        1 + row / self.rows_per_page
    }

    /// Where a row starts on its page.
    pub(crate) fn offset_on_page(&self, row: u32) -> usize {
        (row % self.rows_per_page) as usize * self.stride
    }

    /// Where a page starts in its file.
    pub(crate) fn page_offset(&self, page: u32) -> u64 {
        u64::from(page) * self.page_bytes as u64
    }

    /// Where the footer of a segment of so many rows starts.
    pub(crate) fn footer_offset(&self, rows: u32) -> u64 {
        self.page_offset(1 + rows.div_ceil(self.rows_per_page))
    }

    /// Length of the file of a segment of so many rows.
    pub(crate) fn file_bytes(&self, rows: u32) -> u64 {
        self.footer_offset(rows) + u64::from(rows) * ENTRY_BYTES + TAIL_BYTES as u64
    }

    /// Rows that a segment of at most so many bytes holds, in whole pages.
    pub(crate) fn rows_max(&self, segment_bytes: u64) -> u32 {
        let fixed = self.page_bytes as u64 + TAIL_BYTES as u64;
        let per_page = self.page_bytes as u64 + u64::from(self.rows_per_page) * ENTRY_BYTES;
        let pages = segment_bytes.saturating_sub(fixed) / per_page;
        (pages * u64::from(self.rows_per_page)).min(u64::from(u32::MAX)) as u32
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
            for segment_bytes in [20_000, 65_536, 1 << 20] {
                let rows = layout.rows_max(segment_bytes);
                assert!(rows > 0 && rows.is_multiple_of(layout.rows_per_page));
                assert!(layout.file_bytes(rows) <= segment_bytes);
                assert!(layout.file_bytes(rows + layout.rows_per_page) > segment_bytes);
            }
        }
    }
}
