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
    /// Mini-batches whose rows are counted, of tables whose most used rows go there.
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
    /// Bytes of rows that come up from pages that are read for others; none for what suits
    /// `memory`, or 64 MiB.
    pub harvest: Option<ByteCount>,
    /// Bytes that are read around a row for the sake of others at most.
    pub read_unit: ByteCount,
    /// Space of the store after a commit at most, times that of its live rows.
    pub space: f64,
    /// Which rows leave memory first, of those whose next use is not known.
    pub policy: PolicyKind,
}

impl TierConfig {
    /// Bytes of the slab where nothing else says how many.
    pub const DRAM: ByteCount = ByteCount(1 << 30);
    /// Bytes of the store's index, likewise.
    pub const INDEX: ByteCount = ByteCount(1 << 30);
    /// Bytes of a segment file, likewise.
    pub const SEGMENT: ByteCount = ByteCount(64 << 20);
    /// Bytes of rows that come up beside others, likewise.
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
