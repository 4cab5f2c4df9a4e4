//! Why a case ends before its end.

/// Result of what a case does.
pub(crate) type Result<T> = std::result::Result<T, Fault>;

/// Why a case ends before its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The program is not as it promises to be.
    Found(String),
    /// The program refused the case's settings by a rule that it states.
    Refused(String),
    /// The fuzzer itself cannot go on.
    Broken(String),
}

/// A finding.
pub(crate) fn found(why: impl Into<String>) -> Fault {
    Fault::Found(why.into())
}

/// What a failed call of the system comes to.
pub(crate) fn broken(what: &'static str) -> impl Fn(std::io::Error) -> Fault {
    move |error| Fault::Broken(format!("cannot {what}: {error}"))
}
