//! Where rows are: on pages, which are in segments.
//!
//! ```text
//! segment  [ header page ][ data page 1 ] … [ data page n ][ footer ][ zeros ][ tail: 128 B ]
//! page     [ row ][ row ] … [ zeros ][ checksum u64 ]       a multiple of 4 KiB, the same for all
//! row      [ key u64 ][ birth u32 ][ used u32 ][ payload ]  never crosses a page
//! footer   [ keys: 8 B a row ][ deletions: 16 B each ][ key shards: 1 B a row ]
//!          [ sums: 8 B for each 4 KiB of keys ]
//! version 2 [ keys: 8 B a row ][ runs: 8 B each ][ deletions: 16 B each ]
//! ```
//!
//! Rows of a segment are numbered from 0 in the order they were appended; pages from 0, the header
//! being page 0. Offsets of reads and writes are multiples of 4 KiB, as direct I/O requires.

use stepwell_disk::BLOCK_BYTES;

use crate::numbers::PageNumber;

/// Version of the format that this build writes; it also reads the previous one.
pub const FORMAT_VERSION: u64 = 3;
/// The most bytes of a row.
pub(crate) const ROW_BYTES_MAX: usize = 16 << 20;
/// Page sizes are multiples of this.
pub(crate) const PAGE_ALIGN_BYTES: usize = BLOCK_BYTES;
/// Bytes of key, birth and last use before a row's payload.
pub(crate) const ROW_HEAD_BYTES: usize = 16;
/// Bytes of a row's key in the footer.
pub(crate) const KEY_BYTES: u64 = 8;
/// Bytes of a row's key shard in the footer.
pub(crate) const KEY_SHARD_BYTES: u64 = 1;
/// Number of keys under one sum of the footer, a block.
pub(crate) const KEYS_PER_SUM: usize = BLOCK_BYTES / KEY_BYTES as usize;
/// Bytes of a block's sum.
pub(crate) const KEYS_SUM_BYTES: u64 = 8;
/// Bytes of a run of rows of one birth in a footer of version 2.
pub(crate) const RUN_BYTES: u64 = 8;
/// Bytes of a deletion in the footer.
pub(crate) const DELETION_BYTES: u64 = 16;
/// Bytes of the checksum at the end of a page.
pub(crate) const PAGE_SUM_BYTES: usize = 8;
/// Bytes of the tail at the end of a segment.
pub(crate) const TAIL_BYTES: usize = 128;

/// Largest pages of a new store, unless a row needs larger ones.
const PAGE_BYTES_MAX: usize = 64 << 10;
/// Fewest pages of a full segment; limits the page size.
const PAGES_MIN: u64 = 8;
/// The most bytes of a row in a new store: per byte of payload, or of payload, head and list entry.
const ROW_SPACE_MAX: [f64; 2] = [1.10, 1.06];

/// A version of the format of segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    /// Footers list keys in order of the rows, and runs of births.
    Two,
    /// Footers list keys by key shard.
    Three,
}

/// Sizes that follow from those of a row and a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Version of the segments.
    pub(crate) version: Version,
    /// Number of the table.
    pub(crate) table: u32,
    /// Bytes of a payload.
    pub(crate) row_bytes: usize,
    /// Bytes from the start of a row to the next.
    pub(crate) stride: usize,
    /// Bytes of a page.
    pub(crate) page_bytes: usize,
    /// Rows of a full page.
    pub(crate) rows_per_page: u32,
}

/// Numbers of rows, runs and deletions in a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) rows: u32,
    /// Runs of one birth, only in version 2.
    pub(crate) runs: u32,
    pub(crate) deletions: u32,
}

impl Counts {
    /// Whether there is no row or deletion.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows == 0 && self.deletions == 0
    }
}

impl Layout {
    /// The layout of a new store of large segments.
    #[cfg(test)]
    pub(crate) fn new(table: u32, row_bytes: usize) -> Self {
        Self::for_segments(table, row_bytes, u64::MAX)
    }

    /// The layout of a new store; a full segment has at least eight pages.
    pub(crate) fn for_segments(table: u32, row_bytes: usize, segment_bytes: u64) -> Self {
        let smallest = Self::smallest(table, row_bytes).page_bytes;
        let most = (PAGE_BYTES_MAX as u64).min(segment_bytes / PAGES_MIN) as usize;
        let pages = (smallest..=most).step_by(PAGE_ALIGN_BYTES);
        let layouts = pages.map(|page_bytes| Self::with_page(table, row_bytes, page_bytes));
        let found = layouts.into_iter().find(Self::is_tight);
        found.unwrap_or_else(|| Self::with_page(table, row_bytes, smallest))
    }

    /// The layout of segments of version 2: the smallest pages that hold a row.
    pub(crate) fn old(table: u32, row_bytes: usize) -> Self {
        Self { version: Version::Two, ..Self::smallest(table, row_bytes) }
    }

    fn smallest(table: u32, row_bytes: usize) -> Self {
        let row = row_bytes + ROW_HEAD_BYTES + PAGE_SUM_BYTES;
        Self::with_page(table, row_bytes, row.next_multiple_of(PAGE_ALIGN_BYTES))
    }

    /// The layout with pages of the given size, which must hold a row.
    pub(crate) fn with_page(table: u32, row_bytes: usize, page_bytes: usize) -> Self {
        let stride = row_bytes + ROW_HEAD_BYTES;
        let rows_per_page = ((page_bytes - PAGE_SUM_BYTES) / stride) as u32;
        Self { version: Version::Three, table, row_bytes, stride, page_bytes, rows_per_page }
    }

    /// Whether pages of `page_bytes` are admitted and hold a row of `row_bytes`.
    pub(crate) fn holds_rows(page_bytes: usize, row_bytes: usize) -> bool {
        page_bytes.is_multiple_of(PAGE_ALIGN_BYTES)
            && page_bytes >= row_bytes + ROW_HEAD_BYTES + PAGE_SUM_BYTES
    }

    /// Whether a full page wastes little space.
    fn is_tight(&self) -> bool {
        let listed = KEY_BYTES + KEY_SHARD_BYTES;
        let row = self.page_bytes as f64 / f64::from(self.rows_per_page) + listed as f64;
        let most = ROW_SPACE_MAX[0] * self.row_bytes as f64;
        let with_head = (self.stride as u64 + listed) as f64;
        row <= most.max(ROW_SPACE_MAX[1] * with_head)
    }

    /// The same rows on the same pages, in segments of version 2.
    pub(crate) fn of_version_2(&self) -> Self {
        Self { version: Version::Two, ..*self }
    }

    /// Bytes of `rows` rows' entries in the footer.
    fn listed_bytes(&self, rows: u64) -> u64 {
        match self.version {
            Version::Two => rows * KEY_BYTES,
            Version::Three => {
                let sums = rows.div_ceil(KEYS_PER_SUM as u64) * KEYS_SUM_BYTES;
                rows * (KEY_BYTES + KEY_SHARD_BYTES) + sums
            }
        }
    }

    /// Bytes of a footer before its padding.
    pub(crate) fn footer_bytes(&self, counts: &Counts) -> u64 {
        self.listed_bytes(counts.rows.into())
            + u64::from(counts.runs) * RUN_BYTES
            + u64::from(counts.deletions) * DELETION_BYTES
    }

    /// Page number of a row.
    pub(crate) fn page_of(&self, row: u32) -> PageNumber {
        PageNumber::FIRST + row / self.rows_per_page
    }

    /// The first row of a data page.
    pub(crate) fn first_row(&self, page: PageNumber) -> u32 {
        (page - PageNumber::FIRST) * self.rows_per_page
    }

    /// Number of data pages of `rows` rows.
    pub(crate) fn pages(&self, rows: u32) -> u32 {
        rows.div_ceil(self.rows_per_page)
    }

    /// Number of rows on a data page of a segment of `rows` rows.
    pub(crate) fn rows_on(&self, page: PageNumber, rows: u32) -> u32 {
        rows.saturating_sub(self.first_row(page)).min(self.rows_per_page)
    }

    /// Offset of a page in its file.
    pub(crate) fn page_offset(&self, page: PageNumber) -> u64 {
        u64::from(page.0) * self.page_bytes as u64
    }

    /// Offset of the footer of a segment of `rows` rows.
    pub(crate) fn footer_offset(&self, rows: u32) -> u64 {
        (1 + u64::from(self.pages(rows))) * self.page_bytes as u64
    }

    /// Bytes of a segment's file.
    pub(crate) fn file_bytes(&self, counts: &Counts) -> u64 {
        let footer = self.footer_bytes(counts) + TAIL_BYTES as u64;
        self.footer_offset(counts.rows) + footer.next_multiple_of(PAGE_ALIGN_BYTES as u64)
    }

    /// Number of rows, in whole pages, of a segment of at most `segment_bytes` bytes.
    pub(crate) fn rows_max(&self, segment_bytes: u64) -> u32 {
        let fixed = self.page_bytes as u64 + TAIL_BYTES as u64;
        let rows_per_page = u64::from(self.rows_per_page);
        // All sizes are scaled by the number of keys per byte of sums, to stay integers.
        let parts = KEYS_PER_SUM as u64 / KEYS_SUM_BYTES;
        let per_page = match self.version {
            Version::Two => parts * (self.page_bytes as u64 + rows_per_page * KEY_BYTES),
            Version::Three => {
                let listed = rows_per_page * (KEY_BYTES + KEY_SHARD_BYTES);
                parts * (self.page_bytes as u64 + listed) + rows_per_page
            }
        };
        // The last sum, and the footer's padding, which is less than one unit of alignment.
        let ends = fixed + KEYS_SUM_BYTES + PAGE_ALIGN_BYTES as u64 - 1;
        let pages = parts * segment_bytes.saturating_sub(ends) / per_page;
        (pages * rows_per_page).min(u64::from(u32::MAX >> 1)) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_version_2_is_the_smallest_that_holds_a_row() {
        for (row_bytes, page_bytes, rows) in
            [(1, 4096, 240), (64, 4096, 51), (256, 4096, 15), (4072, 4096, 1), (4073, 8192, 2)]
        {
            let layout = Layout::old(0, row_bytes);
            assert_eq!((layout.page_bytes, layout.rows_per_page), (page_bytes, rows));
        }
    }

    #[test]
    fn a_page_of_a_new_store_leaves_little_over() {
        for (row_bytes, page_kib) in [
            (1, 4),
            (64, 4),
            (136, 4),
            (256, 4),
            (300, 8),
            (512, 8),
            (576, 12),
            (2048, 24),
            (4096, 48),
            (8192, 52),
            (16384, 52),
            (1 << 24, 16388),
        ] {
            let layout = Layout::new(0, row_bytes);
            assert_eq!(layout.page_bytes, page_kib << 10, "rows of {row_bytes} bytes");
            assert!(Layout::holds_rows(layout.page_bytes, row_bytes));
        }
        for row_bytes in (512..=16 << 10).step_by(512) {
            let layout = Layout::new(0, row_bytes);
            let rows = layout.rows_max(64 << 20);
            let bytes = layout.file_bytes(&Counts { rows, ..Counts::default() });
            let space = bytes as f64 / (f64::from(rows) * row_bytes as f64);
            assert!(space <= 1.103, "rows of {row_bytes} bytes take {space}");
        }
    }

    #[test]
    fn a_full_segment_keeps_its_bound() {
        for row_bytes in [1, 64, 300, 5000] {
            let layout = Layout::new(0, row_bytes);
            for segment_bytes in [98_304, 1 << 20] {
                let rows = layout.rows_max(segment_bytes);
                assert!(rows > 0 && rows.is_multiple_of(layout.rows_per_page));
                let full = Counts { rows, ..Counts::default() };
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
        let bytes = layout.file_bytes(&Counts { rows, ..Counts::default() });
        let over = bytes as f64 / (f64::from(rows) * 256.0) - 1.0;
        assert!(over < 0.103, "{over}");
    }

    #[test]
    fn the_last_page_may_have_fewer_rows() {
        let layout = Layout::new(0, 256);
        assert_eq!([1, 2, 3].map(|page| layout.rows_on(PageNumber(page), 20)), [15, 5, 0]);
        assert_eq!((layout.pages(20), layout.page_of(14).0, layout.page_of(15).0), (2, 1, 2));
    }
}
