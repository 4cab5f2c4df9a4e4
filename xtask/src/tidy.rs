//! Checks what neither rustfmt nor clippy does: sizes of files, widths of lines, heads of crates,
//! names of invariants, and where modules with submodules are.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use crate::command::output;
use crate::invariants;
use crate::outcome::Outcome;

const FILE_LINES_MAX: usize = 600;
const COLUMNS_MAX: usize = 100;

/// Crates with modules of unsafe code; all others forbid it.
const MAY_BE_UNSAFE: [&str; 7] = [
    "crates/base/",
    "crates/device/",
    "crates/disk/",
    "crates/fabric/",
    "crates/kernels/",
    "crates/nn/",
    "crates/python/",
];

/// Checks every Rust source that git tracks or would track.
pub(crate) fn check(root: &Path) -> Outcome {
    let mut sources = Vec::new();
    for path in paths(root)? {
        let text = std::fs::read_to_string(root.join(&path));
        let text = text.map_err(|error| format!("cannot read {path}: {error}"))?;
        sources.push((path, text));
    }
    let mut faults = invariants::faults(&sources);
    faults.extend(sources.iter().flat_map(|(path, text)| faults_of(path, text)));
    faults.extend(misplaced_modules(sources.iter().map(|(path, _)| &**path)));
    println!("  {} files read", sources.len());
    for fault in &faults {
        println!("  {fault}");
    }
    match faults.len() {
        0 => Ok(()),
        n => Err(format!("{n} faults in the sources")),
    }
}

/// Paths of the sources, sorted; deleted but uncommitted files are omitted.
fn paths(root: &Path) -> Result<Vec<String>, String> {
    let arguments = ["ls-files", "--cached", "--others", "--exclude-standard", "--", "*.rs"];
    let listing = output(Command::new("git").current_dir(root).args(arguments))?;
    let listing = String::from_utf8_lossy(&listing);
    let paths = listing.lines().filter(|path| root.join(path).exists());
    let mut paths: Vec<String> = paths.map(String::from).collect();
    paths.sort();
    paths.dedup();
    Ok(paths)
}

/// The faults of one file.
fn faults_of(path: &str, text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let line_count = text.lines().count();
    if line_count > FILE_LINES_MAX {
        faults.push(format!("{path}: {line_count} lines, {FILE_LINES_MAX} at most"));
    }
    faults.extend(wide_lines(path, text));
    faults.extend(head_faults(path, text));
    faults
}

/// Modules that are beside the folder of their submodules, not in it. Roots of targets are exempt.
fn misplaced_modules<'a>(paths: impl Iterator<Item = &'a str> + Clone) -> Vec<String> {
    let is_root = |path: &str| path.ends_with("/build.rs") || path.ends_with("/tests/mpi.rs");
    let folders: BTreeSet<&Path> =
        paths.clone().flat_map(|path| Path::new(path).ancestors().skip(1)).collect();
    let modules = paths.filter_map(|path| Some((path, path.strip_suffix(".rs")?)));
    let misplaced =
        modules.filter(|(path, folder)| !is_root(path) && folders.contains(Path::new(folder)));
    let fault = |(path, folder)| format!("{path}: a module with submodules is {folder}/mod.rs");
    misplaced.map(fault).collect()
}

fn wide_lines(path: &str, text: &str) -> Vec<String> {
    let widths = text.lines().map(|line| line.chars().count()).enumerate();
    let wide = widths.filter(|(_, width)| *width > COLUMNS_MAX);
    let fault =
        |(index, width)| format!("{path}:{}: {width} columns, {COLUMNS_MAX} at most", index + 1);
    wide.map(fault).collect()
}

/// Faults of the head of a crate; empty for files that aren't a crate's root.
fn head_faults(path: &str, text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if !path.ends_with("src/lib.rs") && !path.ends_with("src/main.rs") {
        return faults;
    }
    if !text.starts_with("//!") {
        faults.push(format!("{path}: must begin with the crate's documentation (//!)"));
    }
    let has_line = |wanted| text.lines().any(|line| line == wanted);
    let forbids = has_line("#![forbid(unsafe_code)]");
    if MAY_BE_UNSAFE.iter().any(|folder| path.starts_with(folder)) {
        if !forbids && !has_line("#![deny(unsafe_code)]") {
            faults.push(format!("{path}: must hold #![deny(unsafe_code)]"));
        }
    } else if !forbids {
        faults.push(format!("{path}: must hold #![forbid(unsafe_code)]"));
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_bounded() {
        assert!(faults_of("a.rs", &"x();\n".repeat(600)).is_empty());
        let long = faults_of("a.rs", &"x();\n".repeat(601));
        assert_eq!(long, ["a.rs: 601 lines, 600 at most"]);
    }

    #[test]
    fn a_module_is_in_the_folder_of_its_submodules() {
        let paths = ["a/b.rs", "a/b/c.rs", "a/d/mod.rs", "a/d/e.rs", "k/build.rs", "k/build/f.rs"];
        let faults = misplaced_modules(paths.into_iter());
        assert_eq!(faults, ["a/b.rs: a module with submodules is a/b/mod.rs"]);
    }

    #[test]
    fn width_is_in_characters() {
        assert!(faults_of("a.rs", &format!("// {}\n", "é".repeat(97))).is_empty());
        let wide = faults_of("a.rs", &format!("\n// {}\n", "é".repeat(98)));
        assert_eq!(wide, ["a.rs:2: 101 columns, 100 at most"]);
    }

    #[test]
    fn a_crate_has_documentation_and_no_unsafe_code() {
        let good = "//! A crate.\n#![forbid(unsafe_code)]\n";
        assert!(faults_of("crates/mem/src/lib.rs", good).is_empty());
        assert_eq!(faults_of("crates/mem/src/lib.rs", "mod a;\n").len(), 2);
        assert!(faults_of("crates/mem/src/a.rs", "mod a;\n").is_empty());
        let denies = "//! A crate.\n#![deny(unsafe_code)]\n";
        assert!(faults_of("crates/base/src/lib.rs", denies).is_empty());
        assert_eq!(faults_of("crates/mem/src/lib.rs", denies).len(), 1);
        assert_eq!(faults_of("crates/disk/src/lib.rs", "//! A crate.\n").len(), 1);
    }
}
