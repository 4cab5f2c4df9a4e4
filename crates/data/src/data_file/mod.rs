//! What every reader of data opens: a file on a disk, an object behind a URL, or a stream.
//!
//! - **Why.** Data is looked at several times (what it is, whether it is empty, its columns) and
//!   then read. Whether it lies on a disk must not matter to whoever does so.
//! - **How.** The list of data files is a list of paths, and stays one: a URL stands in it as text
//!   (`s3://bucket/key`), and `-` is standard input. [`DataFile::open`] alone tells them apart.
//!   Objects are read through what the program gave to [`read_objects_with`]; of a stream the
//!   beginning is kept, so that it can be looked at and then read (`stream.rs`).
//! - **Invariants.** All that a process reads of an object is of the version that it saw first
//!   (`object.rs`). A stream is read once.
//! - **Failure.** What cannot be read is an error in words of its own ([`Unreadable`]), which
//!   nobody takes for damaged data.

mod object;
mod stream;
mod urls;

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use bytes::Bytes;
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, Length};

use self::object::ObjectFile;
use self::stream::StreamFile;
use crate::DataError;
use crate::files::{explain, open_file};

pub use self::object::read_objects_with;
pub use self::stream::is_stream;
pub(crate) use self::urls::{is_url, is_url_pattern, matches};

/// Data, open for reading from its start.
#[derive(Debug)]
pub(crate) enum DataFile {
    Disk(File),
    Object(Box<ObjectFile>),
    Stream(Box<StreamFile>),
}

/// What tells data from other data, and from itself before it was changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Identity {
    /// Its length.
    pub(crate) bytes: u64,
    /// When it was changed, in nanoseconds since 1970.
    pub(crate) modified: i64,
    /// The version of an object, as its server has it.
    pub(crate) version: String,
}

impl DataFile {
    /// Opens what `path` names.
    pub(crate) fn open(path: &Path) -> Result<Self, DataError> {
        if is_stream(path) {
            return StreamFile::open(path).map(|file| Self::Stream(Box::new(file)));
        }
        if is_url(path) {
            return ObjectFile::open(path).map(|file| Self::Object(Box::new(file)));
        }
        open_file(path).map(Self::Disk)
    }

    /// Whether it can be read once, from its start to its end.
    pub(crate) fn is_stream(&self) -> bool {
        matches!(self, Self::Stream(_))
    }

    /// What it is; of a stream nothing is known.
    pub(crate) fn identity(&self) -> std::io::Result<Identity> {
        Ok(match self {
            Self::Disk(file) => {
                let about = file.metadata()?;
                let modified = about.mtime().wrapping_mul(1_000_000_000);
                let modified = modified.wrapping_add(about.mtime_nsec());
                Identity { bytes: about.len(), modified, version: String::new() }
            }
            Self::Object(file) => file.identity(),
            Self::Stream(_) => Identity::default(),
        })
    }

    /// Bytes that it has; none are known of a stream.
    pub(crate) fn length(&self) -> std::io::Result<u64> {
        self.identity().map(|identity| identity.bytes)
    }

    /// The most bytes that reading it takes beside the caller's buffers.
    pub(crate) fn bytes_max(&self) -> u64 {
        match self {
            Self::Disk(_) => 0,
            Self::Object(file) => file.bytes_max(),
            Self::Stream(_) => stream::HEAD_BYTES as u64,
        }
    }

    /// The same, open a second time; the two must not be read at the same time.
    pub(crate) fn again(&self) -> std::io::Result<Self> {
        Ok(match self {
            Self::Disk(file) => Self::Disk(file.try_clone()?),
            Self::Object(file) => Self::Object(Box::new(file.again())),
            Self::Stream(file) => Self::Stream(Box::new(file.again())),
        })
    }

    /// Brings `ranges` at once, in the place of those before, where that is faster than one after
    /// the other: it holds them until the next call.
    pub(crate) fn will_read(&self, ranges: &[Range<u64>]) -> std::io::Result<()> {
        match self {
            Self::Object(file) => file.hold(ranges),
            Self::Disk(_) | Self::Stream(_) => Ok(()),
        }
    }

    /// Whether [`DataFile::will_read`] takes memory.
    pub(crate) fn holds(&self) -> bool {
        matches!(self, Self::Object(_))
    }
}

impl Read for DataFile {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Self::Disk(file) => file.read(into),
            Self::Object(file) => file.read(into),
            Self::Stream(file) => file.read(into),
        }
    }
}

impl Seek for DataFile {
    fn seek(&mut self, to: SeekFrom) -> std::io::Result<u64> {
        match self {
            Self::Disk(file) => file.seek(to),
            Self::Object(file) => file.seek(to),
            Self::Stream(_) => Err(std::io::ErrorKind::NotSeekable.into()),
        }
    }
}

impl Length for DataFile {
    fn len(&self) -> u64 {
        self.length().unwrap_or(0)
    }
}

impl ChunkReader for DataFile {
    type T = Box<dyn Read>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        if let Self::Disk(file) = self {
            return Ok(Box::new(file.get_read(start)?));
        }
        let mut file = self.again()?;
        file.seek(SeekFrom::Start(start))?;
        Ok(Box::new(file))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        match self {
            Self::Disk(file) => file.get_bytes(start, length),
            Self::Object(file) => Ok(file.exactly(start, length)?),
            Self::Stream(_) => Err(ParquetError::General("a stream has no end".to_owned())),
        }
    }
}

/// Bytes that `path` has; of a stream nobody knows, and 0 is said.
///
/// # Errors
/// [`DataError::Path`]: data that cannot be opened.
pub fn length_of(path: &Path) -> Result<u64, DataError> {
    let wrong = |error| DataError::Path { path: path.to_owned(), why: explain(&error) };
    if is_stream(path) { Ok(0) } else { DataFile::open(path)?.length().map_err(wrong) }
}

/// Why data cannot be read: words that are complete, whatever was being done with the data.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Unreadable(pub(crate) String);

impl Unreadable {
    /// The error of reading that says so.
    pub(crate) fn error(kind: std::io::ErrorKind, why: String) -> std::io::Error {
        std::io::Error::new(kind, Self(why))
    }

    /// Those words, where `error` or what it is made of has some.
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
