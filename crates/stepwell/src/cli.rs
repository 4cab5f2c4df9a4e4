//! What people type, typed: no I/O happens here.

mod bench;
mod checkpoints;
mod flags;

use std::path::PathBuf;

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

pub(crate) use self::bench::{
    BenchArgs, BenchCpuArgs, BenchJob, BenchMemArgs, BenchRanksArgs, BenchSsdArgs, BenchTrainArgs,
};
pub(crate) use self::checkpoints::{
    DiffArgs, EvalArgs, ExportArgs, ImportArgs, InspectArgs, PredictArgs, ScoreArgs,
};
use self::flags::{by_key, keys_of_parts, of_machine, with_flags};
use crate::failure::Failure;
use crate::{launched, say};

/// Trains click-through models whose embedding tables are larger than memory.
#[derive(Debug, Parser)]
#[command(name = "stepwell", version)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) job: Job,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Job {
    /// Train a model; without arguments, the built-in example
    Train(TrainArgs),
    /// Score data with the model of a checkpoint
    Eval(EvalArgs),
    /// Write the probability that a checkpoint's model gives to each example
    Predict(PredictArgs),
    /// Write the rows and the dense part of a checkpoint as tensors that others read
    Export(ExportArgs),
    /// Make a checkpoint of tensors that were exported, edited perhaps
    Import(ImportArgs),
    /// Say in what two checkpoints differ
    Diff(DiffArgs),
    /// Show what a checkpoint holds
    Inspect(InspectArgs),
    /// Write the built-in click stream to a file
    Synth(SynthArgs),
    /// Parse data once, into a packed file that trains without parsing
    Convert(ConvertArgs),
    /// Print the capacity plan of a training run without running it
    Plan(PlanArgs),
    /// List all settings with their meaning and value, or write them all as a settings file
    Config(ConfigListArgs),
    /// Check stores of rows, remove what was set aside, or salvage what is left of a damaged one
    Store(StoreArgs),
    /// Measure a part against what the machine can do
    Bench(BenchArgs),
    /// Try eviction policies on traces of look-ups
    CacheSim(CacheSimArgs),
}

/// `stepwell cache-sim`.
#[derive(Debug, Args)]
pub(crate) struct CacheSimArgs {
    /// Traces: bare keys, plain or packed with xz or zstd, or training files
    #[arg(value_name = "TRACE", required = true)]
    pub(crate) traces: Vec<PathBuf>,
    /// How keys are written: i64be, i32be, u32be, criteo-tsv, or auto: packed training files and
    /// names with .tsv are criteo-tsv, names that begin with scarab-recs i64be, with orm-busy or
    /// web07 i32be, with w106 u32be
    #[arg(long, default_value = "auto", value_name = "NAME")]
    pub(crate) format: String,
    /// Sizes of the slab: parts of the distinct keys (0.01), or slots (5000)
    #[arg(long, default_value = "0.01,0.1", value_name = "SIZES", allow_hyphen_values = true)]
    pub(crate) sizes: String,
    /// Policies to try, all or some of lru-lfu, lru, lfu, s3-fifo, sieve, w-tinylfu, sven
    #[arg(long, default_value = "all", value_name = "NAMES")]
    pub(crate) policies: String,
    /// Accesses of a mini-batch, whose keys are counted once and held together
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) mini_batch: usize,
    /// Mini-batches whose keys are known ahead
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub(crate) window: usize,
    /// Count reads of rows that left the slab, which lie on pages of so many in the order in which
    /// they left; compaction is left out (27 where --read-unit or --harvest is given)
    #[arg(long, value_name = "ROWS")]
    pub(crate) rows_per_page: Option<usize>,
    /// Count reads, each of so many neighbouring pages (1)
    #[arg(long, value_name = "PAGES")]
    pub(crate) read_unit: Option<usize>,
    /// Count reads where rows beside those that are read wait for their use, if it is within
    /// --window, so many at once (0)
    #[arg(long, value_name = "ROWS")]
    pub(crate) harvest: Option<usize>,
    /// Write all figures to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Draw hit rates over sizes into this file
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) picture: Option<PathBuf>,
}

/// `stepwell store`.
#[derive(Debug, Args)]
pub(crate) struct StoreArgs {
    #[command(subcommand)]
    pub(crate) job: StoreJob,
}

/// What to do with a store.
#[derive(Debug, Subcommand)]
pub(crate) enum StoreJob {
    /// Read every byte and name all that is damaged
    Check {
        /// A store's directory (all of them, if it has several), or a checkpoint
        #[arg(value_name = "DIR", required = true)]
        directories: Vec<PathBuf>,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Remove what was set aside beside a store, in its directories `set-aside`: segments that no
    /// commit names, and stores that others took the place of
    Purge {
        /// The store's directory (all of them, if it has several); or a directory `set-aside-N` of
        /// stores that `train` put out of the way, which are removed
        #[arg(value_name = "DIR", required = true)]
        directories: Vec<PathBuf>,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Put every intact row into a new store, which no checkpoint names: to train on from it, put
    /// it in the place of the checkpoint's rows-N and say --repaired; lost rows begin anew
    Repair {
        /// The damaged store's directory (all of them, if it has several), or a checkpoint
        #[arg(value_name = "DIR", required = true)]
        directories: Vec<PathBuf>,
        /// Directory of the new store
        #[arg(long, value_name = "NEW")]
        into: PathBuf,
    },
}

/// Where settings come from; later ones win: file, data and model flags, --set, flags by key.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ConfigArgs {
    /// Settings in TOML
    #[arg(value_name = "CONFIG.toml")]
    pub(crate) config: Option<PathBuf>,
    /// Training data: a file or glob; plain, gzip, zstd, or packed (may be given several times)
    #[arg(long, value_name = "PATH")]
    pub(crate) data: Vec<String>,
    /// Layout of the data: criteo
    #[arg(long, value_name = "NAME")]
    pub(crate) preset: Option<String>,
    /// lr, wide_deep, deepfm, dcn or dlrm
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// Any setting by its key (`stepwell config` lists them)
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Directory of checkpoints
    #[arg(long, value_name = "DIR")]
    pub(crate) checkpoint: Option<PathBuf>,
    /// Settings given by their key as a flag.
    #[arg(skip)]
    pub(crate) by_key: Vec<(String, String)>,
}

/// `stepwell config`.
#[derive(Debug, Args)]
pub(crate) struct ConfigListArgs {
    #[command(flatten)]
    pub(crate) settings: ConfigArgs,
    /// Write a file of settings, which `train` takes
    #[arg(long)]
    pub(crate) toml: bool,
}

/// `stepwell plan`.
#[derive(Debug, Args)]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    pub(crate) settings: ConfigArgs,
    /// Say what ranks on machines of their own would send over links like this one, such as
    /// 25Gbit,5us: rate and latency
    #[arg(long, value_name = "LINK")]
    pub(crate) network: Option<String>,
    /// Say how fast ranks would be, from the report that `stepwell train --report FILE` wrote of
    /// one rank
    #[arg(long, value_name = "FILE")]
    pub(crate) profile: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// `stepwell train`.
#[derive(Debug, Args)]
pub(crate) struct TrainArgs {
    #[command(flatten)]
    pub(crate) settings: ConfigArgs,
    /// Write every figure of the run to this file, as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Write how it goes to this file, as lines of JSON; a run that is resumed adds to it
    #[arg(long, value_name = "FILE")]
    pub(crate) metrics: Option<PathBuf>,
    /// Put the limits that `stepwell bench cpu --json FILE` measured on this machine beside the
    /// report's kernels and layers
    #[arg(long, value_name = "FILE", requires = "report")]
    pub(crate) limits: Option<PathBuf>,
    /// Go on from the newest checkpoint; with =auto, start where there is none yet
    #[arg(
        long,
        value_name = "auto",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "always"
    )]
    pub(crate) resume: Option<Resume>,
    /// Take rows that `store repair` made in place of those that the checkpoint was saved with
    #[arg(long, requires = "resume")]
    pub(crate) repaired: bool,
    /// Set existing checkpoints and rows aside instead of refusing to start
    #[arg(long, conflicts_with = "resume")]
    pub(crate) force: bool,
}

/// When a run may go on from a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Resume {
    /// It must: without a checkpoint it is refused
    Always,
    /// Where there is a checkpoint
    Auto,
}

/// `stepwell synth`.
#[derive(Debug, Args)]
pub(crate) struct SynthArgs {
    /// File to write, compressed where its name ends in .gz or .zst
    #[arg(long, value_name = "FILE")]
    pub(crate) out: PathBuf,
    /// Number of examples; `train` without a file draws 3,000,000 of vocabulary 40
    #[arg(long, default_value_t = 1_000_000, value_name = "N")]
    pub(crate) examples: u64,
    /// Seed
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) seed: u64,
    /// Vocabulary, times that of a real sample
    #[arg(long, default_value_t = 10.0, value_name = "X")]
    pub(crate) vocab_scale: f64,
    /// Replace the file if it exists
    #[arg(long)]
    pub(crate) force: bool,
}

/// `stepwell convert`.
#[derive(Debug, Args)]
pub(crate) struct ConvertArgs {
    /// Data in the order of training: files or globs; plain, gzip, zstd, or packed
    #[arg(value_name = "INPUT", required_unless_present = "synth", conflicts_with = "synth")]
    pub(crate) inputs: Vec<PathBuf>,
    /// Take the built-in click stream instead of files
    #[arg(long)]
    pub(crate) synth: bool,
    /// Packed file to write
    #[arg(long, value_name = "FILE")]
    pub(crate) out: PathBuf,
    /// Malformed lines that are skipped; one more ends the conversion
    #[arg(long, default_value_t = 0, value_name = "N", conflicts_with = "synth")]
    pub(crate) skip_max: u64,
    /// Threads that parse (default: the number of cores)
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<usize>,
    /// Number of examples of the stream; `train` without a file draws 3,000,000 of vocabulary 40
    #[arg(long, default_value_t = 1_000_000, value_name = "N", conflicts_with = "inputs")]
    pub(crate) examples: u64,
    /// Seed of the stream
    #[arg(long, default_value_t = 1, value_name = "N", conflicts_with = "inputs")]
    pub(crate) seed: u64,
    /// Vocabulary of the stream, times that of a real sample
    #[arg(long, default_value_t = 10.0, value_name = "X", conflicts_with = "inputs")]
    pub(crate) vocab_scale: f64,
    /// Replace the file if it exists
    #[arg(long)]
    pub(crate) force: bool,
}

/// Reads the command line; ends the process where it is wrong, or asks for help alone.
///
/// # Errors
/// Where the help cannot be written.
pub(crate) fn parse() -> Result<Cli, Failure> {
    let of_parts = keys_of_parts(std::env::args_os());
    let command = Cli::command()
        .mut_subcommand("train", |command| with_flags(command, &of_parts, |_| true))
        .mut_subcommand("config", |command| with_flags(command, &of_parts, |_| true))
        .mut_subcommand("plan", |command| with_flags(command, &of_parts, |_| true))
        .mut_subcommand("eval", |command| with_flags(command, &of_parts, of_machine))
        .mut_subcommand("predict", |command| with_flags(command, &of_parts, of_machine));
    let parsed = command.try_get_matches().and_then(|matches| {
        let cli = Cli::from_arg_matches(&matches)?;
        Ok((matches, cli))
    });
    let (matches, mut cli) = match parsed {
        Ok(parsed) => parsed,
        Err(answer) if answer.use_stderr() && launched::speaks() => answer.exit(),
        // Another process says the same.
        Err(answer) if answer.use_stderr() => return Err(Failure::Said(answer.exit_code() as u8)),
        Err(answer) => {
            // In its colours, where there is a terminal.
            say::written(answer.print())?;
            std::process::exit(answer.exit_code());
        }
    };
    let given = matches.subcommand().map(|(_, matches)| matches);
    match (&mut cli.job, given) {
        (Job::Train(args), Some(matches)) => {
            args.settings.by_key = by_key(matches, &of_parts, |_| true);
        }
        (Job::Config(args), Some(matches)) => {
            args.settings.by_key = by_key(matches, &of_parts, |_| true);
        }
        (Job::Plan(args), Some(matches)) => {
            args.settings.by_key = by_key(matches, &of_parts, |_| true);
        }
        (
            Job::Eval(EvalArgs { score, .. }) | Job::Predict(PredictArgs { score, .. }),
            Some(matches),
        ) => {
            score.by_key = by_key(matches, &of_parts, of_machine);
        }
        _ => {}
    }
    Ok(cli)
}
