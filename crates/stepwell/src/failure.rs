//! Why a command ends before it is through, and what the process then ends with.

use std::fmt;

use crate::say;

/// Why a command ended.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Something that can be mended, in one line.
    Error(String),
    /// Nobody reads what it says any more, which is no error.
    Unheard,
    /// It was said already, here or by another rank; the status that says it too.
    Said(u8),
    /// A signal asked it to stop; how to go on, in one line.
    Interrupted {
        /// The signal's number.
        signal: i32,
        /// What became of the run.
        line: String,
    },
}

impl From<String> for Failure {
    fn from(message: String) -> Self {
        Self::Error(message)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error(line) | Self::Interrupted { line, .. } => f.write_str(line),
            Self::Unheard | Self::Said(_) => Ok(()),
        }
    }
}

impl Failure {
    /// Says why, where that is `asked` for; the status that says it too.
    pub(crate) fn say(&self, asked: bool) -> u8 {
        if asked && matches!(self, Self::Error(_) | Self::Interrupted { .. }) {
            say::end(&self.to_string());
        }
        match self {
            Self::Error(_) => 1,
            Self::Unheard => 0,
            Self::Said(status) => *status,
            Self::Interrupted { signal, .. } => status_of(*signal),
        }
    }
}

/// The status that shells give to a process that a signal ended.
pub(crate) fn status_of(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(u8::MAX)
}
