//! Ranks as processes, where MPI is installed.
//!
//! Its feature is chosen for the workspace as a whole: libraries of others are then those that
//! `test` has built.

use std::path::Path;
use std::process::Command;

use crate::run::{cargo, output};
use crate::{Outcome, programs, skipped};

/// The feature, of all that have tests over MPI.
const FEATURES: &str =
    "stepwell/mpi,stepwell-fabric/mpi,stepwell-geeps/mpi,stepwell-sim/mpi,stepwell-sync/mpi";
/// Programs of tests that launch themselves, by package and name.
const QUICK: [(&str, &str); 3] = [("fabric", "mpi"), ("stepwell", "mpi"), ("sync", "mpi")];
/// Those that `check` leaves out.
const LONG: [(&str, &str); 2] = [("geeps", "mpi"), ("sim", "mpi")];

/// Code that the feature brings in is linted and tested.
pub(crate) fn check(root: &Path) -> Outcome {
    if !is_installed(root) {
        return Ok(());
    }
    let lint = ["clippy", "--workspace", "--lib", "--bins", "--test", "mpi", "--features"];
    cargo(root, &[&lint[..], &[FEATURES, "--", "-D", "warnings"]].concat(), &[])?;
    // With its unit tests, of which nobody else has any of the feature.
    let fabric = ["--package", "stepwell-fabric", "--features", "mpi"];
    let all = ["--all-targets", "--", "-D", "warnings"];
    cargo(root, &[&["clippy"][..], &fabric, &all].concat(), &[])?;
    cargo(root, &[&["test"][..], &fabric, &["--lib", "--test", "conformance"]].concat(), &[])?;
    run(root, &QUICK)
}

/// Tests over MPI that take longer.
pub(crate) fn check_long(root: &Path) -> Outcome {
    if is_installed(root) { run(root, &LONG) } else { Ok(()) }
}

/// One after the other: most measure time, and have more processes than there are cores.
fn run(root: &Path, wanted: &[(&str, &str)]) -> Outcome {
    let mut found = programs::build(root, &["--test", "mpi", "--features", FEATURES])?;
    found.retain(|program| program.is_among(wanted).is_some());
    if found.len() < wanted.len() {
        return Err(format!("of the tests over MPI {} of {} are built", found.len(), wanted.len()));
    }
    programs::run_all(root, &found, 1)
}

/// Whether MPI is installed; says so where it is not.
fn is_installed(root: &Path) -> bool {
    for (tool, option) in [("mpicc", "--version"), ("mpirun", "--version")] {
        if let Err(why) = output(Command::new(tool).arg(option)) {
            let why = why.lines().next().unwrap_or_default();
            let lacks = format!(
                "{tool}: {why} (Debian: apt-get install libopenmpi-dev openmpi-bin libclang-dev)"
            );
            skipped::skip(root, "mpi", &lacks);
            return false;
        }
    }
    true
}
