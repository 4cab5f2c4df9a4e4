//! What mends an error of the system.

use std::io::{Error, ErrorKind};

/// What follows the message of an error that a bound of the process explains; nothing after others.
pub fn mend(error: &Error) -> &'static str {
    match error.kind() {
        ErrorKind::FileTooLarge => "; raise the bound on the size of files (ulimit -f)",
        _ => "",
    }
}
