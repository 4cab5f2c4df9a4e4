//! Memory and disk.

use std::path::PathBuf;

use stepwell_base::ByteCount;
use stepwell_engine::Lookup;
use stepwell_mem::PolicyKind;

/// Memory and disk.
#[derive(Clone, Debug, PartialEq)]
pub struct TierConfig {
    /// Bytes of each device for rows; `None` for nine tenths of its free memory.
    pub hbm: Option<ByteCount>,
    /// How a step finds rows on a device.
    pub lookup: Lookup,
    /// Mini-batches that count uses of rows, for tables whose most used rows go to devices.
    pub warm_up: usize,
    /// Bytes of the slab with its index and metadata; `None` for a share of `memory`, or 1 GiB.
    pub dram: Option<ByteCount>,
    /// Directory of all stores; `None` for a temporary one.
    pub ssd: Option<PathBuf>,
    /// Limit in bytes on the store's index; `None` for a share of `memory`, or 1 GiB.
    pub index: Option<ByteCount>,
    /// Bytes of a segment file; `None` for 64 MiB, less if `memory` is small.
    pub segment: Option<ByteCount>,
    /// Bytes of segment files that use the system's page cache.
    pub page_cache: ByteCount,
    /// Bytes of harvested rows; `None` for 64 MiB, less if `memory` is small.
    pub harvest: Option<ByteCount>,
    /// Most bytes read around a row to harvest other rows.
    pub read_unit: ByteCount,
    /// Most space of the store after a commit, as a multiple of its live rows'.
    pub space: f64,
    /// Which rows are evicted first, among those without a known next use.
    pub policy: PolicyKind,
}

impl TierConfig {
    /// Default bytes of the slab.
    pub const DRAM: ByteCount = ByteCount(1 << 30);
    /// Default bytes of the store's index.
    pub const INDEX: ByteCount = ByteCount(1 << 30);
    /// Default bytes of a segment file.
    pub const SEGMENT: ByteCount = ByteCount(64 << 20);
    /// Default bytes of harvested rows.
    pub const HARVEST: ByteCount = ByteCount(64 << 20);
}
