//! Result of a command.

/// An error is a message of one line.
pub(crate) type Outcome = Result<(), String>;
