//! Arguments of `stepwell tune`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use stepwell_settings::BestKind;

use super::ConfigArgs;

/// The text below the help.
const EXAMPLES: &str = "\
Ranges, as values of --set:
  log(A,B)       between A and B, uniform in the logarithm; logint(A,B) for whole numbers
  uniform(A,B)   between A and B; int(A,B) for whole numbers
  choice(A,B,C)  one of these values, written as in a settings file: choice([64],[128,64])

Trials train one after another. If stopped, run the same command again to continue.

Examples:
  stepwell tune run.toml --set 'optim.rows.lr=log(0.001,0.3)' --set 'model.dim=choice(8,16,32)'
      trains 20 models with drawn settings, and writes the best ones to tune/best.toml
  stepwell tune run.toml --set 'optim.dense.lr=log(1e-5,0.01)' --trials 27 --halving --out rates
      trains 27 models, most of them on a part of the data only
  stepwell train tune/best.toml --checkpoint saved
      trains with the best settings";

/// `stepwell tune`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TuneArgs {
    #[command(flatten)]
    pub(crate) settings: ConfigArgs,
    /// Number of trials
    #[arg(
        long,
        value_name = "N",
        default_value_t = 20,
        value_parser = clap::value_parser!(u64).range(1..=100_000)
    )]
    pub(crate) trials: u64,
    /// Directory of the search: a new one, or that of a search to continue
    #[arg(long, value_name = "DIR", default_value = "tune")]
    pub(crate) out: PathBuf,
    /// Metric by which evaluations are compared
    #[arg(long, value_name = "METRIC", value_enum, default_value_t = By::Logloss)]
    pub(crate) by: By,
    /// Train all trials on a part of the data, and a third of them, the best, on three times as
    /// much, and so on
    #[arg(long)]
    pub(crate) halving: bool,
    /// Keep the checkpoints of all trials, instead of those of the best
    #[arg(long)]
    pub(crate) keep_all: bool,
    /// Print the search as one JSON object; everything else goes to standard error
    #[arg(long)]
    pub(crate) json: bool,
}

impl TuneArgs {
    /// Refuses flags that do not go together.
    pub(crate) fn check(&self) -> Result<(), String> {
        if let Some(directory) = &self.settings.checkpoint {
            return Err(format!(
                "--checkpoint {}: trials keep their checkpoints in --out {}: leave it out",
                directory.display(),
                self.out.display()
            ));
        }
        match self.halving && self.trials < 3 {
            true => Err(format!(
                "--halving drops two of three trials, and --trials is {}: give at least 3",
                self.trials
            )),
            false => Ok(()),
        }
    }
}

/// Metric of evaluations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum By {
    /// The least log loss; for a label that is a number, the least RMSE
    Logloss,
    /// The largest AUC
    Auc,
}

impl By {
    /// The metric as `checkpoint.best` has it.
    pub(crate) const fn best(self) -> BestKind {
        match self {
            Self::Logloss => BestKind::Logloss,
            Self::Auc => BestKind::Auc,
        }
    }
}
