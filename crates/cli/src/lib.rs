//! Code shared by the command-line programs: messages, the log, failures and exit statuses, output
//! files, signals, and parsing of arguments.
//!
//! - **Why.** `stepwell` and `stepwell-lab` print, fail and write files in the same way.
//! - **How.** [`say`] is the one place that writes to standard output and standard error. A command
//!   returns a [`Failure`], which [`main`] turns into one line and an exit status. [`outputs`]
//!   replaces files as a whole, so that a killed command leaves the old one.
//! - **Failure.** A closed pipe, a full disk and a size limit are errors, never panics.

#![forbid(unsafe_code)]

pub mod args;
pub mod failure;
pub mod launcher;
pub mod log;
pub mod outputs;
pub mod say;
pub mod signals;
pub mod width;

pub use failure::Failure;

/// Keeps the memory of finished batches for later ones. Returning it to the system would cost a
/// fifth of a run, because the kernel clears pages.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Runs a program with this name: sets up signals and URLs, calls `run`, and reports its failure.
/// Returns the exit status.
pub fn main(name: &'static str, run: impl FnOnce() -> Result<(), Failure>) -> u8 {
    say::speak_as(name);
    let ready = signals::outlive_size_bound().map_err(Failure::from);
    let outcome = ready.and_then(|()| {
        #[cfg(feature = "remote")]
        read_urls();
        run()
    });
    match outcome {
        Ok(()) => 0,
        Err(failure) => {
            failure.say();
            failure.status()
        }
    }
}

/// Lets data be read from URLs. Nothing starts before a URL is opened.
#[cfg(feature = "remote")]
fn read_urls() {
    use stepwell_remote::{Environment, Limits, Remote};
    let remote = Remote::new(Limits::default(), Environment::of_process());
    stepwell_data::read_objects_with(std::sync::Arc::new(remote));
}
