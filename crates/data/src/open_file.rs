//! Opens files on disks, and explains why data can't be read.

use std::fs::{File, FileType};
use std::io::ErrorKind;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use parquet::errors::ParquetError;
use stepwell_base::mend;

use crate::error::DataError;

/// Opens a regular file for reading.
///
/// Returns an error for anything else: a device may never end, and opening a pipe would wait for
/// its writer.
pub(crate) fn open_file(path: &Path) -> Result<File, DataError> {
    let wrong = |why: String| DataError::Path { path: path.to_owned(), why };
    let about = std::fs::metadata(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => {
            DataError::Missing { path: path.to_owned(), why: explain(&error) }
        }
        _ => wrong(explain(&error)),
    })?;
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

/// Reason that data can't be read: a complete message that needs no context.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Unreadable(pub(crate) String);

impl Unreadable {
    /// Wraps a reason in an I/O error.
    pub(crate) fn error(kind: ErrorKind, why: String) -> std::io::Error {
        std::io::Error::new(kind, Self(why))
    }

    /// The message in `error` or in an error that it wraps, if any.
    pub(crate) fn of<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a str> {
        if let Some(error) = error.downcast_ref::<std::io::Error>() {
            return error.get_ref().and_then(|inner| Self::of(inner));
        }
        if let Some(ParquetError::External(inner)) = error.downcast_ref::<ParquetError>() {
            return Self::of(inner.as_ref());
        }
        error.downcast_ref::<Self>().map(|unreadable| unreadable.0.as_str())
    }
}
