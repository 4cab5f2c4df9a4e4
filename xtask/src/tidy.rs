//! Checks the form of the sources: sizes, widths, forbidden words, the heads of crates.
//!
//! - **How.** Files over [`FILE_LINES_MAX`] lines, wide lines and forbidden words fail immediately.
//!   Files over [`FILE_LINES_GOAL`] lines and functions over [`FUNCTION_LINES_GOAL`] lines are
//!   counted against `xtask/tidy.toml`: a ratchet, whose numbers may only decrease.

use std::path::Path;
use std::process::Command;

use crate::{Outcome, run, source};

const FILE_LINES_MAX: usize = 800;
const FILE_LINES_GOAL: usize = 400;
const FUNCTION_LINES_GOAL: usize = 70;
const COLUMNS_MAX: usize = 100;

/// Words that must not occur outside comments and literals.
const FORBIDDEN: [&str; 4] = ["todo!", "unimplemented!", "dbg!", "#[ignore"];

/// Crates with modules of unsafe code; all others forbid it.
const MAY_BE_UNSAFE: [&str; 6] = [
    "crates/base/",
    "crates/device/",
    "crates/disk/",
    "crates/fabric/",
    "crates/kernels/",
    "crates/nn/",
];

const RATCHET: &str = "xtask/tidy.toml";

/// Results of reading the sources.
#[derive(Default)]
struct Findings {
    faults: Vec<String>,
    long_files: Vec<String>,
    long_functions: Vec<String>,
}

/// Checks every Rust source that git tracks or would track.
pub(crate) fn check(root: &Path) -> Outcome {
    let mut findings = Findings::default();
    let paths = sources(root)?;
    for path in &paths {
        let text = read(root, path)?;
        examine(path, &text, &mut findings);
    }
    let ratchet = read(root, RATCHET)?;
    hold(&ratchet, "files_over_400_lines", &findings.long_files, &mut findings.faults)?;
    hold(&ratchet, "functions_over_70_lines", &findings.long_functions, &mut findings.faults)?;
    println!("  {} files read", paths.len());
    for fault in &findings.faults {
        println!("  {fault}");
    }
    match findings.faults.len() {
        0 => Ok(()),
        n => Err(format!("{n} faults in the sources")),
    }
}

fn read(root: &Path, path: &str) -> Result<String, String> {
    std::fs::read_to_string(root.join(path)).map_err(|error| format!("cannot read {path}: {error}"))
}

/// Paths of the sources, sorted; deleted but uncommitted files are omitted.
fn sources(root: &Path) -> Result<Vec<String>, String> {
    let arguments = ["ls-files", "--cached", "--others", "--exclude-standard", "--", "*.rs"];
    let listing = run::output(Command::new("git").current_dir(root).args(arguments))?;
    let listing = String::from_utf8_lossy(&listing);
    let paths = listing.lines().filter(|path| root.join(path).exists());
    let mut paths: Vec<String> = paths.map(String::from).collect();
    paths.sort();
    paths.dedup();
    Ok(paths)
}

/// Adds the faults of one file to `findings`.
fn examine(path: &str, text: &str, findings: &mut Findings) {
    let line_count = text.lines().count();
    if line_count > FILE_LINES_MAX {
        findings.faults.push(format!("{path}: {line_count} lines, {FILE_LINES_MAX} at most"));
    }
    if line_count > FILE_LINES_GOAL {
        findings.long_files.push(format!("{path}: {line_count} lines"));
    }
    findings.faults.extend(wide_lines(path, text));
    let code = source::code(text);
    for (index, line) in code.lines().enumerate() {
        for word in FORBIDDEN.iter().filter(|word| source::has_word(line, word)) {
            findings.faults.push(format!("{path}:{}: `{word}` may not stay", index + 1));
        }
    }
    for function in source::functions(&code) {
        if function.line_count > FUNCTION_LINES_GOAL {
            let source::Function { name, line, line_count } = function;
            findings.long_functions.push(format!("{path}:{line}: fn {name}, {line_count} lines"));
        }
    }
    findings.faults.extend(head_faults(path, text, &code));
}

fn wide_lines(path: &str, text: &str) -> Vec<String> {
    let widths = text.lines().map(|line| line.chars().count()).enumerate();
    let wide = widths.filter(|(_, width)| *width > COLUMNS_MAX);
    let fault =
        |(index, width)| format!("{path}:{}: {width} columns, {COLUMNS_MAX} at most", index + 1);
    wide.map(fault).collect()
}

/// What is wrong with the head of a crate; empty for files that aren't a crate's root.
fn head_faults(path: &str, text: &str, code: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if !path.ends_with("src/lib.rs") && !path.ends_with("src/main.rs") {
        return faults;
    }
    if !text.starts_with("//!") {
        faults.push(format!("{path}: must begin with the crate's documentation (//!)"));
    }
    let forbids = code.contains("#![forbid(unsafe_code)]");
    if MAY_BE_UNSAFE.iter().any(|folder| path.starts_with(folder)) {
        if !forbids && !code.contains("#![deny(unsafe_code)]") {
            faults.push(format!("{path}: must hold #![deny(unsafe_code)]"));
        }
    } else if !forbids {
        faults.push(format!("{path}: must hold #![forbid(unsafe_code)]"));
    }
    faults
}

/// Compares a count with the ratchet: above it is a fault, below it a reason to lower it.
fn hold(ratchet: &str, name: &str, found: &[String], faults: &mut Vec<String>) -> Outcome {
    let allowed = allowance(ratchet, name)?;
    if found.len() > allowed {
        faults.extend(found.iter().cloned());
        faults.push(format!("{name}: {} found, {allowed} allowed by {RATCHET}", found.len()));
    } else if found.len() < allowed {
        println!("  {name}: only {n} left; set `{name} = {n}` in {RATCHET}", n = found.len());
    }
    Ok(())
}

/// The number after `name =` in the ratchet's text.
fn allowance(ratchet: &str, name: &str) -> Result<usize, String> {
    let pairs = ratchet.lines().filter_map(|line| line.split_once('='));
    let mut values = pairs.filter(|(key, _)| key.trim() == name).map(|(_, value)| value.trim());
    let value = values.next().ok_or_else(|| format!("{RATCHET} has no line `{name} = ...`"))?;
    value.parse().map_err(|_| format!("{RATCHET}: {name} is `{value}`, not a count"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Findings {
        let mut findings = Findings::default();
        examine(path, text, &mut findings);
        findings
    }

    #[test]
    fn sizes_are_counted_and_bounded() {
        let findings = found("a.rs", &"x();\n".repeat(401));
        assert!(findings.faults.is_empty());
        assert_eq!(findings.long_files, ["a.rs: 401 lines"]);
        assert_eq!(found("a.rs", &"x();\n".repeat(801)).faults, ["a.rs: 801 lines, 800 at most"]);
        let long = format!("\nfn f() {{\n{}}}\n", "    x();\n".repeat(69));
        assert_eq!(found("a.rs", &long).long_functions, ["a.rs:2: fn f, 71 lines"]);
        let just = format!("\nfn f() {{\n{}}}\n", "    x();\n".repeat(68));
        assert!(found("a.rs", &just).long_functions.is_empty());
    }

    #[test]
    fn width_is_in_characters() {
        assert!(found("a.rs", &format!("// {}\n", "é".repeat(97))).faults.is_empty());
        let wide = found("a.rs", &format!("\n// {}\n", "é".repeat(98)));
        assert_eq!(wide.faults, ["a.rs:2: 101 columns, 100 at most"]);
    }

    #[test]
    fn forbidden_words_count_in_code_alone() {
        let text = "// todo!\nfn f() { todo!() }\n#[ignore]\nfn g() { h(\"dbg!\") }\n";
        let faults = found("a.rs", text).faults;
        assert_eq!(faults, ["a.rs:2: `todo!` may not stay", "a.rs:3: `#[ignore` may not stay"]);
    }

    #[test]
    fn a_crate_has_documentation_and_no_unsafe_code() {
        let good = "//! A crate.\n#![forbid(unsafe_code)]\n";
        assert!(found("crates/mem/src/lib.rs", good).faults.is_empty());
        assert_eq!(found("crates/mem/src/lib.rs", "mod a;\n").faults.len(), 2);
        assert!(found("crates/mem/src/a.rs", "mod a;\n").faults.is_empty());
        let denies = "//! A crate.\n#![deny(unsafe_code)]\n";
        assert!(found("crates/base/src/lib.rs", denies).faults.is_empty());
        assert_eq!(found("crates/mem/src/lib.rs", denies).faults.len(), 1);
        assert_eq!(found("crates/disk/src/lib.rs", "//! A crate.\n").faults.len(), 1);
    }

    #[test]
    fn the_ratchet_turns_one_way() {
        let ratchet = "# Counts.\nfiles = 2\nfunctions = two\n";
        let hold = |name: &str, n: usize| {
            let mut faults = Vec::new();
            hold(ratchet, name, &vec!["a.rs: long".into(); n], &mut faults).map(|()| faults.len())
        };
        assert_eq!(hold("files", 1), Ok(0));
        assert_eq!(hold("files", 2), Ok(0));
        assert_eq!(hold("files", 3), Ok(4));
        assert!(hold("functions", 0).unwrap_err().contains("`two`, not a count"));
        assert!(hold("lines", 0).unwrap_err().contains("no line `lines"));
    }
}
