//! Ctrl-C and its like: the first asks a run to stop in good order, the second ends the process.
//!
//! - **How.** The handler of a signal arms the next one, and a thread of its own, which the handler
//!   wakes, makes the request. Signals that were ignored when the program began, as shells and
//!   `nohup` do for what runs behind them, stay ignored.
//! - **Failure.** A file that would grow beyond `ulimit -f` is an error of its write, as on a full
//!   disk, and no signal.

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

/// The signals of this process, from here on.
pub(crate) struct Signals {
    stop: StopRequest,
    /// The first one that came; 0 for none.
    first: Arc<AtomicI32>,
}

impl Signals {
    /// Heeds signals from now on.
    ///
    /// # Errors
    /// When the system does not let it.
    pub(crate) fn heed() -> Result<Self, String> {
        let fail = |error: std::io::Error| format!("cannot wait for signals: {error}");
        let (stop, first) = (StopRequest::of_process(), Arc::new(AtomicI32::new(0)));
        let heeded: Vec<i32> = HEEDED.into_iter().filter(|signal| !is_ignored(*signal)).collect();
        let armed = Arc::new(AtomicBool::new(false));
        for signal in &heeded {
            // In this order: what the first one arms, the second one finds.
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
                // A bar, and the terminal's echo of the key; a remark can't fail either.
                let _ = screen.clear_line();
                say::remark("stepwell: stopping after the current step; repeat to stop at once");
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

    /// The request that the first signal makes.
    pub(crate) fn stop(&self) -> StopRequest {
        self.stop.clone()
    }

    /// The end of a run that the first signal stopped, here or at another rank.
    pub(crate) fn interrupted(&self, line: String) -> Failure {
        let signal = match self.first.load(Ordering::Acquire) {
            0 => SIGTERM,
            signal => signal,
        };
        Failure::Interrupted { signal, line }
    }

    /// That a command was interrupted, in the place of why it failed, where a signal came: reading
    /// ends with an error then. `line` says what is left.
    pub(crate) fn or_interrupted(&self, failure: Failure, line: &str) -> Failure {
        let came = self.first.load(Ordering::Acquire) != 0;
        match failure {
            Failure::Error(_) if came => self.interrupted(line.to_owned()),
            other => other,
        }
    }
}

/// Lets a file that would grow beyond the process's bound be an error of the write, from here on,
/// which the system tells by a signal that ends the process otherwise.
///
/// # Errors
/// When the system does not let it.
pub(crate) fn outlive_size_bound() -> Result<(), String> {
    if !is_ignored(SIGXFSZ) {
        // Whatever is done when it comes, the write fails.
        flag::register(SIGXFSZ, Arc::default())
            .map_err(|error| format!("cannot handle signals: {error}"))?;
    }
    Ok(())
}

/// Whether the process ignores a signal, as far as the system tells.
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
        // Those of a process under nohup, whose SIGPIPE is ignored too.
        let status = "Name:\tx\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\n";
        assert!(ignores(status, SIGHUP));
        assert!(!ignores(status, SIGINT) && !ignores(status, SIGTERM));
        assert!(!ignores("", SIGHUP));
    }
}
