//! Why a command ends before it is through, and what the process then ends with.

use std::process::ExitCode;

use crate::say;

/// Why a command ended.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Something that can be mended, in one line.
    Error(String),
    /// Nobody reads what it says any more, which is no error.
    Unheard,
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

impl Failure {
    /// Says why, and gives the status that says it too.
    pub(crate) fn end(self) -> ExitCode {
        match self {
            Self::Error(message) => {
                say::end(&message);
                ExitCode::FAILURE
            }
            Self::Unheard => ExitCode::SUCCESS,
            Self::Interrupted { signal, line } => {
                say::end(&line);
                ExitCode::from(status_of(signal))
            }
        }
    }
}

/// The status that shells give to a process that a signal ended.
pub(crate) fn status_of(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(u8::MAX)
}
