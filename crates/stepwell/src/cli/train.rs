//! What `stepwell train` takes.

use std::path::PathBuf;

use clap::{ArgGroup, Args, ValueEnum};

use super::ConfigArgs;

/// How it is used.
const EXAMPLES: &str = "\
Every setting is a flag by its key: --help-all shows them all, and `stepwell config` lists them with
their values. Defaults are those of a run on data; without data and settings it trains the built-in
example, which has its own.

Examples:
  stepwell train
      a DeepFM on a built-in stream of clicks, to see how it goes
  stepwell train --data 'day_*.tsv.gz' --model dcn --checkpoint saved --html run.html
      trains on files, keeps checkpoints, and draws how it went
  stepwell train --from saved --data day_2.csv --checkpoint saved --evaluate-first
      trains on the next day's data, and says how good the model was for it before
  stepwell train run.toml --tiers.dram 8GiB --checkpoint saved --resume=auto --quiet --json
      goes on where it ended, with settings from a file, and prints its report for a script";

/// `stepwell train`.
#[derive(Debug, Args)]
#[command(
    after_help = EXAMPLES,
    group = ArgGroup::new("reported").args(["report", "json"]).multiple(true),
    group = ArgGroup::new("begun").args(["resume", "from"])
)]
pub(crate) struct TrainArgs {
    #[command(flatten)]
    pub(crate) settings: ConfigArgs,
    /// Write every figure of the run to this file, as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Write progress to this file, as lines of JSON; a run that is resumed adds to it
    #[arg(long, value_name = "FILE")]
    pub(crate) metrics: Option<PathBuf>,
    /// Write progress for TensorBoard, to a new file of events in this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) tensorboard: Option<PathBuf>,
    /// Write progress to this file, as one page of pictures for a browser, about every ten seconds
    /// and at the end
    #[arg(long, value_name = "FILE.html")]
    pub(crate) html: Option<PathBuf>,
    /// Print the report as one JSON object; all else goes to standard error
    #[arg(long)]
    pub(crate) json: bool,
    /// Put the limits that `stepwell-lab bench cpu --json FILE` measured on this machine beside the
    /// report's kernels and layers
    #[arg(long, value_name = "FILE", requires = "reported")]
    pub(crate) limits: Option<PathBuf>,
    /// Resume from the newest checkpoint; with =auto, start anew where there is none
    #[arg(
        long,
        value_name = "auto",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "always"
    )]
    pub(crate) resume: Option<Resume>,
    /// Begin with the model of this checkpoint (of a directory, the newest one) and train on other
    /// data, with its settings where none are given; run again, it goes on where it was stopped
    #[arg(long, value_name = "CHECKPOINT", conflicts_with = "resume")]
    pub(crate) from: Option<PathBuf>,
    /// Train on data once more that was trained before
    #[arg(long, requires = "from")]
    pub(crate) again: bool,
    /// Evaluate the model of --from on the data first, before it is trained on
    #[arg(long, requires = "from")]
    pub(crate) evaluate_first: bool,
    /// Leave out the digest of the model, which reads every row once more at the end
    #[arg(long)]
    pub(crate) no_digest: bool,
    /// Accept rows that `store repair` made in place of the checkpoint's own
    #[arg(long, requires = "begun")]
    pub(crate) repaired: bool,
    /// Set existing checkpoints and rows aside instead of refusing to start
    #[arg(long, conflicts_with = "resume")]
    pub(crate) force: bool,
}

/// When a run may go on from a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Resume {
    /// There must be a checkpoint
    Always,
    /// Start anew where there is no checkpoint
    Auto,
}
