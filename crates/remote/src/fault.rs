//! Why a request failed, in words, and whether a retry may succeed.

use std::error::Error;
use std::io::ErrorKind;
use std::time::Duration;

use reqwest::StatusCode;

/// Why a request failed.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) kind: ErrorKind,
    pub(crate) why: String,
    /// Whether the same request may succeed a little later.
    pub(crate) again: bool,
}

impl Fault {
    /// A lasting fault.
    pub(crate) fn lasting(kind: ErrorKind, why: impl Into<String>) -> Self {
        Self { kind, why: why.into(), again: false }
    }

    /// A temporary fault.
    pub(crate) fn passing(kind: ErrorKind, why: impl Into<String>) -> Self {
        Self { kind, why: why.into(), again: true }
    }

    pub(crate) fn missing() -> Self {
        Self::lasting(ErrorKind::NotFound, "does not exist")
    }

    /// The object has changed.
    pub(crate) fn changed() -> Self {
        Self::lasting(
            ErrorKind::Other,
            "was changed since this run began to read it: start the run again, and leave the \
             data unchanged meanwhile",
        )
    }

    /// No complete answer within `limit`.
    pub(crate) fn late(limit: Duration) -> Self {
        let seconds = limit.as_secs_f64();
        Self::passing(ErrorKind::TimedOut, format!("no complete answer within {seconds} s"))
    }

    /// A failure status of a server that may require `credentials`.
    pub(crate) fn of_status(status: StatusCode, credentials: &str) -> Self {
        match status {
            StatusCode::NOT_FOUND | StatusCode::GONE => Self::missing(),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                let why = format!("may not be read ({}): {credentials}", status.as_u16());
                Self::lasting(ErrorKind::PermissionDenied, why)
            }
            StatusCode::PRECONDITION_FAILED => Self::changed(),
            StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => {
                Self::passing(ErrorKind::Other, format!("the server answered {status}"))
            }
            _ if status.is_server_error() => {
                Self::passing(ErrorKind::Other, format!("the server answered {status}"))
            }
            _ => Self::lasting(ErrorKind::Other, format!("the server answered {status}")),
        }
    }

    /// A request that `host` did not answer, or not completely.
    pub(crate) fn of_request(error: &(dyn Error + 'static), host: &str) -> Self {
        let innermost = innermost(error);
        let has = |parts: &[&str]| parts.iter().any(|part| innermost.contains(part));
        if has(&["lookup address", "Name or service not known", "No address"]) {
            let why =
                format!("there is no host {host}: is its name right, and is there a network?");
            return Self::lasting(ErrorKind::HostUnreachable, why);
        }
        if has(&["Connection refused"]) {
            let why = format!("{host} refuses connections: is the server running, at this port?");
            return Self::passing(ErrorKind::ConnectionRefused, why);
        }
        if has(&["timed out"]) {
            return Self::passing(ErrorKind::TimedOut, format!("no answer from {host} in time"));
        }
        if has(&["certificate", "Certificate"]) {
            let why = format!(
                "the certificate of {host} is not trusted ({innermost}): set SSL_CERT_FILE to \
                 that of its authority"
            );
            return Self::lasting(ErrorKind::Other, why);
        }
        Self::passing(ErrorKind::Other, format!("the answer of {host} was cut short: {innermost}"))
    }

    /// The fault after `tries` tries.
    pub(crate) fn after(mut self, tries: u32) -> Self {
        if self.again && tries > 1 {
            self.why = format!("{} ({tries} tries)", self.why);
        }
        self
    }
}

impl From<Fault> for std::io::Error {
    fn from(fault: Fault) -> Self {
        Self::new(fault.kind, fault.why)
    }
}

/// The message of the root cause, on one line.
pub(crate) fn innermost(error: &(dyn Error + 'static)) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    last.to_string().split_whitespace().collect::<Vec<_>>().join(" ")
}
