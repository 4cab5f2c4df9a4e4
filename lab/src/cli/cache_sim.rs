//! Arguments of `stepwell-lab cache-sim`.

use std::path::PathBuf;

use clap::Args;

/// `stepwell-lab cache-sim`.
#[derive(Debug, Args)]
pub(crate) struct CacheSimArgs {
    /// Traces: bare keys, plain or packed with xz or zstd, or training files
    #[arg(value_name = "TRACE", required = true)]
    pub(crate) traces: Vec<PathBuf>,
    /// Format of keys: i64be, i32be, u32be, criteo-tsv, or auto: packed training files and names
    /// with .tsv are criteo-tsv, names that start with scarab-recs i64be, with orm-busy or web07
    /// i32be, with w106 u32be
    #[arg(long, default_value = "auto", value_name = "NAME")]
    pub(crate) format: String,
    /// Sizes of the slab, as fractions of the distinct keys (0.01) or as slots (5000)
    #[arg(long, default_value = "0.01,0.1", value_name = "SIZES", allow_hyphen_values = true)]
    pub(crate) sizes: String,
    /// Policies to try: all, or a list of names
    #[arg(long, default_value = "all", value_name = "NAMES")]
    pub(crate) policies: String,
    /// Accesses per mini-batch, whose keys are counted once and held together
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) mini_batch: usize,
    /// Mini-batches whose keys are known in advance
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub(crate) window: usize,
    /// Count reads of rows that left the slab, with this many rows on a page in the order in which
    /// they left, without compaction (default with --read-unit or --harvest: 27)
    #[arg(long, value_name = "ROWS")]
    pub(crate) rows_per_page: Option<usize>,
    /// Count reads, each of this many neighbouring pages (default: 1)
    #[arg(long, value_name = "PAGES")]
    pub(crate) read_unit: Option<usize>,
    /// Count reads with at most this many harvested rows, which are kept for a use within --window
    /// (default: 0)
    #[arg(long, value_name = "ROWS")]
    pub(crate) harvest: Option<usize>,
    /// Print all figures as JSON; with FILE, write them there and print the tables
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<Option<PathBuf>>,
    /// Plot hit rates over sizes into this file
    #[arg(long = "svg", alias = "picture", value_name = "FILE.svg")]
    pub(crate) picture: Option<PathBuf>,
}
