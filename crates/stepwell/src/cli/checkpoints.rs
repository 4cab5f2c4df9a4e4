//! What people type about a checkpoint.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use crate::export::Format;

/// A model and what it scores.
#[derive(Debug, Args)]
pub(crate) struct ScoreArgs {
    /// A checkpoint, or a directory of checkpoints
    #[arg(value_name = "CHECKPOINT")]
    pub(crate) checkpoint: PathBuf,
    /// Data to score: a file or glob, such as the model was trained on, in any format (may be given
    /// several times)
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
#[command(after_help = "Without --data, it scores the evaluation part of the training data.")]
pub(crate) struct EvalArgs {
    #[command(flatten)]
    pub(crate) score: ScoreArgs,
    /// Write every figure to this file, as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Print the report as one JSON object; all else goes to standard error
    #[arg(long)]
    pub(crate) json: bool,
    /// Measure the AUC within the examples of each value of this column of the data, too
    #[arg(long, value_name = "COLUMN")]
    pub(crate) group: Option<String>,
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
    /// Column of the data whose values are written before the scores (may be given several times)
    #[arg(long, value_name = "COLUMN")]
    pub(crate) id: Vec<String>,
    /// Write the labels before the scores, too
    #[arg(long, conflicts_with = "unlabelled")]
    pub(crate) label: bool,
    /// The data has no label column
    #[arg(long, alias = "unlabeled")]
    pub(crate) unlabelled: bool,
    /// File of scores: CSV, or TSV or Parquet where it is named so; - for CSV on standard output
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
    /// Directory to make: the dense part, and table-NAME for each table; with --ids a file, of CSV,
    /// or TSV or Parquet where it is named so
    #[arg(long = "out", alias = "to", value_name = "DIR")]
    pub(crate) to: PathBuf,
    /// Write the embeddings of the ids in this file alone, which names their column in its first
    /// line
    #[arg(long, value_name = "FILE", conflicts_with_all = ["format", "state", "since"])]
    pub(crate) ids: Option<PathBuf>,
    /// Id column of the model that the ids are of
    #[arg(long, value_name = "NAME", requires = "ids")]
    pub(crate) column: Option<String>,
    /// Table that has their rows, where the column has some in several
    #[arg(long, value_name = "NAME", requires = "ids")]
    pub(crate) table: Option<String>,
    /// Format of the tensors; `import` reads safetensors
    #[arg(long, value_enum, default_value = "safetensors", value_name = "NAME")]
    pub(crate) format: Format,
    /// Optimizer state and history, too
    #[arg(long)]
    pub(crate) state: bool,
    /// Print what was written as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Only rows that were trained after this step, which rows with a history tell
    #[arg(long, value_name = "STEP")]
    pub(crate) since: Option<u64>,
    /// Accept rows that `store repair` made in place of the checkpoint's own
    #[arg(long)]
    pub(crate) repaired: bool,
}

/// `stepwell import`.
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// Directory that `stepwell export --state` made, edited perhaps
    #[arg(value_name = "TENSORS")]
    pub(crate) tensors: PathBuf,
    /// The checkpoint, or a directory of checkpoints, that has all else: settings, position in the
    /// data, what rows mean
    #[arg(long, value_name = "CHECKPOINT")]
    pub(crate) like: PathBuf,
    /// Directory of checkpoints to make, with one in it, of the same step
    #[arg(long = "out", alias = "to", value_name = "DIR")]
    pub(crate) to: PathBuf,
    /// Take weights alone; optimizer state and history begin anew
    #[arg(long)]
    pub(crate) fresh_state: bool,
    /// Print what was made as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// `stepwell diff`.
#[derive(Debug, Args)]
#[command(
    after_help = "The exit status is 0 if the models are equal and 1 if they differ. If they \
                  cannot be compared, it is 1 or more, with a line on standard error; 3 if one is \
                  damaged."
)]
pub(crate) struct DiffArgs {
    /// A checkpoint, or a directory of checkpoints
    #[arg(value_name = "A")]
    pub(crate) a: PathBuf,
    /// Another one
    #[arg(value_name = "B")]
    pub(crate) b: PathBuf,
    /// Rows to list of each table, those that changed most first
    #[arg(long, default_value_t = 10, value_name = "N")]
    pub(crate) top: usize,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Take rows that `store repair` made in place of those that a checkpoint was saved with
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
    /// Draw how norms, ages and counts of rows are distributed into this file
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) svg: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}
