//! Ranks as processes, if MPI is installed.
//!
//! Then everything is linted, built and tested with the feature, so that nothing is built twice.

use std::path::Path;
use std::process::Command;

use crate::run::output;
use crate::{Outcome, programs, skipped};

/// The feature, for all packages that have it.
const FEATURES: &str =
    "stepwell/mpi,stepwell-fabric/mpi,stepwell-geeps/mpi,stepwell-sim/mpi,stepwell-sync/mpi";
/// Test programs that launch themselves, by package and name. Most measure time, and have more
/// processes than there are cores.
pub(crate) const QUICK: [(&str, &str); 3] =
    [("fabric", "mpi"), ("stepwell", "mpi"), ("sync", "mpi")];
/// Test programs for the long suite only.
pub(crate) const LONG: [(&str, &str); 2] = [("geeps", "mpi"), ("sim", "mpi")];

/// Cargo arguments for the feature; empty if MPI isn't installed.
pub(crate) fn features() -> &'static [&'static str] {
    if missing().is_none() { &["--features", FEATURES] } else { &[] }
}

/// Tests over MPI, which `test` also runs.
pub(crate) fn check(root: &Path) -> Outcome {
    run(root, &QUICK)
}

/// Longer tests over MPI.
pub(crate) fn check_long(root: &Path) -> Outcome {
    run(root, &LONG)
}

/// Runs the programs sequentially.
fn run(root: &Path, wanted: &[(&str, &str)]) -> Outcome {
    if !is_installed(root) {
        return Ok(());
    }
    let mut found = programs::build(root, &["--test", "mpi"])?;
    found.retain(|program| program.is_among(wanted).is_some());
    if found.len() < wanted.len() {
        return Err(format!("of the tests over MPI {} of {} are built", found.len(), wanted.len()));
    }
    programs::run_all(root, &found, 1)
}

/// Whether MPI is installed; reports if it isn't.
pub(crate) fn is_installed(root: &Path) -> bool {
    let missing = missing();
    missing.iter().for_each(|lacks| skipped::skip(root, "mpi", lacks));
    missing.is_none()
}

/// Message about the missing part of MPI, if any.
fn missing() -> Option<String> {
    ["mpicc", "mpirun"].into_iter().find_map(|tool| {
        let why = output(Command::new(tool).arg("--version")).err()?;
        let why = why.lines().next().unwrap_or_default();
        Some(format!(
            "{tool}: {why} (Debian: apt-get install libopenmpi-dev openmpi-bin libclang-dev)"
        ))
    })
}
