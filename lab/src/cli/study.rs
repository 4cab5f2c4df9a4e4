//! What `stepwell-lab study` takes.

use std::path::PathBuf;

use clap::builder::RangedU64ValueParser;
use clap::{Args, Subcommand, ValueHint};
use stepwell_base::ByteCount;

/// `stepwell-lab study`.
#[derive(Debug, Args)]
pub(crate) struct StudyArgs {
    /// Which.
    #[command(subcommand)]
    pub(crate) job: StudyJob,
}

/// A paper's experiments.
#[derive(Debug, Subcommand)]
pub(crate) enum StudyJob {
    /// RDMA-wild against Sync-DSGD: 15 workers and a server that learn MNIST
    RdmaWild(OneStudyArgs),
    /// RNA against the blocking sum, eager SGD and AD-PSGD, with late ranks
    Rna(RnaArgs),
    /// GeePS under BSP, SSP and Async, and with less and less memory on an emulated device
    Geeps(OneStudyArgs),
    /// Clicks: a DeepFM with rows spread over ranks, one of which is late
    Ctr(CtrStudyArgs),
    /// Measure what messages and arithmetic cost on this machine, for --costs
    Costs(CostsArgs),
}

/// What `study costs` takes.
#[derive(Debug, Args)]
pub(crate) struct CostsArgs {
    /// Print the costs as JSON; with FILE, write them there and print a table
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<Option<PathBuf>>,
}

/// What the study of clicks takes.
#[derive(Debug, Args)]
pub(crate) struct CtrStudyArgs {
    /// A file in Criteo's format, compressed or not; the last fifth is the test set
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) data: PathBuf,
    /// Learn from the first of N parts of the training examples
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = parts())]
    pub(crate) part: u64,
    /// The first seed of initial values, probes and delays
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) seed: u32,
    /// Number of seeds; figures are means over them
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = seeds())]
    pub(crate) seeds: u64,
    /// Memory for each rank's rows, such as 2MiB; the others are on disk (default: all in memory)
    #[arg(long, value_name = "SIZE")]
    pub(crate) dram: Option<ByteCount>,
    #[command(flatten)]
    pub(crate) costs: GivenCosts,
    /// Print all figures as JSON; with FILE, write them there and print the table
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<Option<PathBuf>>,
}

/// Seeds of a study.
fn seeds() -> RangedU64ValueParser<u64> {
    clap::value_parser!(u64).range(1..=1000)
}

/// `stepwell-lab study rna`.
#[derive(Debug, Args)]
pub(crate) struct RnaArgs {
    #[command(flatten)]
    pub(crate) study: OneStudyArgs,
    /// Run N seeds, starting at --seed, and print means and ranges [default: 3, with --quick 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100))]
    pub(crate) seeds: Option<u64>,
    #[command(flatten)]
    pub(crate) costs: GivenCosts,
}

/// What messages and arithmetic cost, in studies that take it from a file.
#[derive(Debug, Args)]
pub(crate) struct GivenCosts {
    /// Costs of messages and arithmetic, written by `study costs --json FILE` (default: 100 Gbit/s,
    /// 2 us, 12 GB/s)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) costs: Option<PathBuf>,
}

/// What all of them take.
#[derive(Debug, Args)]
pub(crate) struct OneStudyArgs {
    /// The folder with MNIST's four IDX files, compressed or not: train-images-idx3-ubyte.gz and so
    /// on
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

/// Parts of the data, of which one is learned from.
fn parts() -> RangedU64ValueParser<u64> {
    clap::value_parser!(u64).range(1..=60)
}
