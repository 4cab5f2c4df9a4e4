//! Options of the benchmark of rows in memory.

use serde::Serialize;

/// Options of the benchmark.
#[derive(Clone, Debug, Serialize)]
pub struct Options {
    /// Number of distinct keys.
    pub keys: u64,
    /// Number of slots.
    pub slots: u64,
    /// Bytes of a row.
    pub row_bytes: usize,
    /// Exponent of the keys' frequencies in look-ups.
    pub skew: f64,
    /// Keys per look-up, before removing duplicates.
    pub batch: u64,
    /// Total number of keys drawn.
    pub lookups: u64,
    /// Number of rounds; the median counts.
    pub rounds: usize,
}
