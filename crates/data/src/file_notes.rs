//! Notes on files that have no records, or are read more than once.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use crate::count::has_no_record;
use crate::layout::Layout;

/// Note that names the files without records; `what` is the noun for `files`.
pub fn recordless_note(files: &[PathBuf], layout: Option<&Layout>, what: &str) -> Option<String> {
    let none = files.iter().filter(|path| has_no_record(path, layout));
    let names: Vec<String> = none.map(|path| path.display().to_string()).collect();
    note_recordless(&names, files.len(), what)
}

/// Note that `names`, out of `all` files, have no records yet; `what` is the noun for the files.
pub fn note_recordless(names: &[String], all: usize, what: &str) -> Option<String> {
    const SHOWN: usize = 3;
    let listed = names.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    match names.len() {
        0 => None,
        1 => Some(format!("{listed} has no records yet")),
        n if n > SHOWN => Some(format!(
            "{n} of {all} {what} have no records yet: {listed} and {} more",
            n - SHOWN
        )),
        n => Some(format!("{n} of {all} {what} have no records yet: {listed}")),
    }
}

/// Second and later occurrences of the same file, also if links or patterns lead to it.
pub fn repeated(files: &[PathBuf]) -> Vec<&PathBuf> {
    let mut seen = BTreeSet::new();
    // Opening a missing file fails later. A URL is identified by its text.
    let identity = |path: &PathBuf| match std::fs::metadata(path) {
        Ok(about) => Ok((about.dev(), about.ino())),
        Err(_) => Err(path.clone()),
    };
    files.iter().filter(|path| !seen.insert(identity(path))).collect()
}

/// Note that some of `files` are read more than once; `what` is the noun for them.
pub fn repeated_note(files: &[PathBuf], what: &str) -> Option<String> {
    let again = repeated(files);
    let first = again.first()?.display();
    Some(match again.len() {
        1 => format!("{first} is named more than once among the {what}, and is read each time"),
        n => format!(
            "{n} of {} {what} repeat an earlier one ({first}): they are read again",
            files.len()
        ),
    })
}
