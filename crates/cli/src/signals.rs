//! Ctrl-C and similar signals: the first asks a run to stop in good order, the second ends the
//! process.
//!
//! - **How.** The handler of the first signal arms the next one and wakes a thread, which makes the
//!   request. Signals that are ignored when the program starts, as shells and `nohup` do for
//!   background jobs, stay ignored.
//! - **Failure.** Growing a file beyond `ulimit -f` is a write error, as on a full disk, and not a
//!   signal.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use console::Term;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::{flag, iterator};
use stepwell_base::stop::StopRequest;

use crate::failure::{Failure, status_of};
use crate::say;

/// Signals that ask a program to end.
const HEEDED: [i32; 3] = [SIGHUP, SIGINT, SIGTERM];

/// Handlers of this process's signals.
pub struct Signals {
    stop: StopRequest,
    /// The first signal received; 0 for none.
    first: Arc<AtomicI32>,
}

impl Signals {
    /// Starts to handle signals.
    ///
    /// # Errors
    /// If the system does not allow it.
    pub fn heed() -> Result<Self, String> {
        let fail = |error: std::io::Error| format!("cannot wait for signals: {error}");
        let (stop, first) = (StopRequest::of_process(), Arc::new(AtomicI32::new(0)));
        let heeded: Vec<i32> = HEEDED.into_iter().filter(|signal| !is_ignored(*signal)).collect();
        let armed = Arc::new(AtomicBool::new(false));
        for signal in &heeded {
            // In this order, so that the signal that arms the shutdown does not trigger it.
            let status = status_of(*signal).into();
            flag::register_conditional_shutdown(*signal, status, Arc::clone(&armed))
                .map_err(fail)?;
            flag::register(*signal, Arc::clone(&armed)).map_err(fail)?;
        }
        let mut coming = iterator::Signals::new(&heeded).map_err(fail)?;
        let signals = Self { stop: stop.clone(), first: Arc::clone(&first) };
        let wait = move || {
            let Some(signal) = coming.forever().next() else { return };
            first.store(signal, Ordering::Release);
            let screen = Term::stderr();
            if screen.is_term() {
                // Clears a progress bar and the terminal's echo of the key; errors don't matter.
                let _ = screen.clear_line();
                say::remark_of_program("stopping after the current step; repeat to stop at once");
            }
            stop.make();
        };
        let thread = std::thread::Builder::new().name("signals".to_owned()).spawn(wait);
        thread.map_err(|error| {
            format!(
                "cannot start the thread that waits for signals: {error}; it meets the limit on \
                 processes (ulimit -u) or on addresses (ulimit -v): raise it"
            )
        })?;
        Ok(signals)
    }

    /// The stop request that the first signal makes.
    pub fn stop(&self) -> StopRequest {
        self.stop.clone()
    }

    /// The end of a run that the first signal stopped, here or at another rank.
    pub fn interrupted(&self, line: String) -> Failure {
        let signal = match self.first.load(Ordering::Acquire) {
            0 => SIGTERM,
            signal => signal,
        };
        Failure::Interrupted { signal, line }
    }

    /// Replaces an error by an interruption with `line` if a signal was received, because reads
    /// then fail.
    pub fn or_interrupted(&self, failure: Failure, line: &str) -> Failure {
        let came = self.first.load(Ordering::Acquire) != 0;
        match failure {
            Failure::Error(_) if came => self.interrupted(line.to_owned()),
            other => other,
        }
    }
}

/// Makes growing a file beyond the process's limit a write error, instead of a signal that ends the
/// process.
///
/// # Errors
/// If the system does not allow it.
pub fn outlive_size_bound() -> Result<(), String> {
    if !is_ignored(SIGXFSZ) {
        // With any handler, the write fails.
        flag::register(SIGXFSZ, Arc::default())
            .map_err(|error| format!("cannot handle signals: {error}"))?;
    }
    Ok(())
}

/// Whether the process ignores a signal, according to the system.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    ignores(&status, signal)
}

fn ignores(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask >> (signal - 1) & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_told() {
        // The mask of a process under nohup that also ignores SIGPIPE.
        let status = "Name:\tx\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\n";
        assert!(ignores(status, SIGHUP));
        assert!(!ignores(status, SIGINT) && !ignores(status, SIGTERM));
        assert!(!ignores("", SIGHUP));
    }
}
