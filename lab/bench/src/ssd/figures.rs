//! Figures of the store, and of the raw disk.

use serde::Serialize;
use stepwell_ssd::Stats;

use super::options::Options;
use crate::machine::Machine;

/// Results of a run. Rates are medians over the rounds.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Figures {
    /// Options of the run.
    pub options: Option<Options>,
    pub(super) machine: Option<Machine>,
    /// Random reads of one page each per second, at the same depth.
    pub raw_read_iops: f64,
    /// Processor microseconds per such read.
    pub raw_cpu_us_per_read: f64,
    /// Bytes per second of sequential writing, including the sync.
    pub raw_write_bytes_per_second: f64,
    /// Rows per second of random look-ups, four in flight.
    pub cold_rows_per_second: f64,
    /// Rows per second of random look-ups, one at a time.
    pub cold_rows_per_second_one: f64,
    /// Processor microseconds per row, four in flight.
    pub cpu_us_per_row: f64,
    /// Cold rows relative to raw reads.
    pub read_over_raw: f64,
    /// Cold rows relative to raw reads, one look-up at a time.
    pub read_over_raw_one: f64,
    /// Rows per second of look-ups of rows that were put together.
    pub grouped_rows_per_second: f64,
    /// `grouped_rows_per_second` relative to random look-ups.
    pub grouped_over_cold: f64,
    /// Rows per second of look-ups that are half one group, half random.
    pub mixed_rows_per_second: f64,
    /// `mixed_rows_per_second` relative to random look-ups.
    pub mixed_over_cold: f64,
    /// Rows per second of a bulk load, including the commit.
    pub load_rows_per_second: f64,
    /// Bytes of payload per second of a bulk load.
    pub load_bytes_per_second: f64,
    /// Bytes of payload relative to raw bytes.
    pub load_over_raw: f64,
    /// Rows per second of random updates of half of the rows, including commit and compaction.
    pub update_rows_per_second: f64,
    /// Bytes of payload of updates relative to raw bytes.
    pub update_over_raw: f64,
    /// Bytes of the index per row, after loading with a hint.
    pub index_bytes_per_key: f64,
    /// Bytes of the index per row after reopening.
    pub index_bytes_per_key_reopened: f64,
    /// Most bytes of the index per key while it grew beyond a million keys without a hint; a part
    /// being rewritten counts twice.
    pub index_bytes_per_key_growing: f64,
    /// Longest time for growing a part of the index, in milliseconds.
    pub index_rewrite_ms_longest: f64,
    /// Longest concurrent put of 1024 rows, in milliseconds, including delays by the disk and other
    /// processes.
    pub growing_put_ms_most: f64,
    /// Bytes of full segments divided by bytes of payload, minus one.
    pub format_overhead: f64,
    /// Bytes of a sealed, full segment per byte of payload: the maximum over rows of 512 to 16384
    /// bytes in steps of 512, each measured in a small separate store.
    pub row_space_worst: f64,
    /// Like `row_space_worst`, for rows of 64 bytes, which have a head of 16 bytes and 9 bytes in
    /// the list: 1.39.
    pub row_space_64: f64,
    /// Bytes of files divided by bytes of live rows, after overwriting and a commit.
    pub space_amplification: f64,
    /// Maximum of the space amplification at any time.
    pub space_amplification_most: f64,
    /// Bytes written divided by bytes of rows put, while overwriting.
    pub write_amplification: f64,
    /// Rows per second of overwriting.
    pub overwrite_rows_per_second: f64,
    /// Seconds to open the store.
    pub reopen_seconds: f64,
    /// Nanoseconds to open it, per row in its segments, with one thread.
    pub open_ns_per_row: f64,
    /// Nanoseconds to open it, per row in its segments, with two threads.
    pub open_ns_per_row_two: f64,
    /// Time of refreshing a view, after one row in a hundred was put again at random and all was
    /// committed, divided by the time of opening one then, with the store's default number of
    /// threads.
    pub refresh_over_open: f64,
    /// Milliseconds of that refresh.
    pub refresh_ms: f64,
    /// Rows of the segments that it read: those put again, and those that merges moved.
    pub refresh_rows_read: f64,
    /// Seconds of a snapshot after few changes.
    pub snapshot_seconds: f64,
    /// Statistics of the store after the reads.
    pub stats: Option<Stats>,
}
