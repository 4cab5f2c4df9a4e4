//! Options for making or opening a store.

use stepwell_base::cores;
use stepwell_base::stop::StopRequest;

use crate::executor::Executor;
use crate::identity::StoreId;
use crate::key_shard::KeyShardSet;
use crate::layout::{Layout, PAGE_SUM_BYTES, ROW_BYTES_MAX, ROW_HEAD_BYTES};
use crate::space_target::Target;
use crate::{Error, Result, index};

/// Where compaction runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compaction {
    /// On a background thread of the store's executor.
    Background,
    /// In the caller that puts or commits, when due: no thread, and the same files every time.
    Inline,
}

/// Settings of a store; `table` and `row_bytes` are fixed for its life.
#[derive(Clone, Debug, PartialEq)]
pub struct StoreOptions {
    /// Number of the table that the rows belong to; part of every page's checksum.
    pub table: u32,
    /// Bytes of a row's payload.
    pub row_bytes: usize,
    /// Bytes of a page of a new store, a multiple of 4096 that holds a row; 0 chooses by the row's
    /// size. An existing store keeps its page size.
    pub page_bytes: usize,
    /// Key shards of a store that is new or made from other stores' snapshots. An existing store
    /// keeps its key shards.
    pub key_shards: KeyShardSet,
    /// Id of a store that is made or restored, for tests that need the same files every time.
    /// `None` draws a unique one.
    pub id: Option<StoreId>,
    /// The most bytes of a segment's file, until there are many segments.
    pub segment_bytes: u64,
    /// Number of segments above which new ones are twice as large.
    pub segments_many: u64,
    /// The most bytes of one write; up to [`WRITES_MAX`] are in flight.
    pub buffer_bytes: u64,
    /// The most bytes of the index (`tiers.index`).
    pub index_bytes_max: u64,
    /// Number of rows to expect, if known; the index need not grow to hold them.
    pub rows_hint: u64,
    /// The most space after a commit, as a multiple of the live rows' bytes; at most
    /// [`SPACE_HARD`]. From the default up, overhead that merges cannot free comes on top. A
    /// smaller value is refused if rows and segments of these sizes cannot keep it.
    pub space_max: f64,
    /// Seed of the secret by which the index scatters keys, for tests; `None` draws a random one at
    /// each opening. It affects only the index's size, never a file or row.
    pub index_seed: Option<u64>,
    /// Bytes that deletions may take in addition to a fiftieth of the live rows' space.
    pub deletions_free: u64,
    /// Where compaction runs.
    pub compaction: Compaction,
    /// Bytes of segments that use the system's page cache; the others are read and written
    /// directly. The cache serves rows that fit the machine's memory; beyond that, it costs more
    /// than it saves.
    pub cached_bytes: u64,
    /// The most reads in flight of one reader.
    pub read_depth: usize,
    /// The most bytes in flight of one reader.
    pub read_bytes: usize,
    /// Executor to share with other stores; `None` makes one for this store.
    pub executor: Option<Executor>,
    /// Number of threads that open the store, each building a part of the index; at most
    /// [`OPEN_THREADS_MAX`]. 0 means one per core, and at least 65,536 rows for each thread. The
    /// result does not depend on it.
    pub open_threads: usize,
    /// Request that ends opening or restoring between two segments.
    pub stop: StopRequest,
}

/// Number of segments above which new ones are twice as large.
pub const SEGMENTS_MANY: u64 = 4096;
/// The most writes in flight in one segment.
pub const WRITES_MAX: usize = 4;
/// The most threads that open a store.
pub const OPEN_THREADS_MAX: usize = 8;
/// Number of rows in segments for which opening adds another thread.
const ROWS_PER_THREAD: u64 = 1 << 16;
/// Space above which writers wait, as a multiple of the live rows' bytes (HPS paper, appendix E).
pub const SPACE_HARD: f64 = 2.0;
/// A larger segment's row numbers might not fit 32 bits.
pub(crate) const SEGMENT_BYTES_MAX: u64 = 64 << 30;
const SPACE_MIN: f64 = 1.1;
const SPACE_DEFAULT: f64 = 1.5;

impl StoreOptions {
    /// The smallest `index_bytes_max` that is admitted.
    pub const INDEX_BYTES_MIN: u64 = index::BYTES_MIN;

    /// The defaults: segments of 64 MiB, writes of 1 MiB, an index of at most 1 GiB, space of 1.5
    /// times the live rows, no page cache, 128 reads in flight.
    pub fn new(table: u32, row_bytes: usize) -> Self {
        Self {
            table,
            row_bytes,
            page_bytes: 0,
            key_shards: KeyShardSet::ALL,
            id: None,
            segment_bytes: 64 << 20,
            segments_many: SEGMENTS_MANY,
            buffer_bytes: 1 << 20,
            index_bytes_max: 1 << 30,
            rows_hint: 0,
            index_seed: None,
            space_max: SPACE_DEFAULT,
            deletions_free: 1 << 20,
            compaction: Compaction::Background,
            cached_bytes: 0,
            read_depth: 128,
            read_bytes: 4 << 20,
            executor: None,
            open_threads: 0,
            stop: StopRequest::new(),
        }
    }

    /// Checks that the next segment may be processed.
    ///
    /// # Errors
    /// [`Error::Stopped`] after a stop request.
    pub(crate) fn go_on(&self) -> Result<()> {
        if self.stop.is_made() { Err(Error::Stopped) } else { Ok(()) }
    }

    /// Checks that a store can have these settings.
    ///
    /// # Errors
    /// Names the setting, its value and what is admitted.
    pub fn check(&self) -> Result<()> {
        self.check_shape()?;
        self.check_space()?;
        let fail = |why: String| Err(Error::Options(why));
        if self.key_shards.is_empty() {
            return fail("a store without a key shard is not allowed: give one or more".to_owned());
        }
        if self.index_bytes_max < index::BYTES_MIN {
            return fail(format!(
                "an index of {} bytes (tiers.index) is too small: give at least {}, and about nine \
                 bytes per row",
                self.index_bytes_max,
                index::BYTES_MIN
            ));
        }
        if self.open_threads > OPEN_THREADS_MAX {
            return fail(format!(
                "a store cannot be opened with {} threads: give 1 to {OPEN_THREADS_MAX}, or 0 for \
                 one per core",
                self.open_threads
            ));
        }
        if self.read_depth == 0 {
            return fail("a read depth of 0 is too small: give at least 1".to_owned());
        }
        Ok(())
    }

    /// Checks the sizes of rows, pages and segments.
    ///
    /// # Errors
    /// Names the size and the fix.
    pub fn check_shape(&self) -> Result<()> {
        let fail = |why: String| Err(Error::Options(why));
        if !(1..=ROW_BYTES_MAX).contains(&self.row_bytes) {
            return fail(format!(
                "a row of {} bytes is not allowed: give 1 to {ROW_BYTES_MAX}",
                self.row_bytes
            ));
        }
        if self.page_bytes > 0 && !Layout::holds_rows(self.page_bytes, self.row_bytes) {
            return fail(format!(
                "pages of {} bytes are not allowed for rows of {} bytes: give a multiple of 4096 \
                 that holds a row, its header of {} bytes and a checksum of {}",
                self.page_bytes, self.row_bytes, ROW_HEAD_BYTES, PAGE_SUM_BYTES
            ));
        }
        if self.segment_bytes > SEGMENT_BYTES_MAX {
            return fail(format!(
                "segments of {} bytes (tiers.segment) are too large: give at most \
                 {SEGMENT_BYTES_MAX}",
                self.segment_bytes
            ));
        }
        let least = self.segment_bytes_min();
        if self.segment_bytes < least {
            return fail(format!(
                "segments of {} bytes (tiers.segment) cannot hold a page of rows of {} bytes: \
                 give at least {least}",
                self.segment_bytes, self.row_bytes
            ));
        }
        Ok(())
    }

    /// Checks the space that the store may take.
    fn check_space(&self) -> Result<()> {
        let fail = |why: String| Err(Error::Options(why));
        if !(SPACE_MIN..=SPACE_HARD).contains(&self.space_max) {
            return fail(format!(
                "space of {} times the live rows (tiers.space) is not allowed: give {SPACE_MIN} to \
                 {SPACE_HARD}",
                self.space_max
            ));
        }
        let space_least = self.target().least();
        if self.space_max < SPACE_DEFAULT.min(space_least) {
            let rounded_up = (space_least * 100.0).ceil() / 100.0;
            return fail(format!(
                "space of {} times the live rows (tiers.space) cannot be kept: rows of {} bytes in \
                 segments of {} bytes (tiers.segment) take up to {rounded_up} with their keys, \
                 headers and unused bytes of pages, which only a setting of {SPACE_DEFAULT} or \
                 more allows on top: raise tiers.segment, or tiers.space to {}",
                self.space_max,
                self.row_bytes,
                self.segment_bytes,
                rounded_up.min(SPACE_DEFAULT)
            ));
        }
        Ok(())
    }

    /// The smallest `space_max` that rows and segments of these sizes can keep.
    pub fn space_least(&self) -> f64 {
        self.target().least()
    }

    /// The smallest `segment_bytes` that is admitted.
    fn segment_bytes_min(&self) -> u64 {
        let page = self.layout().page_bytes as u64;
        (2 * page..).step_by(4096).find(|bytes| self.layout().rows_max(*bytes) > 0).unwrap_or(page)
    }

    pub(crate) fn layout(&self) -> Layout {
        match self.page_bytes {
            0 => Layout::for_segments(self.table, self.row_bytes, self.segment_bytes),
            page_bytes => Layout::with_page(self.table, self.row_bytes, page_bytes),
        }
    }

    /// How the space bound applies to these rows and segments.
    pub(crate) fn target(&self) -> Target {
        Target::new(&self.layout(), self.segment_bytes)
    }

    /// Number of rows of a full segment of `segment_bytes`.
    pub fn segment_rows(&self) -> u32 {
        self.layout().rows_max(self.segment_bytes)
    }

    /// Bytes of an index (`index_bytes_max`) that hold `rows` rows in any order: about eleven a row
    /// if there are many.
    pub fn index_bytes_for(&self, rows: u64) -> u64 {
        let layout = self.layout();
        // Pages of a store at its most space, and segments that are being written.
        let pages = rows.saturating_mul(2) / u64::from(layout.rows_per_page.max(1));
        let open = 8 * u64::from(layout.pages(self.segment_rows()));
        index::bytes_enough(rows, pages.saturating_mul(SPACE_HARD as u64).saturating_add(open))
    }

    /// Number of pages of a write, and of a merge's read.
    pub(crate) fn write_buffer_pages(&self) -> u32 {
        let pages = self.buffer_bytes / self.layout().page_bytes as u64;
        let segment = 1 + self.layout().pages(self.segment_rows());
        pages.clamp(2, u64::from(segment.max(2))) as u32
    }

    pub(crate) fn write_buffer_bytes(&self) -> usize {
        self.write_buffer_pages() as usize * self.layout().page_bytes
    }

    /// Bytes of a reader's queue: at least two pages, so a page always fits.
    pub(crate) fn reader_bytes(&self) -> usize {
        self.read_bytes.max(2 * self.layout().page_bytes)
    }

    /// The most threads that open a store.
    pub(crate) fn open_threads_most(&self) -> usize {
        match self.open_threads {
            0 => cores().min(OPEN_THREADS_MAX),
            threads => threads,
        }
    }

    /// Number of threads that open a store of `rows` rows, live and stale.
    pub(crate) fn threads_opening(&self, rows: u64) -> usize {
        let worth = (rows / ROWS_PER_THREAD).min(OPEN_THREADS_MAX as u64) as usize + 1;
        let most = self.open_threads_most();
        if self.open_threads == 0 { most.min(worth) } else { most }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_settings_are_named() {
        assert!(StoreOptions::new(0, 64).check().is_ok());
        let none = StoreOptions::new(0, 0).check().unwrap_err().to_string();
        assert!(none.contains("row of 0 bytes"), "{none}");
        let small = StoreOptions { segment_bytes: 8192, ..StoreOptions::new(0, 64) };
        let small = small.check().unwrap_err().to_string();
        assert!(small.contains("at least"), "{small}");
        let least: u64 = small.rsplit(' ').next().unwrap().parse().unwrap();
        let least = StoreOptions { segment_bytes: least, ..StoreOptions::new(0, 64) };
        least.check().unwrap();
        assert_eq!(least.segment_rows(), 51);
        let large = StoreOptions { segment_bytes: 1 << 40, ..StoreOptions::new(0, 64) };
        assert!(large.check().is_err());
        let space = StoreOptions { space_max: 3.0, ..StoreOptions::new(0, 64) };
        assert!(space.check().unwrap_err().to_string().contains("1.1 to 2"));
        let tight = |space_max, row_bytes, segment_bytes| {
            let options = StoreOptions::new(0, row_bytes);
            StoreOptions { space_max, segment_bytes, ..options }.check().map_err(|e| e.to_string())
        };
        assert_eq!(tight(1.2, 256, 16 << 20), Ok(()));
        let kept = tight(1.2, 256, 32 << 10).unwrap_err();
        assert!(kept.contains("(tiers.space) cannot be kept"), "{kept}");
        assert!(kept.contains("or tiers.space to 1.5"), "{kept}");
        let keys = tight(1.2, 24, 64 << 20).unwrap_err();
        let least: f64 = keys.rsplit(' ').next().unwrap().parse().unwrap();
        assert_eq!((tight(least, 24, 64 << 20), least < 1.5), (Ok(()), true));
        assert_eq!(tight(1.5, 24, 16 << 10), Ok(()));
        assert!(StoreOptions { read_depth: 0, ..StoreOptions::new(0, 64) }.check().is_err());
    }
}
