//! What people type about a checkpoint.

use std::path::PathBuf;

use clap::{Args, ValueHint};

/// A model and what it scores.
#[derive(Debug, Args)]
pub(crate) struct ScoreArgs {
    /// A checkpoint, or a directory of checkpoints
    #[arg(value_name = "CHECKPOINT")]
    pub(crate) checkpoint: PathBuf,
    /// Data to score: a file or glob, such as the model was trained on
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub(crate) data: Vec<String>,
    /// Any setting by its key
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Accept rows that `store repair` made in place of the checkpoint's own
    #[arg(long)]
    pub(crate) repaired: bool,
    /// Settings of the machine, given by their key as a flag.
    #[arg(skip)]
    pub(crate) by_key: Vec<(String, String)>,
}

/// `stepwell eval`.
#[derive(Debug, Args)]
#[command(after_help = "Without --data it scores the evaluation part of the training data.")]
pub(crate) struct EvalArgs {
    #[command(flatten)]
    pub(crate) score: ScoreArgs,
    /// Write every figure to this file, as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Print the report as one JSON object; all else goes to standard error
    #[arg(long)]
    pub(crate) json: bool,
    /// Compute the model's digest, too, which reads every row
    #[arg(long)]
    pub(crate) digest: bool,
}

/// `stepwell predict`.
#[derive(Debug, Args)]
#[command(mut_arg("data", |data| data.required(true)))]
pub(crate) struct PredictArgs {
    #[command(flatten)]
    pub(crate) score: ScoreArgs,
    /// Column of the data whose values are written before the scores
    #[arg(long, value_name = "COLUMN")]
    pub(crate) id: Option<String>,
    /// The data has no label column
    #[arg(long)]
    pub(crate) unlabelled: bool,
    /// File of scores, in CSV; - for standard output
    #[arg(long, default_value = "-", value_name = "FILE.csv")]
    pub(crate) out: PathBuf,
    /// Print how many scores were written as one JSON object; --out has to name a file
    #[arg(long)]
    pub(crate) json: bool,
}

/// `stepwell export`.
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// A checkpoint, or a directory of checkpoints
    #[arg(value_name = "CHECKPOINT")]
    pub(crate) checkpoint: PathBuf,
    /// Directory to make: dense.safetensors, and table-NAME.safetensors for each table
    #[arg(long, value_name = "DIR")]
    pub(crate) to: PathBuf,
    /// Optimizer state and history, too
    #[arg(long)]
    pub(crate) state: bool,
    /// Print what was written as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Accept rows that `store repair` made in place of the checkpoint's own
    #[arg(long)]
    pub(crate) repaired: bool,
}

/// `stepwell inspect`.
#[derive(Debug, Args)]
pub(crate) struct InspectArgs {
    /// A checkpoint, or a directory of checkpoints
    #[arg(value_name = "CHECKPOINT")]
    pub(crate) checkpoint: PathBuf,
    /// Rows to list, those with the longest weights first
    #[arg(long, default_value_t = 10, value_name = "N")]
    pub(crate) top: usize,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}
