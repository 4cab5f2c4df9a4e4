//! Starts ranks, for tests and examples that are several processes.

use std::io;
use std::process::Command;

/// A command that runs `mpirun` with these options, for `ranks` processes of this program,
/// regardless of the number of cores. Further arguments go to the program.
///
/// # Errors
/// If `mpirun` does not start.
pub fn again(ranks: usize, options: &[&str]) -> io::Result<Command> {
    let tries = Command::new("mpirun").arg("--version").output();
    tries.map_err(|error| io::Error::new(error.kind(), format!("mpirun: {error}")))?;
    let mut launcher = Command::new("mpirun");
    // Open MPI makes root confirm twice.
    launcher.envs([("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")]);
    launcher.args(["--oversubscribe", "-n", &ranks.to_string()]).args(options);
    launcher.arg(std::env::current_exe()?);
    Ok(launcher)
}
