//! Memory and disk of a session, as callers choose them.

use std::path::PathBuf;

use stepwell_base::ByteCount;
use stepwell_base::owner::RankOf;
use stepwell_mem::PolicyKind;

/// Memory and disk of a session.
#[derive(Clone, Debug)]
pub struct Tiers {
    /// Bytes of everything that the session allocates. Sizes that aren't set share it.
    pub memory: ByteCount,
    /// Bytes of all tables' rows in memory, metadata included.
    pub dram: Option<ByteCount>,
    /// Memory of each table; missing ones share what the others leave.
    pub of_tables: Vec<TableMemory>,
    /// Bytes of the index of all tables' rows on disk, about 11 per row.
    pub index: Option<ByteCount>,
    /// Bytes of rows kept from pages that were read for other rows.
    pub harvest: Option<ByteCount>,
    /// Bytes of files that may go through the system's page cache, which `memory` doesn't count.
    pub page_cache: ByteCount,
    /// Directory of the stores, which must not contain rows; `None` for a temporary one.
    pub directory: Option<PathBuf>,
    /// Mini-batches whose rows are loaded ahead of the one that trains.
    pub lookahead: usize,
    /// Mini-batches whose keys are known ahead of the one that trains, at least `lookahead` + 1.
    /// The more are known, the better the choice of rows to evict and of rows to read together. A
    /// mini-batch takes about 30 bytes per key; together they take at most a quarter of the memory,
    /// for which the horizon is shortened.
    pub horizon: usize,
    /// The rank that this session is, which has the rows of its key shards. Callers exchange keys
    /// and rows.
    pub of: RankOf,
    /// Expected mini-batch, which decides how the memory is divided.
    pub expected: ExpectedBatch,
    /// Policy that selects the rows to evict among those without a known next use.
    pub policy: PolicyKind,
}

/// Memory of a table's rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableMemory {
    /// Bytes of [`Tiers::dram`] for this table alone; `None` for a share.
    pub dram: Option<ByteCount>,
    /// Whether all rows stay in memory. One too many ends the session.
    pub whole: bool,
}

impl Default for Tiers {
    fn default() -> Self {
        Self {
            memory: ByteCount(1 << 30),
            dram: None,
            of_tables: Vec::new(),
            index: None,
            harvest: None,
            page_cache: ByteCount(0),
            directory: None,
            lookahead: 2,
            horizon: 16,
            of: RankOf::ALONE,
            expected: ExpectedBatch::default(),
            policy: PolicyKind::default(),
        }
    }
}

impl Tiers {
    /// Memory of table number `table`.
    pub(super) fn of_table(&self, table: usize) -> TableMemory {
        self.of_tables.get(table).copied().unwrap_or_default()
    }

    /// The horizon, which is at least one mini-batch beyond the lookahead.
    pub(super) fn known(&self) -> usize {
        self.horizon.max(self.lookahead + 1)
    }
}

/// Expected mini-batch. Larger ones also train, but take more memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExpectedBatch {
    /// Examples; 0 if unknown.
    pub examples: u64,
    /// Ids of all examples, by table; empty if unknown, which means one per field and example.
    pub ids: Vec<u64>,
    /// Distinct ids, by table; empty if unknown. Memory that can't hold their rows is refused.
    pub rows: Vec<u64>,
}
