//! Arguments of commands on checkpoints.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};

/// A model and the data that it scores.
#[derive(Debug, Args)]
pub(crate) struct ScoreArgs {
    /// A checkpoint, or a directory of checkpoints
    #[arg(value_name = "CHECKPOINT")]
    pub(crate) checkpoint: PathBuf,
    /// Data to score: a file or glob, with the columns that the model was trained on, in any format
    /// (may be given several times)
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
    /// Write all figures to this file, as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Print the report as one JSON object; everything else goes to standard error
    #[arg(long)]
    pub(crate) json: bool,
    /// Also measure the AUC among examples with the same value in this column of the data
    #[arg(long, value_name = "COLUMN")]
    pub(crate) group: Option<String>,
    /// Also measure precision and recall of the K best scored examples of each --group; without
    /// --group, the recall of the K best of all items, by a model of two towers
    #[arg(long, value_name = "K")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) at: Option<u32>,
    /// Also measure the examples of each of the most frequent values of this column of the data
    #[arg(long, value_name = "COLUMN")]
    pub(crate) by: Option<String>,
    /// Number of values that --by measures
    #[arg(long, value_name = "N", default_value_t = 10, requires = "by")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) top: u32,
    /// Also compute the model's digest, which reads every row
    #[arg(long)]
    pub(crate) digest: bool,
}

/// `stepwell predict`.
#[derive(Debug, Args)]
#[command(mut_arg("data", |data| data.required(true)))]
pub(crate) struct PredictArgs {
    #[command(flatten)]
    pub(crate) score: ScoreArgs,
    /// Column of the data to write before the scores (may be given several times)
    #[arg(long, value_name = "COLUMN")]
    pub(crate) id: Vec<String>,
    /// Also write the labels before the scores
    #[arg(long, conflicts_with = "unlabelled")]
    pub(crate) label: bool,
    /// Layer, or part of the model's input, to write after the scores, in a column each (may be
    /// given several times)
    #[arg(long, value_name = "NAME")]
    pub(crate) layer: Vec<String>,
    /// The data has no label column
    #[arg(long, alias = "unlabeled")]
    pub(crate) unlabelled: bool,
    /// File of scores: CSV, TSV or Parquet by its name; - means CSV on standard output
    #[arg(long, default_value = "-", value_name = "FILE.csv")]
    pub(crate) out: PathBuf,
    /// Print the number of scores as one JSON object; --out must name a file
    #[arg(long)]
    pub(crate) json: bool,
}

/// A format of tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A file for the dense part and one for each table
    Safetensors,
    /// NumPy's: a directory for the dense part and one for each table, with a file for each tensor
    Npy,
    /// A file for the dense part and one for each table, with a record for each row
    Parquet,
}

/// `stepwell export`.
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// A checkpoint, or a directory of checkpoints
    #[arg(value_name = "CHECKPOINT")]
    pub(crate) checkpoint: PathBuf,
    /// Directory to create for the dense part and a table-NAME for each table; with --ids, a file:
    /// CSV, TSV or Parquet by its name
    #[arg(long = "out", alias = "to", value_name = "DIR")]
    pub(crate) to: PathBuf,
    /// Write only the embeddings of the ids in this file, whose first line names their column
    #[arg(long, value_name = "FILE", conflicts_with_all = ["format", "state", "since"])]
    pub(crate) ids: Option<PathBuf>,
    /// Id column of the model that the ids belong to
    #[arg(long, value_name = "NAME", requires = "ids")]
    pub(crate) column: Option<String>,
    /// Table with their rows, if the column has rows in several
    #[arg(long, value_name = "NAME", requires = "ids")]
    pub(crate) table: Option<String>,
    /// Format of the tensors; `import` reads safetensors
    #[arg(long, value_enum, default_value = "safetensors", value_name = "NAME")]
    pub(crate) format: Format,
    /// Also write optimizer state and history
    #[arg(long)]
    pub(crate) state: bool,
    /// Print what was written as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Write only rows trained after this step; needs rows with a history
    #[arg(long, value_name = "STEP")]
    pub(crate) since: Option<u64>,
    /// Accept rows that `store repair` made in place of the checkpoint's own
    #[arg(long)]
    pub(crate) repaired: bool,
}

/// `stepwell import`.
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// Directory that `stepwell export --state` made; its tensors may be edited
    #[arg(value_name = "TENSORS")]
    pub(crate) tensors: PathBuf,
    /// Checkpoint, or directory of checkpoints, that supplies the rest: settings, position in the
    /// data, meaning of rows
    #[arg(long, value_name = "CHECKPOINT")]
    pub(crate) like: PathBuf,
    /// Directory of checkpoints to create, with one checkpoint of the same step
    #[arg(long = "out", alias = "to", value_name = "DIR")]
    pub(crate) to: PathBuf,
    /// Import only weights; optimizer state and history start anew
    #[arg(long)]
    pub(crate) fresh_state: bool,
    /// Print what was created as one JSON object
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
    /// The other checkpoint, or a directory of checkpoints
    #[arg(value_name = "B")]
    pub(crate) b: PathBuf,
    /// Rows to list per table, the most changed ones first
    #[arg(long, default_value_t = 10, value_name = "N")]
    pub(crate) top: usize,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Accept rows that `store repair` made in place of a checkpoint's own
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
    /// Draw the distributions of norms, ages and counts of rows into this file
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) svg: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}
