//! Runs kernels on this processor under AddressSanitizer and ThreadSanitizer.
//!
//! - **Why.** Out-of-bounds accesses and data races don't show in the values that tests compare.
//! - **How.** `STEPWELL_SANITIZE` makes the build script of `stepwell-kernels` compile kernels with
//!   a sanitizer of the C++ compiler; Rust code is unchanged. The runtime must be loaded before all
//!   other libraries, so it is preloaded.
//! - **Failure.** A report ends the tests with a special status. A kernel without a barrier, which
//!   ThreadSanitizer must report, shows that it examines kernels at all.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::command::{cargo_command, output};
use crate::outcome::Outcome;
use crate::skipped;

/// Exit status of a program in which ThreadSanitizer found something.
const FOUND: i32 = 66;

/// Runs the kernels' tests under both sanitizers, if available.
pub(crate) fn kernels(root: &Path) -> Outcome {
    if !cfg!(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu")) {
        skipped::skip(root, "sanitize", "sanitizers are run on x86-64 and Linux alone");
        return Ok(());
    }
    match runtime("asan") {
        Some(library) => status(&mut address(root, &library), 0)?,
        None => skipped::skip(root, "sanitize", "the C++ compiler has no libasan.so"),
    }
    let setarch = output(Command::new("setarch").arg("--version"));
    match (runtime("tsan"), setarch) {
        (Some(library), Ok(_)) => {
            status(thread(root, &library).args(["--test", "*", "--", "--test-threads=1"]), 0)?;
            let canary = ["--lib", "a_missing_barrier", "--", "--test-threads=1"];
            let mut canary_tests = thread(root, &library);
            canary_tests.args(canary).stdout(Stdio::null()).stderr(Stdio::null());
            status(&mut canary_tests, FOUND)?;
        }
        (None, _) => skipped::skip(root, "sanitize", "the C++ compiler has no libtsan.so"),
        (_, Err(why)) => skipped::skip(root, "sanitize", &why),
    }
    Ok(())
}

/// Path of a sanitizer's runtime library; `None` if the C++ compiler has none.
fn runtime(name: &str) -> Option<String> {
    let mut compiler = Command::new("c++");
    let answer = output(compiler.arg(format!("-print-file-name=lib{name}.so"))).ok()?;
    let path = String::from_utf8_lossy(&answer).trim().to_owned();
    // A compiler without the library prints only the name.
    let path = std::fs::canonicalize(path).ok()?;
    path.to_str().map(str::to_owned)
}

fn address(root: &Path, library: &str) -> Command {
    let mut tests = tests(root, "address", &format!("env LD_PRELOAD={library}"));
    // Memory isn't freed after a fault.
    tests.env("ASAN_OPTIONS", "detect_leaks=0");
    tests
}

fn thread(root: &Path, library: &str) -> Command {
    // ThreadSanitizer needs memory at fixed addresses that the system must not use otherwise.
    let mut tests = tests(root, "thread", &format!("setarch -R env LD_PRELOAD={library}"));
    let suppressions = root.join("crates/kernels/shim/tsan.supp");
    tests.env("TSAN_OPTIONS", format!("suppressions={}", suppressions.display()));
    tests
}

/// The tests, built in a separate directory and started by `runner`.
fn tests(root: &Path, sanitizer: &str, runner: &str) -> Command {
    let mut tests = cargo_command();
    tests.current_dir(root).args(["test", "--package", "stepwell-kernels", "--quiet"]);
    tests.env("STEPWELL_SANITIZE", sanitizer);
    tests.env("CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER", runner);
    tests.env("CARGO_TARGET_DIR", root.join("target").join(format!("sanitize-{sanitizer}")));
    tests
}

/// Runs a command until it ends, and checks its exit status.
fn status(command: &mut Command, expected: i32) -> Outcome {
    let ended = command.status().map_err(|error| format!("{command:?}: {error}"))?;
    if ended.code() == Some(expected) {
        return Ok(());
    }
    Err(format!("kernels under a sanitizer ended with {ended}, not with status {expected}"))
}
