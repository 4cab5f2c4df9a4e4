//! Reports tests that are skipped because this machine lacks something, both here and after all
//! tests.
//!
//! - **Why.** The test harness hides the output of a passing test, so a skipped test would go
//!   unnoticed.
//! - **How.** Appends a line to the file named by [`FILE`], which `cargo xtask` sets; it prints a
//!   summary of the lines at the end.
//! - **Failure.** If the line can't be appended, it is only printed.

#![forbid(unsafe_code)]

use std::fmt::Display;
use std::fs::File;
use std::io::Write;

/// Environment variable with the path of the file.
pub const FILE: &str = "STEPWELL_SKIPPED";

/// Reports that the current test, or a part of it, is skipped, and what the machine lacks.
#[expect(clippy::print_stdout, reason = "it is a test that speaks")]
pub fn skipped(lacks: impl Display) {
    println!("skipped: {lacks}");
    let Some(path) = std::env::var_os(FILE) else { return };
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    // A single write, so that lines of several processes don't mix.
    let line = format!("{lacks}\t{test}\n").replace(['\r', '\0'], " ");
    if let Ok(mut file) = File::options().create(true).append(true).open(path) {
        let _ = file.write_all(line.as_bytes());
    }
}
