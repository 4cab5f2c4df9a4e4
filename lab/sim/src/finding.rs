//! Violations that checkers find.

use std::fmt;

use stepwell_train::Report;

use crate::oracle::Oracle;
use crate::scheduler::Trouble;

/// A violation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// A wrong row was read.
    WrongRow(String),
    /// The final model is wrong.
    WrongModel(String),
    /// The report is wrong.
    WrongFigures(String),
    /// A checkpoint isn't the model after its step.
    WrongCheckpoint(String),
    /// A complete checkpoint can't be read.
    LostCheckpoint(String),
    /// No stage can run.
    Deadlock(String),
    /// Stages run without progress.
    Livelock(String),
    /// An invariant is broken.
    Panic(String),
    /// The run ended with an error although nothing failed.
    Failed(String),
    /// The run finished although a table didn't fit.
    WrongEnd(String),
}

impl Finding {
    /// Name of the checker.
    pub fn checker(&self) -> &'static str {
        match self {
            Self::WrongRow(_) => "wrong row",
            Self::WrongModel(_) => "wrong model",
            Self::WrongFigures(_) => "wrong figures",
            Self::WrongCheckpoint(_) => "wrong checkpoint",
            Self::LostCheckpoint(_) => "lost checkpoint",
            Self::Deadlock(_) => "deadlock",
            Self::Livelock(_) => "livelock",
            Self::Panic(_) => "panic",
            Self::Failed(_) => "error",
            Self::WrongEnd(_) => "wrong end",
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = match self {
            Self::WrongRow(why)
            | Self::WrongModel(why)
            | Self::WrongFigures(why)
            | Self::WrongCheckpoint(why)
            | Self::LostCheckpoint(why)
            | Self::Deadlock(why)
            | Self::Livelock(why)
            | Self::Panic(why)
            | Self::Failed(why)
            | Self::WrongEnd(why) => why,
        };
        write!(f, "{}: {why}", self.checker())
    }
}

impl From<Trouble> for Finding {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Deadlock(why) => Self::Deadlock(why),
            Trouble::Livelock(why) => Self::Livelock(why),
            Trouble::Panic(why) => Self::Panic(why),
        }
    }
}

/// Compares a report with the oracle's; for a run that `resumed` after a step, only values that it
/// measured completely.
///
/// # Errors
/// The first difference.
pub(crate) fn compare(
    report: &Report,
    oracle: &Oracle,
    resumed: Option<u64>,
) -> Result<(), Finding> {
    let right = &oracle.report;
    let models = [&report.model_digest, &right.model_digest];
    if models[0] != models[1] || report.rows != right.rows {
        let (rows, right) = (report.rows, right.rows);
        let why =
            format!("{rows:?} rows, digest {:?}; expected {right:?}, {:?}", models[0], models[1]);
        return Err(Finding::WrongModel(why));
    }
    let wrong = |what: &str, is: String, right: String| {
        if is == right {
            return Ok(());
        }
        Err(Finding::WrongFigures(format!("{what}: {is}, expected {right}")))
    };
    let uses = |report: &Report| report.tiers.host.uses;
    wrong("steps", report.steps.to_string(), right.steps.to_string())?;
    wrong("evaluation", format!("{:?}", report.eval), format!("{:?}", right.eval))?;
    wrong("skipped", report.skipped_lines.to_string(), right.skipped_lines.to_string())?;
    if resumed.is_some() {
        return Ok(());
    }
    let all = |report: &Report| {
        let (eval, progressive) = (&report.eval_by_epoch, &report.progressive_by_epoch);
        format!("{eval:?} {progressive:?}")
    };
    wrong("metrics", all(report), all(right))?;
    wrong("examples", report.examples.to_string(), right.examples.to_string())?;
    wrong("uses reported to the policy", uses(report).to_string(), uses(right).to_string())?;
    let host = &report.tiers.host;
    let most = host.slots.min(host.rows_peak).to_string();
    wrong("rows within the slab", host.rows_peak.to_string(), most)
}
