//! Arguments of `stepwell-lab study`.

use std::path::PathBuf;

use clap::builder::RangedU64ValueParser;
use clap::{Args, Subcommand, ValueHint};
use stepwell_base::ByteCount;

/// `stepwell-lab study`.
#[derive(Debug, Args)]
pub(crate) struct StudyArgs {
    /// The study to run.
    #[command(subcommand)]
    pub(crate) job: StudyJob,
}

/// A paper's experiments.
#[derive(Debug, Subcommand)]
pub(crate) enum StudyJob {
    /// RDMA-wild against Sync-DSGD: 15 workers and a server learn MNIST
    RdmaWild(OneStudyArgs),
    /// RNA against the blocking sum, eager SGD and AD-PSGD: ranks that are late
    Rna(RnaArgs),
    /// GeePS under BSP, SSP and Async, and in ever less memory of an emulated device
    Geeps(OneStudyArgs),
    /// Clicks: a DeepFM with rows spread over ranks, one of which is late
    Ctr(CtrStudyArgs),
    /// Hashed ids: OP+OSRP against modulo hashing and models over all ids, by number of bins
    Hash(HashStudyArgs),
    /// Measure costs of messages and arithmetic of ranks on this machine, for --costs
    Costs(CostsArgs),
}

/// `stepwell-lab study costs`.
#[derive(Debug, Args)]
pub(crate) struct CostsArgs {
    /// Print the costs as JSON; with FILE, write them there and print a table
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<Option<PathBuf>>,
}

/// `stepwell-lab study ctr`.
#[derive(Debug, Args)]
pub(crate) struct CtrStudyArgs {
    /// A file of Criteo's lines, packed or not; its last fifth is for testing
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) data: PathBuf,
    /// Learn from only the first of N parts of the training examples
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = parts())]
    pub(crate) part: u64,
    /// First seed of initial values, probes and delays
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) seed: u32,
    /// Number of seeds to run; figures are means over them
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = seeds())]
    pub(crate) seeds: u64,
    /// Memory for each rank's rows, such as 2MiB; the rest is on disk (default: all of them in
    /// memory)
    #[arg(long, value_name = "SIZE")]
    pub(crate) dram: Option<ByteCount>,
    #[command(flatten)]
    pub(crate) costs: GivenCosts,
    /// Print all figures as JSON; with FILE, write them there and print the table
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<Option<PathBuf>>,
}

/// `stepwell-lab study hash`.
#[derive(Debug, Args)]
pub(crate) struct HashStudyArgs {
    /// A file of Criteo's lines, packed or not; its last fifth is for testing
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) data: PathBuf,
    /// Run four numbers of bins, a quarter of the training examples and one seed, in seconds
    #[arg(long)]
    pub(crate) quick: bool,
    /// Learn from only the first of N parts of the training examples
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = parts())]
    pub(crate) part: u64,
    /// First seed of initial values and hashes
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) seed: u64,
    /// Run N seeds; figures are means over them [default: 5, with --quick 1]
    #[arg(long, value_name = "N", value_parser = seeds())]
    pub(crate) seeds: Option<u64>,
    /// Print all figures as JSON; with FILE, write them there and print the table
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<Option<PathBuf>>,
    /// Draw the curves into this file, as SVG
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) svg: Option<PathBuf>,
}

/// Parser of the number of seeds.
fn seeds() -> RangedU64ValueParser<u64> {
    clap::value_parser!(u64).range(1..=1000)
}

/// `stepwell-lab study rna`.
#[derive(Debug, Args)]
pub(crate) struct RnaArgs {
    #[command(flatten)]
    pub(crate) study: OneStudyArgs,
    /// Run N seeds, starting at --seed, and print means and spreads [default: 3, with --quick 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100))]
    pub(crate) seeds: Option<u64>,
    #[command(flatten)]
    pub(crate) costs: GivenCosts,
}

/// Costs of messages and arithmetic, in studies that read them from a file.
#[derive(Debug, Args)]
pub(crate) struct GivenCosts {
    /// Costs of messages and arithmetic, a file from `study costs --json FILE` (default: 100
    /// Gbit/s, 2 us, 12 GB/s)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) costs: Option<PathBuf>,
}

/// Arguments of all studies of MNIST.
#[derive(Debug, Args)]
pub(crate) struct OneStudyArgs {
    /// Directory with MNIST's four IDX files, packed or not: train-images-idx3-ubyte.gz and so on
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) data: PathBuf,
    /// Run a tenth of it, in about a minute
    #[arg(long)]
    pub(crate) quick: bool,
    /// Learn from one in N of the training examples
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = parts())]
    pub(crate) part: u64,
    /// Seed of the order of data, initial values, probes and delays
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) seed: u64,
    /// Print all figures as JSON; with FILE, write them there and print the tables
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<Option<PathBuf>>,
    /// Draw the curves into this file, as SVG
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) svg: Option<PathBuf>,
}

/// Parser of the number of parts of the data.
fn parts() -> RangedU64ValueParser<u64> {
    clap::value_parser!(u64).range(1..=60)
}
