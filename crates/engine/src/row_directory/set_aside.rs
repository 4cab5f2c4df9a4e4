//! Entries that were set aside in a named directory: `DIR/set-aside-1` and so on.

use std::fs::{self, DirEntry};
use std::path::Path;

use serde::{Deserialize, Serialize};

/// A directory of rows or checkpoints that were set aside; no run reads it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SetAside {
    /// Path of the directory.
    pub directory: String,
    /// Number of files in the directory and below.
    pub files: u64,
    /// Bytes of these files.
    pub bytes: u64,
}

/// Prefix of the directories' names; a number follows, from 1.
pub(super) const PREFIX: &str = "set-aside-";

/// The set-aside directories in `path`, by number; ignores unreadable entries.
pub(super) fn of(path: &Path) -> Vec<SetAside> {
    let number =
        |entry: &DirEntry| entry.file_name().to_str()?.strip_prefix(PREFIX)?.parse::<u64>().ok();
    let listed = fs::read_dir(path).into_iter().flatten().flatten();
    let is_directory = |entry: &DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    let numbered = listed.filter(is_directory).filter_map(|entry| Some((number(&entry)?, entry)));
    let mut found: Vec<(u64, DirEntry)> = numbered.collect();
    found.sort_by_key(|(number, _)| *number);
    found.iter().map(|(_, entry)| SetAside::count(&entry.path())).collect()
}

impl SetAside {
    /// Counts everything below a directory; links are not followed.
    pub fn count(directory: &Path) -> Self {
        let directory_name = directory.display().to_string();
        let mut found = Self { directory: directory_name, ..Self::default() };
        let mut left = vec![directory.to_owned()];
        while let Some(below) = left.pop() {
            for entry in fs::read_dir(below).into_iter().flatten().flatten() {
                match entry.metadata() {
                    Ok(about) if about.is_dir() => left.push(entry.path()),
                    Ok(about) => {
                        found.files += 1;
                        found.bytes += about.len();
                    }
                    Err(_) => {}
                }
            }
        }
        found
    }
}
