//! Fixes for errors of the system.

use std::io::{Error, ErrorKind};

use rustix::io::Errno;

/// Suffix for the message of an error that a limit of the process causes; empty for other errors.
pub fn mend(error: &Error) -> &'static str {
    match error.kind() {
        ErrorKind::FileTooLarge => "; raise the limit on the size of files (ulimit -f)",
        _ if is_exhausted(error) => "; raise the limit on open files (ulimit -n)",
        _ => "",
    }
}

/// Suffix for the message that a thread could not be started.
pub const NO_THREAD: &str = "; this is the limit on processes (ulimit -u) or on memory \
                             (ulimit -v): raise it, or lower threads";

/// Whether the process or the system has no file descriptors left.
pub fn is_exhausted(error: &Error) -> bool {
    let exhausted = [Errno::MFILE, Errno::NFILE].map(Errno::raw_os_error);
    error.raw_os_error().is_some_and(|number| exhausted.contains(&number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_of_the_process_are_named() {
        let of = |errno: Errno| mend(&Error::from_raw_os_error(errno.raw_os_error()));
        assert!(
            of(Errno::MFILE).ends_with("(ulimit -n)") && of(Errno::FBIG).ends_with("(ulimit -f)")
        );
        assert_eq!(of(Errno::ACCESS), "");
    }
}
