//! Result of a command.

/// An error is one line that says what is wrong.
pub(crate) type Outcome = Result<(), String>;
