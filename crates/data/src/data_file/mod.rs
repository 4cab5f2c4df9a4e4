//! Input data of any kind: a file on disk, an object behind a URL, or a stream.
//!
//! - **Why.** Data is examined several times (its format, its columns, whether it is empty) and
//!   then read. Callers shouldn't depend on where it is stored.
//! - **How.** Data files are always a list of paths: a URL is stored in a path as text
//!   (`s3://bucket/key`), and `-` is standard input. Only [`DataFile::open`] distinguishes them.
//!   Objects are read through the argument of [`read_objects_with`]. The start of a stream is kept,
//!   so that it can be examined and then read (`stream.rs`).
//! - **Invariants.** A process reads only one version of an object: the first one it saw
//!   (`object.rs`). A stream is read once.
//! - **Failure.** Unreadable data has an error with its own message (`Unreadable`), so it isn't
//!   mistaken for damaged data.

mod identity;
mod object;
mod stream;
mod urls;

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::{FileExt as _, MetadataExt};
use std::path::Path;

use bytes::Bytes;
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, Length};

use self::identity::Identity;
use self::object::ObjectFile;
use self::stream::StreamFile;
use crate::error::DataError;
use crate::open_file::{explain, open_file};

pub use self::object::read_objects_with;
pub use self::stream::is_stream;
pub use self::urls::is_url;
pub(crate) use self::urls::{is_url_pattern, matches};

/// Data, opened at its start.
#[derive(Debug)]
pub(crate) enum DataFile {
    Disk(File),
    Object(Box<ObjectFile>),
    Stream(Box<StreamFile>),
}

impl DataFile {
    /// Opens `path`.
    pub(crate) fn open(path: &Path) -> Result<Self, DataError> {
        if is_stream(path) {
            return StreamFile::open(path).map(|file| Self::Stream(Box::new(file)));
        }
        if is_url(path) {
            return ObjectFile::open(path).map(|file| Self::Object(Box::new(file)));
        }
        open_file(path).map(Self::Disk)
    }

    /// Whether the data can only be read once, from start to end.
    pub(crate) fn is_stream(&self) -> bool {
        matches!(self, Self::Stream(_))
    }

    /// Identity of the data; the default for a stream.
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

    /// Length in bytes; 0 for a stream, whose length is unknown.
    pub(crate) fn length(&self) -> std::io::Result<u64> {
        self.identity().map(|identity| identity.bytes)
    }

    /// Most bytes that reading takes, in addition to the caller's buffers.
    pub(crate) fn bytes_max(&self) -> u64 {
        match self {
            Self::Disk(_) => 0,
            Self::Object(file) => file.bytes_max(),
            Self::Stream(_) => stream::HEAD_BYTES as u64,
        }
    }

    /// Appends up to `bytes` bytes at `offset` to `into`, and returns their number. Doesn't use the
    /// file's position, which handles of one file share, so several may read at the same time.
    pub(crate) fn read_at(
        &mut self,
        offset: u64,
        bytes: u64,
        into: &mut Vec<u8>,
    ) -> std::io::Result<usize> {
        if let Self::Disk(file) = self {
            return Positioned { file, at: offset }.take(bytes).read_to_end(into);
        }
        self.seek(SeekFrom::Start(offset))?;
        self.take(bytes).read_to_end(into)
    }

    /// A second handle of the same data. The two must not be read at the same time, except with
    /// [`DataFile::read_at`] on disk.
    pub(crate) fn again(&self) -> std::io::Result<Self> {
        Ok(match self {
            Self::Disk(file) => Self::Disk(file.try_clone()?),
            Self::Object(file) => Self::Object(Box::new(file.again())),
            Self::Stream(file) => Self::Stream(Box::new(file.again())),
        })
    }

    /// Prefetches `ranges`, if that is faster than reading them one by one, and keeps them until
    /// the next call.
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

/// A file on disk, read from a position of its own.
struct Positioned<'a> {
    file: &'a File,
    at: u64,
}

impl Read for Positioned<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let read = self.file.read_at(into, self.at)?;
        self.at += read as u64;
        Ok(read)
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

/// Length of the data at `path`; 0 for a stream, whose length is unknown.
///
/// # Errors
/// [`DataError::Path`]: data that can't be opened.
pub fn length_of(path: &Path) -> Result<u64, DataError> {
    let wrong = |error| DataError::Path { path: path.to_owned(), why: explain(&error) };
    if is_stream(path) { Ok(0) } else { DataFile::open(path)?.length().map_err(wrong) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_of_a_file_are_read_at_the_same_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data");
        let bytes: Vec<u8> = (0..1u32 << 16).flat_map(u32::to_le_bytes).collect();
        std::fs::write(&path, &bytes).unwrap();
        let file = DataFile::open(&path).unwrap();
        std::thread::scope(|scope| {
            for number in 0..4usize {
                let (mut again, bytes) = (file.again().unwrap(), &bytes);
                scope.spawn(move || {
                    for turn in 0..500 {
                        let at = (turn * 7919 + number * 65_537) % bytes.len();
                        let end = (at + 3000).min(bytes.len());
                        let mut read = Vec::new();
                        let count = again.read_at(at as u64, 3000, &mut read).unwrap();
                        assert!(count == end - at && read == bytes[at..end], "{number}, {turn}");
                    }
                });
            }
        });
    }
}
