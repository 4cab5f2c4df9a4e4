//! Test programs that hung, and what their threads waited for, printed after all other output.
//!
//! A program that hangs once and passes when it's run again doesn't fail the run, but must not be
//! overlooked: a hang is a defect.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::skipped;

/// File that collects the programs that hung.
fn file(root: &Path) -> PathBuf {
    skipped::file(root).with_file_name("hung.txt")
}

/// Clears the file.
pub(crate) fn begin(root: &Path) {
    // The file may not exist.
    let _ = fs::remove_file(file(root));
}

/// Adds a program, and what its threads waited for.
pub(crate) fn add(root: &Path, program: &str, why: &str) {
    let text = format!("HUNG: {program}\n{why}\n");
    let file = File::options().create(true).append(true).open(file(root));
    if file.and_then(|mut file| file.write_all(text.as_bytes())).is_err() {
        println!("{text}");
    }
}

/// All entries; `None` if nothing hung.
pub(crate) fn all(root: &Path) -> Option<String> {
    fs::read_to_string(file(root)).ok()
}
