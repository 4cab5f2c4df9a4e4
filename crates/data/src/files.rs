//! Resolves paths and patterns to a list of readable files, in a fixed order.
//!
//! Reports every error that can be found before the first line is read, so that a run doesn't fail
//! at its last file.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{File, FileType};
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use stepwell_base::mend;

use crate::count::has_no_record;
use crate::data_file::{Unreadable, is_url, is_url_pattern, matches as matching_urls};
use crate::layout::Layout;
use crate::{DataError, compression};

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
/// [`DataError::Options`]: no patterns, or an empty one. [`DataError::Path`], which names the path:
/// a pattern without a match, a missing file, not a regular file, only empty files, a file that
/// can't be opened or has an unsupported compression. [`DataError::Damaged`]: a truncated packed
/// file. [`DataError::Read`]: compressed data that is damaged from the start.
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
            return Err(DataError::Path { path: path.to_owned(), why });
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
        return Err(wrong(format!("matches no file{braces}")));
    }
    Ok(found)
}

/// Orders two paths naturally: by directory, runs of digits as numbers, all else by byte. Names
/// that differ only in leading zeros are ordered by their bytes.
pub(crate) fn by_number(one: &OsStr, other: &OsStr) -> Ordering {
    let (one, other) = (one.as_encoded_bytes(), other.as_encoded_bytes());
    let (mut left, mut right) = (one, other);
    loop {
        let digits = |text: &[u8]| text.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (of_left, of_right) = (digits(left), digits(right));
        let order = if of_left > 0 && of_right > 0 {
            let (number, rest) = left.split_at(of_left);
            let (against, rest_right) = right.split_at(of_right);
            (left, right) = (rest, rest_right);
            number_order(number, against)
        } else {
            let (Some((first, rest)), Some((against, rest_right))) =
                (left.split_first(), right.split_first())
            else {
                return left.len().cmp(&right.len()).then_with(|| one.cmp(other));
            };
            (left, right) = (rest, rest_right);
            // The end of a directory name comes before any other byte.
            let rank = |byte: u8| if byte == b'/' { 0 } else { u16::from(byte) + 1 };
            rank(*first).cmp(&rank(*against))
        };
        if order.is_ne() {
            return order;
        }
    }
}

/// Compares two decimal numbers of any length.
fn number_order(one: &[u8], other: &[u8]) -> Ordering {
    let significant = |digits: &'_ [u8]| digits.iter().take_while(|digit| **digit == b'0').count();
    let (one, other) = (&one[significant(one)..], &other[significant(other)..]);
    one.len().cmp(&other.len()).then_with(|| one.cmp(other))
}

/// Opens a regular file for reading.
///
/// Returns an error for anything else: a device may never end, and opening a pipe would wait for
/// its writer.
pub(crate) fn open_file(path: &Path) -> Result<File, DataError> {
    let wrong = |why: String| DataError::Path { path: path.to_owned(), why };
    let about = std::fs::metadata(path).map_err(|e| wrong(explain(&e)))?;
    if !about.is_file() {
        return Err(wrong(no_file(about.file_type()).to_owned()));
    }
    File::open(path).map_err(|e| wrong(explain(&e)))
}

/// Most bytes of a file of settings or figures.
const TEXT_BYTES_MAX: u64 = 16 << 20;

/// Reads a file of settings or figures.
///
/// # Errors
/// [`DataError::Path`]: not a regular file, larger than 16 MiB, or not UTF-8.
pub fn read_text(path: &Path) -> Result<String, DataError> {
    let wrong = |why: String| DataError::Path { path: path.to_owned(), why };
    let about = std::fs::metadata(path).map_err(|e| wrong(explain(&e)))?;
    if about.is_dir() {
        return Err(wrong("is a directory: name a file".to_owned()));
    }
    if !about.is_file() {
        return Err(wrong("is a pipe or a device, not a file: name a file on a disk".to_owned()));
    }
    if about.len() > TEXT_BYTES_MAX {
        return Err(wrong(format!(
            "has {} bytes, but at most {TEXT_BYTES_MAX} are expected: is it the right file?",
            about.len()
        )));
    }
    std::fs::read_to_string(path).map_err(|error| match error.kind() {
        ErrorKind::InvalidData => wrong("is not UTF-8 text: is it the right file?".to_owned()),
        _ => wrong(explain(&error)),
    })
}

/// Describes something that isn't a regular file, and what to do instead.
fn no_file(kind: FileType) -> &'static str {
    if kind.is_dir() {
        "is a directory; name the files in it, for example with a pattern"
    } else if kind.is_fifo() {
        "is a named pipe: send its data to standard input, and name that (-), or write it to a \
         file (gzip and zstd need no unpacking)"
    } else if kind.is_socket() {
        "is a socket: write the data to a file, and name that file"
    } else {
        "is a device, not a file: name a file on a disk"
    }
}

/// Describes an I/O error, with a fix if one is known.
pub(crate) fn explain(error: &std::io::Error) -> String {
    if let Some(words) = Unreadable::of(error) {
        return words.to_owned();
    }
    match error.kind() {
        ErrorKind::NotFound => "does not exist".to_owned(),
        ErrorKind::PermissionDenied => "cannot be read: permission denied".to_owned(),
        _ => format!("cannot be read: {error}{}", mend(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_names_are_compared_as_numbers() {
        let sorted = [
            "a",
            "a/10",
            "a/10/b",
            "a-1/2",
            "d0",
            "d00",
            "d001",
            "d01",
            "d1",
            "d1.csv",
            "d2",
            "d2.9.csv",
            "d2.10.csv",
            "d2x",
            "d09",
            "d10",
            "d99999999999999999999998",
            "d99999999999999999999999",
            "d100000000000000000000000",
            "day",
            "dt=2026-9-30/1",
            "dt=2026-11-02/0",
            "tägliche-9",
            "tägliche-10",
        ];
        let order = |one: &str, other: &str| by_number(OsStr::new(one), OsStr::new(other));
        for (at, one) in sorted.iter().enumerate() {
            for (before, other) in sorted.iter().enumerate() {
                let equal = at.cmp(&before);
                assert_eq!(order(one, other), equal, "{one} and {other}");
            }
        }
    }
}
