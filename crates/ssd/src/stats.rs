//! Figures of what a store has done and holds.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Number of groups of segments by live part.
pub const LIVE_PARTS: usize = 10;

/// Number of groups of segments by age.
pub const AGE_PARTS: usize = 4;

/// Figures of a store; counts begin when it is made or opened.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Stats {
    /// Rows that the index points at.
    pub rows_live: u64,
    /// Rows in segments that the index no longer points at, including unremoved merged segments.
    pub rows_stale: u64,
    /// Bytes of live rows on pages, including key, birth and last use.
    pub bytes_live: u64,
    /// Bytes of all sealed segments' files, including merged ones not yet removed.
    pub bytes_files: u64,
    /// `bytes_files` over `bytes_live`; 0 without rows.
    pub space_amplification: f64,
    /// Bytes of files above the space setting, which compaction has yet to reclaim.
    pub bytes_debt: u64,
    /// Segments in use, including the open one.
    pub segments: u64,
    /// Merged segments that the next commit removes.
    pub segments_retired: u64,
    /// Merged segments that scans hold, including those that wait for a commit.
    pub segments_pinned: u64,
    /// Bytes of the pinned segments' files, which the system frees once the scans are past them; of
    /// a segment that was being written when a scan began, its bytes at that time.
    pub bytes_pinned: u64,
    /// Sealed segments by live part: 0 to 10 percent, 10 to 20, and so on.
    pub segments_by_live: [u64; LIVE_PARTS],
    /// Bytes of the index.
    pub index_bytes: u64,
    /// The most bytes that the index ever took.
    pub index_bytes_peak: u64,
    /// The longest time that growing a part of the index took, in milliseconds.
    pub index_rewrite_ms_longest: f64,
    /// Bytes read from files, for any purpose.
    pub bytes_read: u64,
    /// Bytes written to files: rows, padding, footers, manifests, merged rows, copies.
    pub bytes_written: u64,
    /// Traffic and segments of each directory.
    pub directories: Vec<DirectoryStats>,
    /// Keys looked up.
    pub lookups: u64,
    /// Look-ups of keys that the store does not have.
    pub lookups_absent: u64,
    /// Look-ups served from the write buffer.
    pub lookups_buffered: u64,
    /// Look-ups served from a page that another look-up of the same call read.
    pub lookups_merged: u64,
    /// Reads submitted to the disk for look-ups.
    pub reads: u64,
    /// Pages that `reads` returned.
    pub pages_read: u64,
    /// Pages searched for rows that other requests want, by age of their segment: sealed in the
    /// last quarter of all rows ever put, in the quarter before, and so on.
    pub harvest_by_age: [PageYield; AGE_PARTS],
    /// Pages read per look-up that the disk served, alone or with others; 0 without such look-ups.
    pub pages_per_lookup: f64,
    /// Bytes of pages read over bytes of rows looked up in them.
    pub read_amplification: f64,
    /// Mean number of reads in flight when a read started.
    pub queue_depth: f64,
    /// Median time of a read, in microseconds.
    pub read_us_p50: u64,
    /// 99th percentile of the time of a read, in microseconds.
    pub read_us_p99: u64,
    /// Rows put.
    pub rows_put: u64,
    /// Rows put that replaced one of the same key on the unfinished page.
    pub rows_replaced: u64,
    /// Keys deleted.
    pub rows_deleted: u64,
    /// Expired rows that compaction dropped.
    pub rows_expired: u64,
    /// Rows that compaction moved.
    pub rows_moved: u64,
    /// Bytes written over bytes of rows put, as on pages.
    pub write_amplification: f64,
    /// Merges of segments.
    pub compactions: u64,
    /// Processor seconds of merges in the background.
    pub compaction_cpu_seconds: f64,
    /// Segments merged into others.
    pub segments_merged: u64,
    /// Merges that failed: a segment could not be read, the disk refused, or the index had no room.
    pub merges_failed: u64,
    /// Segments that merges skip since such a failure, until the store is reopened.
    pub segments_left_alone: u64,
    /// Deletions in sealed segments.
    pub deletions: u64,
    /// Files in `set-aside` of the store's directories when it was opened.
    pub files_set_aside: u64,
    /// Bytes of the files in `set-aside`.
    pub bytes_set_aside: u64,
    /// Files open now, in all stores under the same bound, such as those of one process; 0 if they
    /// are not counted.
    pub files_open: u64,
    /// The most files that were open at once.
    pub files_open_peak: u64,
    /// The bound on open files.
    pub files_open_max: u64,
    /// Manifests written.
    pub commits: u64,
    /// Number of times that a writer waited for compaction.
    pub writer_waits: u64,
}

/// Pages and the wanted rows found on them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageYield {
    /// Pages searched.
    pub pages: u64,
    /// Rows found that were wanted in addition to those looked up.
    pub rows: u64,
}

impl PageYield {
    /// Counts a page, unless it was not searched.
    pub(crate) fn add(&mut self, rows: Option<u32>) {
        self.pages += u64::from(rows.is_some());
        self.rows += u64::from(rows.unwrap_or(0));
    }
}

/// Traffic and segments of one directory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectoryStats {
    /// Path of the directory.
    pub path: String,
    /// Bytes read from files in the directory.
    pub bytes_read: u64,
    /// Bytes written to files in the directory.
    pub bytes_written: u64,
    /// Segments in the directory.
    pub segments: u64,
}

/// Files in the `set-aside` directories of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Aside {
    /// Segments and manifests, which a purge removes.
    pub files: u64,
    /// Bytes of these segments and manifests.
    pub bytes: u64,
    /// Names of other entries there, which no store put there.
    pub others: Vec<String>,
}

/// The counters behind [`Stats`], used by all threads.
#[derive(Debug)]
pub(crate) struct Counters {
    /// Bytes read and written, by directory.
    traffic: Vec<[AtomicU64; 2]>,
    pub(crate) lookups: AtomicU64,
    pub(crate) lookups_absent: AtomicU64,
    pub(crate) lookups_buffered: AtomicU64,
    pub(crate) lookups_read: AtomicU64,
    pub(crate) lookup_pages: AtomicU64,
    pub(crate) reads: AtomicU64,
    pub(crate) pages_read: AtomicU64,
    /// Pages and rows of each [`PageYield`].
    harvest_by_age: [[AtomicU64; 2]; AGE_PARTS],
    pub(crate) depth_sum: AtomicU64,
    pub(crate) rows_put: AtomicU64,
    pub(crate) rows_replaced: AtomicU64,
    pub(crate) rows_deleted: AtomicU64,
    pub(crate) rows_expired: AtomicU64,
    pub(crate) rows_moved: AtomicU64,
    pub(crate) compactions: AtomicU64,
    pub(crate) compaction_cpu_us: AtomicU64,
    pub(crate) segments_merged: AtomicU64,
    pub(crate) merges_failed: AtomicU64,
    pub(crate) commits: AtomicU64,
    pub(crate) writer_waits: AtomicU64,
    latency: Mutex<Histogram<u64>>,
}

pub(crate) fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

fn get(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

fn ratio(above: u64, below: u64) -> f64 {
    if below == 0 { 0.0 } else { above as f64 / below as f64 }
}

impl Counters {
    /// Makes counters of a store in `directories` directories.
    pub(crate) fn new(directories: usize) -> Self {
        #[expect(clippy::expect_used, reason = "the arguments are constants that are admitted")]
        let latency = Histogram::new_with_bounds(1, 60_000_000, 2).expect("a histogram");
        let zero = || AtomicU64::new(0);
        Self {
            traffic: (0..directories).map(|_| [zero(), zero()]).collect(),
            lookups: zero(),
            lookups_absent: zero(),
            lookups_buffered: zero(),
            lookups_read: zero(),
            lookup_pages: zero(),
            reads: zero(),
            pages_read: zero(),
            harvest_by_age: Default::default(),
            depth_sum: zero(),
            rows_put: zero(),
            rows_replaced: zero(),
            rows_deleted: zero(),
            rows_expired: zero(),
            rows_moved: zero(),
            compactions: zero(),
            compaction_cpu_us: zero(),
            segments_merged: zero(),
            merges_failed: zero(),
            commits: zero(),
            writer_waits: zero(),
            latency: Mutex::new(latency),
        }
    }

    pub(crate) fn read(&self, directory: usize, bytes: usize) {
        add(&self.traffic[directory][0], bytes as u64);
    }

    pub(crate) fn wrote(&self, directory: usize, bytes: usize) {
        add(&self.traffic[directory][1], bytes as u64);
    }

    /// Adds up pages that were searched, by age.
    pub(crate) fn harvested(&self, by_age: &[PageYield; AGE_PARTS]) {
        for (count, PageYield { pages, rows }) in self.harvest_by_age.iter().zip(by_age) {
            add(&count[0], *pages);
            add(&count[1], *rows);
        }
    }

    /// Records and removes the times of finished reads.
    pub(crate) fn took(&self, times: &mut Vec<Duration>) {
        let mut latency = self.latency.lock().unwrap_or_else(PoisonError::into_inner);
        for time in times.drain(..) {
            latency.saturating_record(time.as_micros().max(1) as u64);
        }
    }

    /// Returns statistics with only the counters set; `stride` is a row's bytes on a page.
    pub(crate) fn counted(&self, stride: u64, page_bytes: u64, paths: &[String]) -> Stats {
        let directory = |(path, traffic): (&String, &[AtomicU64; 2])| DirectoryStats {
            path: path.clone(),
            bytes_read: get(&traffic[0]),
            bytes_written: get(&traffic[1]),
            segments: 0,
        };
        let directories: Vec<_> = paths.iter().zip(&self.traffic).map(directory).collect();
        let bytes_read = directories.iter().map(|directory| directory.bytes_read).sum();
        let bytes_written = directories.iter().map(|directory| directory.bytes_written).sum();
        let (read, pages) = (get(&self.lookups_read), get(&self.lookup_pages));
        let latency = self.latency.lock().unwrap_or_else(PoisonError::into_inner);
        Stats {
            bytes_read,
            bytes_written,
            directories,
            lookups: get(&self.lookups),
            lookups_absent: get(&self.lookups_absent),
            lookups_buffered: get(&self.lookups_buffered),
            lookups_merged: read.saturating_sub(pages),
            reads: get(&self.reads),
            pages_read: get(&self.pages_read),
            harvest_by_age: std::array::from_fn(|age| {
                let [pages, rows] = &self.harvest_by_age[age];
                PageYield { pages: get(pages), rows: get(rows) }
            }),
            pages_per_lookup: ratio(pages, read),
            read_amplification: ratio(pages * page_bytes, read * stride),
            queue_depth: ratio(get(&self.depth_sum), get(&self.reads)),
            read_us_p50: latency.value_at_quantile(0.5),
            read_us_p99: latency.value_at_quantile(0.99),
            rows_put: get(&self.rows_put),
            rows_replaced: get(&self.rows_replaced),
            rows_deleted: get(&self.rows_deleted),
            rows_expired: get(&self.rows_expired),
            rows_moved: get(&self.rows_moved),
            write_amplification: ratio(bytes_written, get(&self.rows_put) * stride),
            compactions: get(&self.compactions),
            compaction_cpu_seconds: get(&self.compaction_cpu_us) as f64 / 1e6,
            segments_merged: get(&self.segments_merged),
            merges_failed: get(&self.merges_failed),
            commits: get(&self.commits),
            writer_waits: get(&self.writer_waits),
            ..Stats::default()
        }
    }
}
