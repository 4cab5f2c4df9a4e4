//! Failures of commands, and the exit statuses of the process.

use std::fmt;

use stepwell_data::UNLABELLED;

/// Exit statuses of the process and their meanings, without the other meaning of 1 for `diff`.
pub const STATUSES: [(&str, &str); 7] = [
    ("0", "success"),
    ("1", "failure, with a line on standard error"),
    (
        "2",
        "invalid flags or settings, a path that cannot be used, or more than this machine has; \
         nothing was started",
    ),
    ("3", "a checkpoint, a store of rows or a packed file is damaged"),
    ("129", "stopped by SIGHUP"),
    ("130", "stopped by Ctrl-C"),
    ("143", "stopped by SIGTERM"),
];

/// The exit statuses as a table below the help.
pub fn statuses() -> String {
    let lines = STATUSES.iter().map(|(status, what)| format!("\n  {status:<4} {what}"));
    format!("Exit status:{}", lines.collect::<String>())
}

/// The fix for a damaged store, which some errors already name.
const REPAIR: &str = "stepwell store repair";

/// The command failed; for `diff`, without a line, the models differ.
pub const FAILED: u8 = 1;
/// Flags, settings or paths cannot be used.
const USAGE: u8 = 2;
/// A file is damaged.
const DAMAGED: u8 = 3;

/// Why a command ended.
#[derive(Debug)]
pub enum Failure {
    /// An error that the user can fix, in one line.
    Error(String),
    /// Invalid flags or settings, or a path that cannot be used, in one line.
    Usage(String),
    /// Damaged files, in one line.
    Damage(String),
    /// The reader of its output closed the pipe, which is not an error.
    Unheard,
    /// A failure that was already printed, here or by another rank, with its exit status.
    Said(u8),
    /// A signal stopped it.
    Interrupted {
        /// The signal's number.
        signal: i32,
        /// State of the run and how to continue, in one line.
        line: String,
    },
}

impl From<String> for Failure {
    fn from(message: String) -> Self {
        Self::Error(message)
    }
}

impl From<stepwell_train::Error> for Failure {
    fn from(error: stepwell_train::Error) -> Self {
        match error.is_of_settings() {
            true => Self::Usage(error.to_string()),
            false => Self::of(error.is_damage(), &error),
        }
    }
}

impl From<stepwell_engine::Error> for Failure {
    fn from(error: stepwell_engine::Error) -> Self {
        match error {
            stepwell_engine::Error::Store(error) => error.into(),
            stepwell_engine::Error::NoCheckpoint { .. } => Self::Usage(error.to_string()),
            other => Self::of(other.is_damage(), &other),
        }
    }
}

impl From<stepwell_ssd::Error> for Failure {
    fn from(error: stepwell_ssd::Error) -> Self {
        let is_damage = error.is_damage();
        let mut line = error.to_string();
        if is_damage && !line.contains(REPAIR) {
            line = format!("{line}; `{REPAIR}` salvages the rest");
        }
        Self::of(is_damage, &line)
    }
}

impl From<stepwell_data::DataError> for Failure {
    fn from(error: stepwell_data::DataError) -> Self {
        match error {
            stepwell_data::DataError::Missing { .. } => Self::Usage(error.to_string()),
            _ if error.is_of_settings() => Self::Usage(error.to_string()),
            _ => Self::of(error.is_damage(), &error),
        }
    }
}

impl From<stepwell_disk::Error> for Failure {
    fn from(error: stepwell_disk::Error) -> Self {
        Self::Error(error.to_string())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error(line)
            | Self::Usage(line)
            | Self::Damage(line)
            | Self::Interrupted { line, .. } => f.write_str(line),
            Self::Unheard | Self::Said(_) => Ok(()),
        }
    }
}

impl Failure {
    /// A failure from an error, which may be damage.
    pub fn of(is_damage: bool, error: &dyn fmt::Display) -> Self {
        let line = error.to_string();
        if is_damage { Self::Damage(line) } else { Self::Error(line) }
    }

    /// Removes advice that applies only to scoring.
    pub fn of_training(self) -> Self {
        let own = |line: String| line.replace(&format!("; {UNLABELLED}"), "");
        match self {
            Self::Error(line) => Self::Error(own(line)),
            Self::Usage(line) => Self::Usage(own(line)),
            other => other,
        }
    }

    /// The exit status.
    pub fn status(&self) -> u8 {
        match self {
            Self::Error(_) => FAILED,
            Self::Usage(_) => USAGE,
            Self::Damage(_) => DAMAGED,
            Self::Unheard => 0,
            Self::Said(status) => *status,
            Self::Interrupted { signal, .. } => status_of(*signal),
        }
    }
}

/// The exit status that shells give to a process that a signal ended.
pub(crate) fn status_of(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(u8::MAX)
}
