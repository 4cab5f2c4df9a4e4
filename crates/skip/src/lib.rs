//! Tests that pass over what this machine lacks say so, here and at the end of all tests.
//!
//! - **Why.** The harness keeps what a test that passes prints: that it tried nothing would go
//!   unseen.
//! - **How.** Each line is appended to the file that [`FILE`] names, which `cargo xtask` sets, and
//!   whose lines it says together when all is over.
//! - **Failure.** What cannot be appended is said here alone.

#![forbid(unsafe_code)]

use std::fmt::Display;
use std::fs::File;
use std::io::Write;

/// The variable that names the file.
pub const FILE: &str = "STEPWELL_SKIPPED";

/// Says that the test at hand, or a part of it, is passed over, and what it lacks.
#[expect(clippy::print_stdout, reason = "it is a test that speaks")]
pub fn skipped(lacks: impl Display) {
    println!("skipped: {lacks}");
    let Some(path) = std::env::var_os(FILE) else { return };
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    // One write, so that lines of several processes stay apart.
    let line = format!("{lacks}\t{test}\n").replace(['\r', '\0'], " ");
    if let Ok(mut file) = File::options().create(true).append(true).open(path) {
        let _ = file.write_all(line.as_bytes());
    }
}
