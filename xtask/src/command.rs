//! Commands that run other tools.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use crate::outcome::Outcome;
use crate::skipped;

/// Runs cargo on this terminal, with these additional variables.
pub(crate) fn cargo(root: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> Outcome {
    let mut command = cargo_command();
    command.current_dir(root).args(arguments).envs(environment.iter().copied());
    command.env(skipped::VARIABLE, skipped::file(root));
    finish(&mut command)
}

/// Cargo, started as from a shell. `cargo xtask` sets variables about its own package, which would
/// make build scripts of libraries run again.
pub(crate) fn cargo_command() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let of_package = |name: &OsString| {
        let name = name.to_string_lossy();
        ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|start| name.starts_with(start))
    };
    let names = std::env::vars_os().map(|(name, _)| name).filter(of_package);
    names.for_each(|name| {
        command.env_remove(name);
    });
    command
}

/// Variables with which cargo compiles the workspace with clippy, whose warnings are errors. Clippy
/// compiles as rustc does, so what is linted needn't be checked in addition.
pub(crate) const LINTING: [(&str, &str); 2] = [
    ("RUSTC_WORKSPACE_WRAPPER", "clippy-driver"),
    // Arguments are separated as cargo-clippy does.
    ("CLIPPY_ARGS", "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__"),
];

/// Runs a command on this terminal until it ends; a status other than 0 is a failure.
pub(crate) fn finish(command: &mut Command) -> Outcome {
    let status = command.status().map_err(|error| format!("{}: {error}", line(command)))?;
    if status.success() { Ok(()) } else { Err(format!("`{}` ended with {status}", line(command))) }
}

/// Runs a command and returns what it printed.
pub(crate) fn output(command: &mut Command) -> Result<Vec<u8>, String> {
    let output = command.output().map_err(|error| format!("{}: {error}", line(command)))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("`{}` ended with {}: {}", line(command), output.status, said.trim()))
}

/// A command as typed in a shell.
pub(crate) fn line(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let words = std::iter::once(program).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_command_is_named_without_its_folder() {
        let why = finish(Command::new("/bin/sh").args(["-c", "exit 3"])).unwrap_err();
        assert_eq!(why, "`sh -c exit 3` ended with exit status: 3");
        let why = output(Command::new("/bin/sh").args(["-c", "echo no >&2; exit 1"])).unwrap_err();
        assert!(why.ends_with("exit status: 1: no"), "{why}");
    }
}
