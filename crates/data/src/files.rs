//! From paths and patterns to a list of readable files, in a fixed order.
//!
//! All complaints that can be made before the first line is read are made here, so that a run
//! does not find out on its last file.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::{DataError, compression};

/// Files behind `patterns`, in the order given; the matches of one pattern sorted by name.
///
/// A path that exists is taken literally, even where it contains `*`, `?` or `[`.
///
/// # Errors
/// No pattern at all, a pattern without a match, a missing file, a directory, an empty file, a
/// file that cannot be opened or is packed in a way that is not known: [`DataError::Path`], which
/// names it; a packed file that is cut short: [`DataError::Damaged`].
pub fn resolve<P: AsRef<Path>>(patterns: &[P]) -> Result<Vec<PathBuf>, DataError> {
    if patterns.is_empty() {
        return Err(DataError::Options("no data file is given".to_owned()));
    }
    let mut files = Vec::new();
    for pattern in patterns {
        let path = pattern.as_ref();
        if is_pattern(path) && std::fs::symlink_metadata(path).is_err() {
            files.extend(matches(path)?);
        } else {
            files.push(path.to_owned());
        }
    }
    files.iter().try_for_each(|path| check(path))?;
    Ok(files)
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
    found.sort();
    if found.is_empty() {
        return Err(wrong("matches no file".to_owned()));
    }
    Ok(found)
}

fn check(path: &Path) -> Result<(), DataError> {
    let wrong = |why: &str| DataError::Path { path: path.to_owned(), why: why.to_owned() };
    let about = std::fs::metadata(path).map_err(|e| wrong(&explain(&e)))?;
    if about.is_dir() {
        return Err(wrong("is a directory; name the files in it, for example with a pattern"));
    }
    // Opening a pipe would wait for its writer.
    if about.is_file() {
        if about.len() == 0 {
            return Err(wrong("is empty"));
        }
        // Of a packed file, this reads both ends.
        compression::open(path)?;
    }
    Ok(())
}

/// An I/O error in words that name the mend where there is one.
pub(crate) fn explain(error: &std::io::Error) -> String {
    match error.kind() {
        ErrorKind::NotFound => "does not exist".to_owned(),
        ErrorKind::PermissionDenied => "may not be read: permission denied".to_owned(),
        _ => format!("cannot be read: {error}"),
    }
}
