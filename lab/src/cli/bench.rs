//! Arguments of `stepwell-lab bench`.

use std::path::PathBuf;

use clap::{Arg, ArgAction, Args, Command, Subcommand};
use stepwell_base::ByteCount;
use stepwell_device::Choice;

/// Arguments of each benchmark that `--quick` gives another default.
const QUICK: [(&str, &[(&str, &str)]); 6] = [
    (
        "ssd",
        &[
            ("rows", "1000000"),
            ("seconds", "0.5"),
            ("overwrites", "1"),
            ("rounds", "1"),
            ("index_rows", "2000000"),
        ],
    ),
    ("mem", &[("keys", "8000000"), ("slots", "1600000"), ("lookups", "1600000"), ("rounds", "1")]),
    ("hbm", &[("rounds", "1")]),
    (
        "train",
        &[
            ("rows", "2000000"),
            ("warmup", "100000"),
            ("examples", "100000"),
            ("models", "deepfm"),
            ("shares", "10"),
            ("store", "loaded"),
        ],
    ),
    ("cpu", &[("steps", "5"), ("models", "deepfm,lr")]),
    (
        "ranks",
        &[("rows", "200000"), ("examples", "100000"), ("rounds", "1"), ("models", "deepfm,lr")],
    ),
];

/// Adds `--quick` to every benchmark.
pub(super) fn with_quick(bench: Command) -> Command {
    let with = |command: Command, defaults: &[(&str, &'static str)]| {
        let help = "Measure less, in about a minute, unless other flags set the amount";
        let quick = Arg::new("quick").long("quick").action(ArgAction::SetTrue).help(help);
        defaults.iter().fold(command.arg(quick), |command, (name, value)| {
            command.mut_arg(name, |arg| arg.default_value_if("quick", "true", *value))
        })
    };
    QUICK.iter().fold(bench, |bench, (name, defaults)| {
        bench.mut_subcommand(name, |command| with(command, defaults))
    })
}

/// `stepwell-lab bench`.
#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    pub(crate) job: BenchJob,
}

/// What to measure.
#[derive(Debug, Subcommand)]
pub(crate) enum BenchJob {
    /// The store of rows against the raw disk
    Ssd(BenchSsdArgs),
    /// Rows in memory against bare loops over the same memory
    Mem(BenchMemArgs),
    /// Rows on a device against copies within it
    Hbm(BenchHbmArgs),
    /// Training out of core, against memory and the raw disk
    Train(BenchTrainArgs),
    /// Training steps alone, against the processor's limits
    Cpu(BenchCpuArgs),
    /// Several ranks, against one rank, memory and a network
    Ranks(BenchRanksArgs),
    /// One of the processes that `bench ranks` launches
    #[cfg(feature = "mpi")]
    #[command(hide = true)]
    Alltoallv { way: String },
}

/// `stepwell-lab bench ranks`.
#[derive(Debug, Args)]
#[command(
    after_help = "Its examples follow from --rows and --skew, not from synth.*: it measures that \
                  many distinct ids."
)]
pub(crate) struct BenchRanksArgs {
    /// A directory on the disk to measure, with room for the examples and twice the rows
    #[arg(long, default_value = ".", value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// Print all figures as JSON; with FILE, write them there and print the table
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<Option<PathBuf>>,
    /// Train on this file, preferably a packed one (default: the built-in stream, packed)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["rows", "skew", "examples"])]
    pub(crate) data: Option<PathBuf>,
    /// Ids of all slots
    #[arg(long, default_value_t = 2_000_000, value_name = "N")]
    pub(crate) rows: u64,
    /// Exponent of the ids' frequencies
    #[arg(long, default_value_t = 1.05, value_name = "X")]
    pub(crate) skew: f64,
    /// Examples of a run
    #[arg(long, default_value_t = 1_000_000, value_name = "N")]
    pub(crate) examples: u64,
    /// Pairs of runs in alternating order, of which the median counts; preferably an odd number
    #[arg(long, default_value_t = 3, value_name = "N")]
    pub(crate) rounds: usize,
    /// Models; all of them unless given
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    pub(crate) models: Vec<String>,
    /// Parts to measure (default: all): exchange, messages from every rank to every rank; bytes,
    /// what ranks send in a step, for deepfm and lr; memory, two ranks of one thread against one of
    /// two; out_of_core, the same with a tenth of the rows in memory; network, deepfm and lr on 1
    /// Gbit/s and 50 us; late, four ranks delayed by 0 to 50 ms in every step, each protocol
    /// against in step
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    pub(crate) parts: Vec<String>,
    /// Command that launches processes with MPI, if the program is built with the feature mpi
    #[arg(long, default_value = "mpirun --oversubscribe -n 2", value_name = "COMMAND")]
    pub(crate) launcher: String,
    /// Any setting that the benchmark does not choose itself, as KEY=VALUE (see `stepwell config`):
    /// not ranks, threads, train.blocks, model.kind, checkpoint.*, tiers.dram, tiers.ssd, and of
    /// rows.* only rows.storage
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
}

/// `stepwell-lab bench train`.
#[derive(Debug, Args)]
#[command(
    after_help = "Its examples follow from --rows and --skew, not from synth.*: it measures that \
                  many distinct ids."
)]
pub(crate) struct BenchTrainArgs {
    /// A directory on the disk to measure, with room for five times the rows
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// Print all figures as JSON; with FILE, write them there and print the table
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<Option<PathBuf>>,
    /// Rows of the store
    #[arg(long, default_value_t = 40_000_000, value_name = "N")]
    pub(crate) rows: u64,
    /// Exponent of the ids' frequencies
    #[arg(long, default_value_t = 1.05, value_name = "X")]
    pub(crate) skew: f64,
    /// Give all slots the same number of ids (default: in the proportions of real data)
    #[arg(long)]
    pub(crate) equal: bool,
    /// Examples trained first and not counted
    #[arg(long, default_value_t = 1_000_000, value_name = "N")]
    pub(crate) warmup: u64,
    /// Examples that count
    #[arg(long, default_value_t = 1_000_000, value_name = "N")]
    pub(crate) examples: u64,
    /// Models; all of them unless given
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    pub(crate) models: Vec<String>,
    /// Percentages of the rows that fit in memory
    #[arg(long, default_value = "10,2", value_delimiter = ',', value_name = "LIST")]
    pub(crate) shares: Vec<f64>,
    /// Stores that runs begin with: aged, as after long training, or loaded once in random order
    #[arg(long, default_value = "aged,loaded", value_delimiter = ',', value_name = "LIST")]
    pub(crate) store: Vec<String>,
    /// Leave out the runs with every row in memory
    #[arg(long)]
    pub(crate) only_out_of_core: bool,
    /// Leave out the plain run for each run out of core, which is the same with tiers.harvest=0
    #[arg(long)]
    pub(crate) no_plain: bool,
    /// Any setting that the benchmark does not choose itself, as KEY=VALUE (see `stepwell config`):
    /// not data except its mini-batch, model.kind, checkpoint.*, tiers.dram, tiers.ssd,
    /// tiers.page_cache, and of rows.* only rows.storage
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
}

/// `stepwell-lab bench cpu`.
#[derive(Debug, Args)]
#[command(
    after_help = "Its examples follow from --rows and --skew, not from synth.*: it measures that \
                  many distinct ids."
)]
pub(crate) struct BenchCpuArgs {
    /// Print all figures as JSON; with FILE, write them there and print the table
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<Option<PathBuf>>,
    /// Ids of all slots
    #[arg(long, default_value_t = 2_000_000, value_name = "N")]
    pub(crate) rows: u64,
    /// Exponent of the ids' frequencies
    #[arg(long, default_value_t = 1.05, value_name = "X")]
    pub(crate) skew: f64,
    /// Ids per slot in an example, which has 26 slots
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) ids_per_slot: usize,
    /// Steps, each trained twice; the second time counts
    #[arg(long, default_value_t = 50, value_name = "N")]
    pub(crate) steps: usize,
    /// Models; all of them unless given
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    pub(crate) models: Vec<String>,
    /// Leave out the machine's limits
    #[arg(long)]
    pub(crate) no_limits: bool,
    /// Numbers of threads
    #[arg(long, default_value = "1,2", value_delimiter = ',', value_name = "LIST")]
    pub(crate) threads: Vec<usize>,
    /// Any setting that the benchmark does not choose itself, as KEY=VALUE (see `stepwell config`):
    /// not threads, model.kind, checkpoint.*, tiers.*, pipeline.*, of data.* only data.mini_batch,
    /// and of rows.* only rows.storage
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
}

/// `stepwell-lab bench hbm`.
#[derive(Debug, Args)]
pub(crate) struct BenchHbmArgs {
    /// Print all figures as JSON; with FILE, write them there and print the table
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<Option<PathBuf>>,
    /// The device to measure: auto, cuda:0, emulated:1; of several, the first, and copies from the
    /// second
    #[arg(long, default_value = "auto", value_name = "DEVICE")]
    pub(crate) device: Choice,
    /// Bytes of the rows, which should be several times the device's L2 cache; the device needs
    /// eight times as much memory [default: 1GiB, 256KiB on an emulated device]
    #[arg(long, value_name = "BYTES")]
    pub(crate) bytes: Option<ByteCount>,
    /// Number of rounds; the median counts
    #[arg(long, default_value_t = 5, value_name = "N")]
    pub(crate) rounds: usize,
}

/// `stepwell-lab bench mem`.
#[derive(Debug, Args)]
pub(crate) struct BenchMemArgs {
    /// Print all figures as JSON; with FILE, write them there and print the table
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<Option<PathBuf>>,
    /// Keys to look up
    #[arg(long, default_value_t = 80_000_000, value_name = "N")]
    pub(crate) keys: u64,
    /// Rows that fit in memory
    #[arg(long, default_value_t = 16_000_000, value_name = "N")]
    pub(crate) slots: u64,
    /// Bytes of a row
    #[arg(long, default_value_t = 256, value_name = "N")]
    pub(crate) row_bytes: usize,
    /// Exponent of the keys' frequencies in look-ups
    #[arg(long, default_value_t = 1.05, value_name = "X")]
    pub(crate) skew: f64,
    /// Keys of a look-up, before duplicates are removed
    #[arg(long, default_value_t = 16_384, value_name = "N")]
    pub(crate) batch: u64,
    /// Total number of keys drawn
    #[arg(long, default_value_t = 16_000_000, value_name = "N")]
    pub(crate) lookups: u64,
    /// Number of rounds; the median counts
    #[arg(long, default_value_t = 5, value_name = "N")]
    pub(crate) rounds: usize,
}

/// `stepwell-lab bench ssd`.
#[derive(Debug, Args)]
pub(crate) struct BenchSsdArgs {
    /// A directory on the disk to measure, with room for seven times the rows
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// Print all figures as JSON; with FILE, write them there and print the table.
    ///
    /// They include `row_space_worst`, the most bytes of a row in a full segment over those of its
    /// payload, for rows of 512 to 16384 bytes in steps of 512; and `row_space_64`, the same for
    /// rows of 64 bytes, each of which has a head of 16 and 9 in the list: 1.39 by arithmetic.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<Option<PathBuf>>,
    /// Rows of the store
    #[arg(long, default_value_t = 10_000_000, value_name = "N")]
    pub(crate) rows: u64,
    /// Bytes of a row
    #[arg(long, default_value_t = 256, value_name = "N")]
    pub(crate) row_bytes: usize,
    /// Keys of a look-up and of a put
    #[arg(long, default_value_t = 1024, value_name = "N")]
    pub(crate) batch: usize,
    /// Exponent of the keys' frequencies in look-ups and overwrites; 0 is uniform
    #[arg(long, default_value_t = 0.0, value_name = "X")]
    pub(crate) skew: f64,
    /// Reads in flight
    #[arg(long, default_value_t = 128, value_name = "N")]
    pub(crate) depth: usize,
    /// Seconds of each measurement of reads
    #[arg(long, default_value_t = 5.0, value_name = "S")]
    pub(crate) seconds: f64,
    /// Number of times that all rows are overwritten
    #[arg(long, default_value_t = 10, value_name = "N")]
    pub(crate) overwrites: u64,
    /// Number of rounds; the median counts
    #[arg(long, default_value_t = 3, value_name = "N")]
    pub(crate) rounds: usize,
    /// Keys that the index grows to without a hint, at least a million (0: not measured)
    #[arg(long, default_value_t = 100_000_000, value_name = "N")]
    pub(crate) index_rows: u64,
}
