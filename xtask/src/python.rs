//! The Python package as users get it: a wheel, installed into fresh environments, and its tests.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{finish, output};
use crate::outcome::Outcome;
use crate::skipped;

/// Tests that need NumPy alone.
const WITH_NUMPY: [&str; 4] = ["test_rows", "test_tables", "test_ids", "test_program"];
/// Tests that need PyTorch.
const WITH_TORCH: [&str; 4] = ["test_torch", "test_ranks", "test_tools", "test_notebooks"];
/// The most bytes of a wheel's shared library.
const LIBRARY_MAX: u64 = 25_000_000;

/// Builds the wheel and runs the package's tests with it: in a new environment, and in the one that
/// `STEPWELL_PEER` names, if it has PyTorch.
pub(crate) fn check(root: &Path) -> Outcome {
    let base = std::env::var_os("STEPWELL_PYTHON").unwrap_or_else(|| "python3".into());
    let home = root.join("target/python-package");
    if home.exists() {
        fs::remove_dir_all(&home).map_err(|error| format!("{}: {error}", home.display()))?;
    }
    let (fresh, wheels) = (home.join("fresh"), home.join("wheels"));
    finish(Command::new(&base).args(["-m", "venv"]).arg(&fresh))?;
    let python = fresh.join("bin/python");
    let pip = |python: &Path, arguments: &[&str]| {
        let mut command = Command::new(python);
        command.args(["-m", "pip", "--disable-pip-version-check"]).args(arguments);
        command
    };
    let as_published = ["wheel", "--no-deps", "--config-settings=build-args=--profile dist"];
    let mut build = pip(&python, &as_published);
    finish(build.arg("--wheel-dir").arg(&wheels).arg(root.join("crates/python")))?;
    let wheel = only_file(&wheels)?;
    finish(pip(&python, &["install", "--quiet"]).arg(&wheel))?;
    let version = output(Command::new(fresh.join("bin/stepwell")).arg("--version"))?;
    println!("{}", String::from_utf8_lossy(&version).trim());
    let peer = home.join("peer");
    finish(pip(&python, &["install", "--quiet", "--no-deps", "--target"]).arg(&peer).arg(&wheel))?;
    let library = peer.join("stepwell/_stepwell.abi3.so");
    let bytes =
        fs::metadata(&library).map_err(|error| format!("{}: {error}", library.display()))?;
    if bytes.len() > LIBRARY_MAX {
        return Err(format!("the wheel's library has {} bytes, not {LIBRARY_MAX}", bytes.len()));
    }
    tests(root, python.as_os_str().to_owned(), &WITH_NUMPY, None)?;
    match std::env::var_os("STEPWELL_PEER") {
        Some(python) => tests(root, python, &WITH_TORCH, Some(&peer)),
        None => {
            skipped::skip(root, "python", "STEPWELL_PEER names no Python with PyTorch");
            Ok(())
        }
    }
}

fn only_file(folder: &Path) -> Result<PathBuf, String> {
    let fail = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut entries = fs::read_dir(folder).map_err(fail)?;
    let entry = entries.next().ok_or_else(|| format!("{} is empty", folder.display()))?;
    Ok(entry.map_err(fail)?.path())
}

/// Runs files of tests with the package that is installed, or that in folder `package`.
fn tests(root: &Path, python: OsString, files: &[&str], package: Option<&Path>) -> Outcome {
    let folder = root.join("crates/python/tests");
    let mut command = Command::new(python);
    command.current_dir(&folder).args(["-m", "unittest"]).args(files);
    if let Some(package) = package {
        command.env("PYTHONPATH", package);
    }
    finish(command.env("PYTHONDONTWRITEBYTECODE", "1"))
}
