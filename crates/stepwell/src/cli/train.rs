//! Arguments of `stepwell train`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::ConfigArgs;

/// The text below the help.
const EXAMPLES: &str = "\
Every setting is also a flag, named by its key: --help-all shows all flags, and `stepwell config`
lists all settings with their values. The defaults shown are for a run on data; without data and
settings, a run trains the built-in example, which has its own.

Examples:
  stepwell train
      trains a DeepFM on a built-in stream of clicks, as a first try
  stepwell train --data 'day_*.tsv.gz' --model dcn --checkpoint saved --html run.html
      trains on files, keeps checkpoints, and draws curves
  stepwell train --from saved --data day_2.csv --checkpoint saved --evaluate-first
      trains on the next day's data, after measuring how well the old model scores it
  stepwell train run.toml --tiers.dram 8GiB --checkpoint saved --resume=auto --quiet --json
      resumes where it stopped, with settings from a file, and prints its report for a script";

/// `stepwell train`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TrainArgs {
    #[command(flatten)]
    pub(crate) settings: ConfigArgs,
    /// Write all figures of the run to this file, as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Write progress to this file, as lines of JSON; a resumed run appends to it
    #[arg(long, value_name = "FILE")]
    pub(crate) metrics: Option<PathBuf>,
    /// Write progress for TensorBoard, to a new event file in this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) tensorboard: Option<PathBuf>,
    /// Write progress to this file, as an HTML page of charts, about every ten seconds and at the
    /// end
    #[arg(long, value_name = "FILE.html")]
    pub(crate) html: Option<PathBuf>,
    /// Print the report as one JSON object; everything else goes to standard error
    #[arg(long)]
    pub(crate) json: bool,
    /// Compare the report's kernels and layers with the limits that `stepwell-lab bench cpu --json
    /// FILE` measured on this machine
    #[arg(long, value_name = "FILE")]
    pub(crate) limits: Option<PathBuf>,
    /// Resume from the newest checkpoint; with =auto, start anew if there is none
    #[arg(
        long,
        value_name = "auto",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "always"
    )]
    pub(crate) resume: Option<Resume>,
    /// Begin with the model of this checkpoint (the newest one of a directory) and train on other
    /// data; its settings apply unless given. If stopped, run the same command again to continue
    #[arg(long, value_name = "CHECKPOINT", conflicts_with = "resume")]
    pub(crate) from: Option<PathBuf>,
    /// Train again on data that the model was already trained on
    #[arg(long)]
    pub(crate) again: bool,
    /// Evaluate the model of --from on the new data before training on it
    #[arg(long)]
    pub(crate) evaluate_first: bool,
    /// Leave out the digest of the model, which reads every row again at the end
    #[arg(long)]
    pub(crate) no_digest: bool,
    /// Accept rows that `store repair` made in place of the checkpoint's own
    #[arg(long)]
    pub(crate) repaired: bool,
    /// Set existing checkpoints and rows aside instead of refusing to start
    #[arg(long, conflicts_with = "resume")]
    pub(crate) force: bool,
}

impl TrainArgs {
    /// Refuses flags without the flag that they need.
    pub(crate) fn check(&self) -> Result<(), String> {
        let needs = |given: bool, has: bool, line: &str| match given && !has {
            true => Err(line.to_owned()),
            false => Ok(()),
        };
        let (has_from, has_report) = (self.from.is_some(), self.json || self.report.is_some());
        let has_rows = has_from || self.resume.is_some();
        needs(self.again, has_from, "--again needs --from CHECKPOINT")?;
        needs(self.evaluate_first, has_from, "--evaluate-first needs --from CHECKPOINT")?;
        needs(self.repaired, has_rows, "--repaired needs --resume or --from CHECKPOINT")?;
        needs(self.limits.is_some(), has_report, "--limits needs --report FILE or --json")
    }
}

/// Whether a run must resume from a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Resume {
    /// There must be a checkpoint
    Always,
    /// Start anew if there is no checkpoint
    Auto,
}
