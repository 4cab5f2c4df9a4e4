//! Memory and disk as Python describes them.

use std::path::PathBuf;

use pyo3::prelude::*;
use stepwell_base::ByteCount;
use stepwell_base::owner::RankOf;
use stepwell_engine::{ExpectedBatch, Tiers};

use crate::specs::TableArgs;

/// Memory and disk: attributes of the Python class.
#[derive(Debug, FromPyObject)]
pub(crate) struct TierArgs {
    memory: u64,
    dram: Option<u64>,
    index: Option<u64>,
    harvest: Option<u64>,
    page_cache: u64,
    pub(crate) rank: usize,
    pub(crate) ranks: usize,
    path: Option<PathBuf>,
    lookahead: usize,
    horizon: usize,
    pub(crate) threads: usize,
}

/// An [`ExpectedBatch`].
pub(crate) type Expected = (u64, Vec<u64>, Vec<u64>);

impl TierArgs {
    /// The tiers of tables whose mini-batches have `examples` examples and, by table, `ids` ids.
    pub(crate) fn tiers(&self, tables: &[TableArgs], (examples, ids, rows): Expected) -> Tiers {
        Tiers {
            memory: ByteCount(self.memory),
            dram: self.dram.map(ByteCount),
            of_tables: tables.iter().map(TableArgs::memory).collect(),
            index: self.index.map(ByteCount),
            harvest: self.harvest.map(ByteCount),
            page_cache: ByteCount(self.page_cache),
            of: RankOf { rank: self.rank, ranks: self.ranks },
            expected: ExpectedBatch { examples, ids, rows },
            directory: self.path.clone(),
            lookahead: self.lookahead,
            horizon: self.horizon,
            ..Tiers::default()
        }
    }
}
