//! Memory and disk.

use std::path::PathBuf;

use stepwell_base::ByteCount;
use stepwell_engine::Lookup;
use stepwell_mem::PolicyKind;

/// Memory and disk.
#[derive(Clone, Debug, PartialEq)]
pub struct TierConfig {
    /// Bytes of each device for rows; none for nine tenths of what it offers.
    pub hbm: Option<ByteCount>,
    /// How rows are found there.
    pub lookup: Lookup,
    /// Mini-batches in which uses are counted, for tables whose most used rows go to devices.
    pub warm_up: usize,
    /// Bytes of the slab with its index and metadata; none for a share of `memory`, or 1 GiB.
    pub dram: Option<ByteCount>,
    /// Directory of the store; none for a temporary one.
    pub ssd: Option<PathBuf>,
    /// Bytes that the store's index may take; none for a share of `memory`, or 1 GiB.
    pub index: Option<ByteCount>,
    /// Bytes of a segment file; none for what suits `memory`, or 64 MiB.
    pub segment: Option<ByteCount>,
    /// Bytes of segment files that go through the system's page cache.
    pub page_cache: ByteCount,
    /// Bytes of rows loaded from pages that were read for other rows; none for what suits `memory`,
    /// or 64 MiB.
    pub harvest: Option<ByteCount>,
    /// Most bytes that are read around a row for the sake of its neighbours.
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

    pub(super) fn blank() -> Self {
        Self {
            hbm: None,
            lookup: Lookup::Slots,
            warm_up: 0,
            dram: None,
            ssd: None,
            index: None,
            segment: None,
            page_cache: ByteCount(0),
            harvest: None,
            read_unit: ByteCount(0),
            space: 0.0,
            policy: PolicyKind::default(),
        }
    }
}
