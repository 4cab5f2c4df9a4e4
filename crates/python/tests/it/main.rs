//! The tests in Python, `tests/test_*.py`, with the shared library that cargo built.

#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use stepwell_skip::skipped;

/// The shared library: beside this program.
fn library() -> PathBuf {
    let deps = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let name = if cfg!(target_os = "macos") { "lib_stepwell.dylib" } else { "lib_stepwell.so" };
    let found = deps.join(name);
    assert!(found.is_file(), "{} is missing", found.display());
    found
}

/// A folder with the package as a wheel installs it.
fn package(folder: &Path, to: &Path) {
    let to = to.join("stepwell");
    fs::create_dir(&to).unwrap();
    for entry in fs::read_dir(folder.join("python/stepwell")).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_file() {
            fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
    fs::copy(library(), to.join("_stepwell.abi3.so")).unwrap();
}

/// Runs a file of tests, by the Python that `variable` names or the system's, if that has `module`.
fn run(tests: &str, variable: &str, module: &str) {
    let python = std::env::var_os(variable).unwrap_or_else(|| "python3".into());
    let import = Command::new(&python).args(["-c", &format!("import {module}")]).output();
    if !import.is_ok_and(|output| output.status.success()) {
        return skipped(format!("{variable} names no Python with {module}"));
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let home = tempfile::tempdir().unwrap();
    package(folder, home.path());
    let mut command = Command::new(&python);
    command.current_dir(folder.join("tests")).env("PYTHONPATH", home.path());
    command.env("PYTHONDONTWRITEBYTECODE", "1").args(["-m", "unittest", tests]);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let last = said.trim_end().lines().last().unwrap_or_default();
    assert!(last.starts_with("OK"), "{said}");
    if last != "OK" {
        skipped(format!("{tests}: {last}: some Python packages are missing"));
    }
}

#[test]
fn embeddings_without_pytorch() {
    run("test_rows", "STEPWELL_PYTHON", "numpy");
}

#[test]
fn optimizers_and_memory_of_tables() {
    run("test_tables", "STEPWELL_PYTHON", "numpy");
}

#[test]
fn ids_of_every_kind() {
    run("test_ids", "STEPWELL_PYTHON", "numpy");
}

#[test]
fn the_program_from_python() {
    run("test_program", "STEPWELL_PYTHON", "numpy");
}

#[test]
fn tools_around_pytorch() {
    run("test_tools", "STEPWELL_PEER", "torch");
}

#[test]
fn notebooks() {
    run("test_notebooks", "STEPWELL_PEER", "torch");
}

#[test]
fn embeddings_of_several_ranks() {
    run("test_ranks", "STEPWELL_PEER", "torch");
}

#[test]
fn embeddings_in_pytorch() {
    run("test_torch", "STEPWELL_PEER", "torch");
}
