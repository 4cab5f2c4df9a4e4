//! The command line as typed values. No I/O happens here.

mod checkpoints;
mod count;
mod data;
mod device;
mod flags;
mod named;
mod pages;
mod store;
mod train;
mod tune;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Command, CommandFactory, Parser, Subcommand, ValueHint};
use stepwell_cli::log::Verbosity;
use stepwell_cli::{args, launcher};

pub(crate) use self::checkpoints::{
    DiffArgs, EvalArgs, ExportArgs, Format, ImportArgs, InspectArgs, PredictArgs, ScoreArgs,
};
pub(crate) use self::data::{ConvertArgs, SchemaArgs, SynthArgs};
pub(crate) use self::device::DeviceArgs;
pub(crate) use self::flags::of_machine;
use self::flags::{by_key, keys_of_parts, of_checkpoint, with_flags};
use self::named::with_names;
pub(crate) use self::pages::{CompletionsArgs, ManArgs};
pub(crate) use self::store::{StoreArgs, StoreJob};
pub(crate) use self::train::{Resume, TrainArgs};
pub(crate) use self::tune::TuneArgs;
use crate::failure::{Failure, statuses};

/// Trains click-through models whose embedding tables are larger than memory.
#[derive(Debug, Parser)]
#[command(name = "stepwell", version)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) verbosity: Verbosity,
    /// What to do.
    #[command(subcommand)]
    pub(crate) job: Job,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Job {
    /// Train a model; without arguments, the built-in example
    Train(TrainArgs),
    /// Search for good settings: train with drawn ones, and compare evaluations
    Tune(TuneArgs),
    /// Evaluate the model of a checkpoint on data
    Eval(EvalArgs),
    /// Write the probability that a checkpoint's model gives to each example
    Predict(PredictArgs),
    /// Write the rows and the dense part of a checkpoint as tensors for other programs
    Export(ExportArgs),
    /// Make a checkpoint from exported tensors, which may be edited
    Import(ImportArgs),
    /// Show how two checkpoints differ
    Diff(DiffArgs),
    /// Show what a checkpoint contains
    Inspect(InspectArgs),
    /// Write the built-in click stream to a file
    Synth(SynthArgs),
    /// Parse data once, into a packed file that trains without parsing
    Convert(ConvertArgs),
    /// Print the capacity plan of a training run without running it
    Plan(PlanArgs),
    /// List all settings with their meaning and value, or write them all as a settings file
    Config(ConfigListArgs),
    /// Guess the columns of a data file, and print a settings file that trains on it
    Schema(SchemaArgs),
    /// Check stores of rows, remove what was set aside, or salvage a damaged one
    Store(StoreArgs),
    /// List the devices that this machine has, or say what is missing
    Device(DeviceArgs),
    /// Print a completion script for a shell
    Completions(CompletionsArgs),
    /// Print a manual page, or write all of them into a directory
    Man(ManArgs),
}

/// Where settings come from; later ones win: file, --set, flags.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ConfigArgs {
    /// Settings in TOML
    #[arg(value_name = "CONFIG.toml")]
    pub(crate) config: Option<PathBuf>,
    /// The same, as other commands name it
    #[arg(long = "config", value_name = "CONFIG.toml", hide = true, conflicts_with = "config")]
    pub(crate) config_named: Option<PathBuf>,
    /// Training data: a file or glob (may be given several times) of CSV, TSV, JSON lines, LibSVM,
    /// LibFFM, Parquet or packed; text plain, gzip or zstd
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub(crate) data: Vec<String>,
    /// Use the built-in stream of clicks instead of data
    #[arg(long, conflicts_with = "data")]
    pub(crate) synth: bool,
    /// Columns of a well-known data set; for other data, `stepwell schema` writes a settings file
    #[arg(long, value_name = "NAME")]
    pub(crate) preset: Option<String>,
    /// Model to train
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
    /// Print a settings file that `train` accepts
    #[arg(long)]
    pub(crate) toml: bool,
    /// Print all settings by key as one JSON object
    #[arg(long, conflicts_with = "toml")]
    pub(crate) json: bool,
    /// Turn the model into model.kind = graph with its list of layers, and print those; with --toml
    /// or --json, print all settings
    #[arg(long)]
    pub(crate) graph: bool,
    /// Draw the layers of the model to a file
    #[arg(long, value_name = "FILE.svg", value_hint = ValueHint::FilePath)]
    pub(crate) svg: Option<PathBuf>,
}

/// `stepwell plan`.
#[derive(Debug, Args)]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    pub(crate) settings: ConfigArgs,
    /// Forecast what ranks on separate machines would send over links of this rate and latency,
    /// such as 25Gbit,5us
    #[arg(long, value_name = "LINK")]
    pub(crate) network: Option<String>,
    /// Forecast the speed of ranks from a report that `stepwell train --report FILE` wrote for one
    /// rank
    #[arg(long, value_name = "FILE")]
    pub(crate) profile: Option<PathBuf>,
    /// Plan index and disk for N rows in all, such as 2000000000, 2e9 or 2G [default: the number
    /// that the data needs]
    #[arg(long, value_name = "N", value_parser = count::count)]
    pub(crate) rows: Option<u64>,
    /// Plan a run that begins with the model of this checkpoint (the newest one of a directory), as
    /// `train --from` does; its settings apply unless given
    #[arg(long, value_name = "CHECKPOINT")]
    pub(crate) from: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// The whole command line, with flags for the settings of tables, features and columns with these
/// keys.
pub(crate) fn command(of_parts: &[String]) -> Command {
    let all = |command| with_flags(command, of_parts, |_| true);
    let machine = |command| of_checkpoint(with_flags(command, of_parts, of_machine));
    let command = ["train", "tune", "config", "plan"]
        .iter()
        .fold(with_names(Cli::command()), |command, name| command.mut_subcommand(name, all));
    let command = ["eval", "predict"]
        .iter()
        .fold(command, |command, name| command.mut_subcommand(name, machine));
    command.after_help(statuses())
}

/// Reads the command line `args`; exits the process if it only asks for help or the version.
///
/// # Errors
/// If the command line is wrong, or the help cannot be written.
pub(crate) fn parse(args: Vec<OsString>) -> Result<Cli, Failure> {
    if args.windows(2).any(|pair| pair[0] == "--resume" && pair[1] == "auto") {
        let wrong = Failure::Usage("--resume auto: write --resume=auto".to_owned());
        return Err(launcher::report_once(&wrong));
    }
    let of_parts = keys_of_parts(&args);
    let (matches, mut cli) = args::parse::<Cli>(command(&of_parts), args)?;
    let given = matches.subcommand().map(|(_, matches)| matches);
    if let Job::Train(TrainArgs { settings, .. })
    | Job::Tune(TuneArgs { settings, .. })
    | Job::Config(ConfigListArgs { settings, .. })
    | Job::Plan(PlanArgs { settings, .. }) = &mut cli.job
    {
        let named = settings.config_named.take();
        settings.config = settings.config.take().or(named);
    }
    match (&mut cli.job, given) {
        (Job::Train(args), Some(matches)) => {
            args.settings.by_key = by_key(matches, &of_parts);
        }
        (Job::Tune(args), Some(matches)) => {
            args.settings.by_key = by_key(matches, &of_parts);
        }
        (Job::Config(args), Some(matches)) => {
            args.settings.by_key = by_key(matches, &of_parts);
        }
        (Job::Plan(args), Some(matches)) => {
            args.settings.by_key = by_key(matches, &of_parts);
        }
        (
            Job::Eval(EvalArgs { score, .. }) | Job::Predict(PredictArgs { score, .. }),
            Some(matches),
        ) => {
            score.by_key = by_key(matches, &of_parts);
        }
        _ => {}
    }
    Ok(cli)
}
