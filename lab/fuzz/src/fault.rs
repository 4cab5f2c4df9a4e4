//! Reasons for a case to end early.

/// Result of an operation of a case.
pub(crate) type Result<T> = std::result::Result<T, Fault>;

/// Reason for a case to end early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The program violates a guarantee.
    Found(String),
    /// The program refused the case's settings by a documented rule.
    Refused(String),
    /// The fuzzer itself can't continue.
    Broken(String),
}

/// A finding.
pub(crate) fn found(why: impl Into<String>) -> Fault {
    Fault::Found(why.into())
}

/// Converts an error of a system call.
pub(crate) fn broken(what: &'static str) -> impl Fn(std::io::Error) -> Fault {
    move |error| Fault::Broken(format!("cannot {what}: {error}"))
}
