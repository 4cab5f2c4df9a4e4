//! Collects what tests and steps skip because this machine lacks something, for one line at the
//! end.
//!
//! - **How.** Each appends a line to a file: what is missing, a tab, and its own name. Tests use
//!   `stepwell-skip`, which gets the path of the file from [`VARIABLE`].

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::outcome::Outcome;

/// Environment variable with the path of the file.
pub(crate) const VARIABLE: &str = "STEPWELL_SKIPPED";

/// Most names listed per missing thing; if there are more, only their number is given.
const NAMED_MAX: usize = 4;

/// Path of the file.
pub(crate) fn file(root: &Path) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    root.join(target).join("skipped.txt")
}

/// Clears the file.
pub(crate) fn begin(root: &Path) {
    // The file may not exist; if it can't be removed, nothing is lost.
    let _ = fs::remove_file(file(root));
}

/// Reports that a step is skipped, and what is missing.
pub(crate) fn skip(root: &Path, step: &str, lacks: &str) {
    println!("skipped: {lacks}");
    let line = format!("{}\tstep {step}\n", lacks.lines().next().unwrap_or_default());
    let file = File::options().create(true).append(true).open(file(root));
    if let Ok(mut file) = file {
        let _ = file.write_all(line.as_bytes());
    }
}

/// Skips a step that a complete run needs.
///
/// # Errors
/// If `CI` is `true`, where nothing that is required may be skipped.
pub(crate) fn skip_required(root: &Path, step: &str, lacks: &str) -> Outcome {
    if std::env::var_os("CI").is_some_and(|value| value == "true") {
        return Err(format!("{lacks}; with CI=true nothing that is required is skipped"));
    }
    skip(root, step, lacks);
    Ok(())
}

/// How many tests and steps were skipped.
pub(crate) fn count(root: &Path) -> usize {
    let text = fs::read_to_string(file(root)).unwrap_or_default();
    let who = text.lines().filter_map(|line| line.split_once('\t')).map(|(_, who)| who);
    who.collect::<BTreeSet<&str>>().len()
}

/// The line at the end; `None` if nothing was skipped.
pub(crate) fn all(root: &Path) -> Option<String> {
    line(&fs::read_to_string(file(root)).unwrap_or_default())
}

fn line(text: &str) -> Option<String> {
    let mut by_lack: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (lacks, who) in text.lines().filter_map(|line| line.split_once('\t')) {
        let all = by_lack.entry(lacks).or_default();
        if !all.contains(&who) {
            all.push(who);
        }
    }
    let said = by_lack.iter_mut().map(|(lacks, who)| {
        who.sort_unstable();
        let more = who.len().saturating_sub(NAMED_MAX);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!("{} [{lacks}]", who[..who.len().min(NAMED_MAX)].join(", ") + &more)
    });
    let said: Vec<String> = said.collect();
    (!said.is_empty()).then(|| format!("skipped: {}", said.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_names_all_that_was_skipped_and_what_is_lacking() {
        assert_eq!(line(""), None);
        let text = "no zsh\tb\nno data\tstep twin\nno zsh\ta\nno zsh\tb\n";
        assert_eq!(line(text).unwrap(), "skipped: step twin [no data]; a, b [no zsh]");
        let many: String = (0..6).map(|n| format!("no zsh\tt{n}\n")).collect();
        assert_eq!(line(&many).unwrap(), "skipped: t0, t1, t2, t3 and 2 more [no zsh]");
    }
}
