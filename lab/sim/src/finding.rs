//! Violations that checkers find.

use std::fmt;

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
