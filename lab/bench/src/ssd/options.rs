//! Options of the benchmark of the store.

use std::path::PathBuf;

use serde::Serialize;

/// Options of the benchmark.
#[derive(Clone, Debug, Serialize)]
pub struct Options {
    /// A directory on the disk to measure; files created in it are removed again.
    pub directory: PathBuf,
    /// Rows in the store.
    pub rows: u64,
    /// Bytes of a row.
    pub row_bytes: usize,
    /// Keys per look-up and per put.
    pub batch: usize,
    /// Exponent of the keys' frequencies in look-ups and updates; 0 for uniform.
    pub skew: f64,
    /// Reads in flight.
    pub depth: usize,
    /// Seconds per measurement of reads.
    pub seconds: f64,
    /// Number of times to overwrite all rows at random for the space results.
    pub overwrites: u64,
    /// Number of rounds; the median counts.
    pub rounds: usize,
    /// Rows to which the index grows without a hint; 0 to skip this part.
    pub index_rows: u64,
}
