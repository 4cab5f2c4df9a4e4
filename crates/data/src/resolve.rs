//! Resolves paths and patterns to a list of readable files, in a fixed order.
//!
//! Reports every error that can be found before the first line is read, so that a run doesn't fail
//! at its last file.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::compression;
use crate::data_file::{is_url, is_url_pattern, matches as matching_urls};
use crate::error::DataError;
use crate::natural_order::by_number;
use crate::open_file::explain;

/// Files that match `patterns`, in the given order. The matches of a pattern are sorted by name,
/// with numbers compared as numbers: `day_9` before `day_10`.
///
/// An existing path is taken literally, even if it contains `*`, `?` or `[`. A pattern matches
/// hidden files only if its own name starts with a dot. URLs are returned unchanged; `-` is
/// standard input.
///
/// Empty files keep their place in the list, and readers skip them: programs that write data in
/// parts leave some. A text file is empty if it has no bytes after decompression; a packed file, if
/// it has no examples.
///
/// # Errors
/// - [`DataError::Options`]: there is no pattern, or an empty one.
/// - [`DataError::Missing`]: a pattern matches no file, or a file doesn't exist.
/// - [`DataError::Path`]: a path is no regular file or can't be opened, its compression isn't
///   supported, or all files are empty.
/// - [`DataError::Damaged`]: a packed file is truncated.
/// - [`DataError::Read`]: compressed data is damaged from the start.
pub fn resolve<P: AsRef<Path>>(patterns: &[P]) -> Result<Vec<PathBuf>, DataError> {
    if patterns.is_empty() {
        return Err(DataError::Options("no data file is given".to_owned()));
    }
    let mut files = Vec::new();
    for pattern in patterns {
        let path = pattern.as_ref();
        if path.as_os_str().is_empty() {
            return Err(DataError::Options(NO_NAME.to_owned()));
        }
        if is_url(path) {
            match is_url_pattern(path) {
                true => files.extend(matching_urls(path)?),
                false => files.push(path.to_owned()),
            }
        } else if is_pattern(path) && std::fs::symlink_metadata(path).is_err() {
            files.extend(matches(path)?);
        } else if has_braces(path) && !path.exists() {
            let why = format!("does not exist{BRACES}");
            return Err(DataError::Missing { path: path.to_owned(), why });
        } else {
            files.push(path.to_owned());
        }
    }
    let mut empty = true;
    for path in &files {
        empty &= compression::is_empty(path)?;
    }
    match (empty, files.as_slice()) {
        (true, [first, rest @ ..]) => Err(all_empty(first, rest.len())),
        _ => Ok(files),
    }
}

fn all_empty(first: &Path, others: usize) -> DataError {
    let why = match others {
        0 => "is empty".to_owned(),
        1 => "is empty, and so is the other file".to_owned(),
        n => format!("is empty, and so are the {n} other files"),
    };
    DataError::Path { path: first.to_owned(), why }
}

/// Error for an empty file name.
const NO_NAME: &str = "the name of a data file is empty: name a file, or a pattern such as \
                       'day_*.csv'; a shell variable may be unset";

/// Hint for a pattern with braces that matches nothing.
const BRACES: &str = ": braces are not a pattern here: remove the quotes, so that the shell \
                      expands them, or write alternatives of one character as [45]";

/// Whether a name has braces that a shell would expand.
fn has_braces(path: &Path) -> bool {
    let text = path.to_string_lossy();
    let inner = text.split_once('{').and_then(|(_, rest)| rest.split_once('}'));
    inner.is_some_and(|(inner, _)| inner.contains(',') || inner.contains(".."))
}

fn is_pattern(path: &Path) -> bool {
    path.to_string_lossy().contains(['*', '?', '['])
}

fn matches(pattern: &Path) -> Result<Vec<PathBuf>, DataError> {
    let wrong = |why: String| DataError::Path { path: pattern.to_owned(), why };
    let text = pattern.to_str().ok_or_else(|| wrong("a pattern must be UTF-8".to_owned()))?;
    let paths = glob::glob(text).map_err(|e| wrong(format!("is not a pattern: {e}")))?;
    let found: Result<Vec<PathBuf>, _> = paths.collect();
    let mut found = found
        .map_err(|e| DataError::Path { path: e.path().to_owned(), why: explain(e.error()) })?;
    let dot = |name: &OsStr| name.as_encoded_bytes().starts_with(b".");
    let hidden = |path: &Path| path.file_name().is_some_and(dot);
    if !hidden(pattern) {
        found.retain(|path| !hidden(path));
    }
    found.sort_by(|one, other| by_number(one.as_os_str(), other.as_os_str()));
    if found.is_empty() {
        let braces = if has_braces(pattern) { BRACES } else { "" };
        let why = format!("matches no file{braces}");
        return Err(DataError::Missing { path: pattern.to_owned(), why });
    }
    Ok(found)
}
