//! Ranks as processes, if MPI is installed.
//!
//! With MPI, everything is linted, built and tested with the feature, so that nothing is built
//! twice.

use std::path::Path;
use std::process::Command;

use crate::command::output;
use crate::outcome::Outcome;
use crate::skipped;

/// The feature, for all packages that have it.
const FEATURES: &str = "stepwell/mpi,stepwell-lab/mpi,stepwell-fabric/mpi,stepwell-geeps/mpi,\
                        stepwell-sim/mpi,stepwell-sync/mpi";
/// Programs of tests that launch themselves, by package and name. Most measure time, and have more
/// processes than there are cores.
pub(crate) const QUICK: [(&str, &str); 4] =
    [("fabric", "mpi"), ("lab", "mpi"), ("stepwell", "mpi"), ("sync", "mpi")];
/// Further programs that launch themselves, for which only the long suite has time.
pub(crate) const LONG: [(&str, &str); 2] = [("geeps", "mpi"), ("sim", "mpi")];

/// Cargo arguments for the feature; empty if MPI isn't installed.
pub(crate) fn features() -> &'static [&'static str] {
    if missing().is_none() { &["--features", FEATURES] } else { &[] }
}

/// Skips the tests over MPI if it is not installed.
pub(crate) fn skip_if_missing(root: &Path) -> Outcome {
    missing().map_or(Ok(()), |lacks| skipped::skip_required(root, "mpi", &lacks))
}

/// Message about the missing part of MPI, if any.
pub(crate) fn missing() -> Option<String> {
    ["mpicc", "mpirun"].into_iter().find_map(|tool| {
        let why = output(Command::new(tool).arg("--version")).err()?;
        let why = why.lines().next().unwrap_or_default();
        Some(format!(
            "{tool}: {why} (Debian: apt-get install libopenmpi-dev openmpi-bin libclang-dev)"
        ))
    })
}
