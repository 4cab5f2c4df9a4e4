//! Running the program like a user.

#![allow(
    dead_code,
    clippy::allow_attributes,
    clippy::unwrap_used,
    reason = "each test file uses its part, and ends where something is not as it should be"
)]

pub(crate) mod bad;
pub(crate) mod pages;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

/// A directory that is removed after the test, with the program running in it.
pub(crate) struct Workshop {
    directory: TempDir,
}

impl Workshop {
    pub(crate) fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(crate::PROGRAM);
        command.args(args).current_dir(self.directory.path()).env("TMPDIR", self.directory.path());
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Runs a command that must succeed; returns its standard output.
    pub(crate) fn ok(&self, args: &[&str]) -> String {
        self.outputs(args).0
    }

    /// Runs a command that must succeed; returns its notes and warnings.
    pub(crate) fn notes(&self, args: &[&str]) -> String {
        self.outputs(args).1
    }

    /// Runs a command that must succeed; returns all that it prints.
    pub(crate) fn said(&self, args: &[&str]) -> String {
        let (out, error) = self.outputs(args);
        out + &error
    }

    /// Runs a command that must succeed; returns its standard output and standard error.
    fn outputs(&self, args: &[&str]) -> (String, String) {
        let output = self.run(args);
        let [out, error] = [output.stdout, output.stderr].map(|of| String::from_utf8(of).unwrap());
        assert!(output.status.success(), "{args:?}: {out}{error}");
        (out, error)
    }

    /// Runs a command that must fail with one line beside its notes; returns the line.
    pub(crate) fn fails(&self, args: &[&str]) -> String {
        let output = self.run(args);
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success(), "{args:?} succeeded");
        assert!(!error.contains("panicked"), "{args:?}: {error}");
        let mut lines = beside_notes(error.trim_end());
        let line = lines.next().unwrap_or_default().to_owned();
        assert_eq!(lines.next(), None, "{args:?}: {error}");
        line
    }

    pub(crate) fn report(&self, name: &str) -> Value {
        read_json(&self.path(name))
    }

    /// The name of the newest checkpoint in `saved`, if there is one.
    pub(crate) fn newest(&self) -> Option<String> {
        let entries = std::fs::read_dir(self.path("saved")).ok()?;
        let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter(|name| name.starts_with("step-")).max()
    }

    /// Writes a small file of examples of the built-in stream.
    pub(crate) fn examples(&self, name: &str, count: u64) -> String {
        let path = self.text(name);
        let count = count.to_string();
        self.ok(&["synth", "--out", &path, "--examples", &count, "--vocab-scale", "0.2"]);
        path
    }
}

/// Lines on standard error other than notes.
fn beside_notes(error: &str) -> impl Iterator<Item = &str> {
    error.lines().filter(|line| !line.starts_with("stepwell: note: "))
}

/// Number of lines on standard error other than notes.
pub(crate) fn lines_beside_notes(error: &str) -> usize {
    beside_notes(error).count()
}

pub(crate) fn read_json(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Settings of a model that trains very fast.
pub(crate) const SMALL: [&str; 10] = [
    "--set",
    "model.kind=deepfm",
    "--set",
    "model.dim=4",
    "--set",
    "model.hidden=16,8",
    "--set",
    "data.mini_batch=64",
    "--set",
    "tiers.index=8MiB",
];

/// Tiers so small that rows are evicted and loaded all the time.
pub(crate) const TINY: [&str; 6] =
    ["--set", "tiers.dram=160KiB", "--set", "tiers.segment=64KiB", "--set", "data.batch=128"];

/// Arguments that train a small model on `data`, with a report.
pub(crate) fn args<'a>(data: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    let mut args = vec!["train", "--report", "report.json"];
    args.extend(data.iter().flat_map(|path| ["--data", *path]));
    args.extend(SMALL);
    args.extend(more);
    args
}

/// Fields of a report that must not depend on how the data was read.
const FIGURES: [&str; 7] = [
    "model_digest",
    "steps",
    "examples",
    "skipped_lines",
    "rows",
    "eval_by_epoch",
    "progressive_by_epoch",
];

/// Asserts that two runs report the same model and data.
pub(crate) fn same(found: &Value, expected: &Value, what: &str) {
    for figure in FIGURES {
        assert_eq!(found[figure], expected[figure], "{what}: {figure}");
    }
}
