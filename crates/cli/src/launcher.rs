//! The launcher of processes, such as `mpirun`, that may have started this one.

use crate::failure::Failure;

/// Variables that hold the rank of a process: Open MPI, PMIx (also srun), MPICH and Intel MPI,
/// MVAPICH.
const RANK: [&str; 4] = ["OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK"];
/// Variables that hold the number of processes.
const SIZE: [&str; 3] = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE"];
/// Variables that hold the number of processes on this machine.
const SIZE_HERE: [&str; 4] = [
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "MPI_LOCALNRANKS",
    "PMI_LOCAL_SIZE",
    "MV2_COMM_WORLD_LOCAL_SIZE",
];

/// Whether this process reports errors of the command line, which all processes of a launcher
/// share: true for rank 0, and without a launcher.
pub fn speaks() -> bool {
    let is_alone = size().is_none_or(|size| size < 2);
    is_alone || RANK.iter().find_map(|name| std::env::var(name).ok()).is_none_or(|rank| rank == "0")
}

/// Number of processes that the launcher started, if it says so.
pub fn size() -> Option<usize> {
    count_in(&SIZE)
}

/// Number of processes that the launcher started on this machine, if it says so.
pub fn size_here() -> Option<usize> {
    count_in(&SIZE_HERE)
}

/// The first of these variables that holds a number.
fn count_in(names: &[&str]) -> Option<usize> {
    names.iter().find_map(|name| std::env::var(name).ok()?.parse().ok())
}

/// Prints a failure that all processes have, in rank 0 alone; returns it marked as printed.
pub fn report_once(failure: &Failure) -> Failure {
    if speaks() {
        failure.say();
    }
    Failure::Said(failure.status())
}

/// Fails if a launcher started several processes: `why` gets their number and says what to do
/// instead. Rank 0 alone prints it.
///
/// # Errors
/// If there are several processes.
pub fn refuse(why: impl FnOnce(usize) -> String) -> Result<(), Failure> {
    match size() {
        Some(size) if size > 1 => Err(report_once(&Failure::Error(why(size)))),
        _ => Ok(()),
    }
}
