//! What `stepwell study` takes.

use std::path::PathBuf;

use clap::builder::RangedU64ValueParser;
use clap::{Args, Subcommand, ValueHint};

/// `stepwell study`.
#[derive(Debug, Args)]
pub(crate) struct StudyArgs {
    /// Which.
    #[command(subcommand)]
    pub(crate) job: StudyJob,
}

/// A paper's experiments.
#[derive(Debug, Subcommand)]
pub(crate) enum StudyJob {
    /// RDMA-wild beside Sync-DSGD: 15 workers and a server that learn MNIST
    RdmaWild(OneStudyArgs),
    /// RNA beside the blocking sum, eager SGD and AD-PSGD: ranks that are late
    Rna(OneStudyArgs),
    /// GeePS under BSP, SSP and Async, and in less and less memory of an emulated device
    Geeps(OneStudyArgs),
}

/// What all of them take.
#[derive(Debug, Args)]
pub(crate) struct OneStudyArgs {
    /// The folder with MNIST's four IDX files, packed or not: train-images-idx3-ubyte.gz and so on
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) data: PathBuf,
    /// A tenth of it, in about a minute
    #[arg(long)]
    pub(crate) quick: bool,
    /// Learn from one in N of the training examples
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = parts())]
    pub(crate) part: u64,
    /// What the order of data, initial values, probes and delays follow from
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
