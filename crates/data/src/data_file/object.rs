//! Objects behind URLs: pins the version to read, and caches parts.
//!
//! The first length and version that a process sees of an object is what all its later reads ask
//! for: a change in between is an error. Both ends of an object are cached, as most reads before
//! training are there.

use std::collections::BTreeMap;
use std::io::{Error, ErrorKind, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use bytes::Bytes;
use stepwell_base::objects::{ObjectAbout, Objects};

use super::identity::Identity;
use crate::error::DataError;
use crate::open_file::{Unreadable, explain};

/// Bytes cached from each end of an object.
const END_BYTES: u64 = 64 << 10;
/// Most objects with cached ends.
const KEPT_MAX: usize = 256;
/// Gaps up to this many bytes are read and dropped, instead of starting a new request.
const SKIPPED_BYTES: u64 = 1 << 20;

/// Position of a missing reader: no object has this many bytes.
const NOWHERE: u64 = u64::MAX;

/// Client for objects, one per process, like the file system.
static OBJECTS: OnceLock<Arc<dyn Objects>> = OnceLock::new();

/// First seen version of each object.
static SEEN: Mutex<BTreeMap<String, Arc<Object>>> = Mutex::new(BTreeMap::new());

/// Enables URLs as data, read through `objects`. Only the first call has an effect.
pub fn read_objects_with(objects: Arc<dyn Objects>) {
    let _ = OBJECTS.set(objects);
}

/// The client for objects, if one is set.
pub(super) fn objects() -> Result<&'static dyn Objects, Error> {
    let none = "this build reads no URLs: build with --features remote";
    let none = || Unreadable::error(ErrorKind::Unsupported, none.to_owned());
    OBJECTS.get().map(|objects| &**objects).ok_or_else(none)
}

/// An object's error as an [`Unreadable`] one.
pub(super) fn unreadable(error: &Error) -> Error {
    Unreadable::error(error.kind(), error.to_string())
}

/// One version of an object.
#[derive(Debug)]
struct Object {
    url: String,
    about: ObjectAbout,
    /// First and last bytes, once read.
    ends: [OnceLock<Bytes>; 2],
    /// Whether to cache the ends.
    keeps: bool,
}

impl Object {
    /// The object at `url`, in the version seen first.
    fn seen(url: &str) -> Result<Arc<Self>, Error> {
        let known = || SEEN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(object) = known().get(url) {
            return Ok(Arc::clone(object));
        }
        let about = objects()?.about(url).map_err(|error| unreadable(&error))?;
        let mut known = known();
        let keeps = known.len() < KEPT_MAX;
        let ends = [OnceLock::new(), OnceLock::new()];
        let object = Self { url: url.to_owned(), about, ends, keeps };
        // Another thread may have been faster.
        Ok(Arc::clone(known.entry(url.to_owned()).or_insert_with(|| Arc::new(object))))
    }

    /// Start of the cached last bytes.
    fn end(&self) -> u64 {
        self.about.bytes.saturating_sub(END_BYTES)
    }

    fn fetch(&self, ranges: &[Range<u64>]) -> Result<Vec<Vec<u8>>, Error> {
        objects()?.fetch(&self.url, &self.about, ranges).map_err(|error| unreadable(&error))
    }

    /// Start and bytes of one end of the object.
    fn kept(&self, end: usize) -> Result<(u64, Bytes), Error> {
        let start = if end == 0 { 0 } else { self.end() };
        if let Some(bytes) = self.ends[end].get() {
            return Ok((start, bytes.clone()));
        }
        let range = start..(start + END_BYTES).min(self.about.bytes);
        let bytes = Bytes::from(self.fetch(&[range])?.pop().unwrap_or_default());
        if self.keeps {
            let _ = self.ends[end].set(bytes.clone());
        }
        Ok((start, bytes))
    }
}

/// An open object.
pub(crate) struct ObjectFile {
    object: Arc<Object>,
    at: u64,
    /// Reader of the following bytes. // only accessed through `&mut`, so the lock never blocks
    reader: Mutex<Option<Box<dyn Read + Send>>>,
    /// Position of the reader, if there is one.
    place: u64,
    /// Prefetched ranges with their starts, common to all handles of a file.
    held: Arc<RwLock<Vec<(u64, Bytes)>>>,
}

impl std::fmt::Debug for ObjectFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { object, at, .. } = self;
        f.debug_struct("ObjectFile").field("object", object).field("at", at).finish_non_exhaustive()
    }
}

impl ObjectFile {
    pub(super) fn open(path: &Path) -> Result<Self, DataError> {
        let wrong = |error: Error| DataError::Path { path: path.to_owned(), why: explain(&error) };
        let url = path.to_str().ok_or_else(|| wrong(ErrorKind::InvalidInput.into()))?;
        let object = Object::seen(url).map_err(wrong)?;
        Ok(Self { object, at: 0, reader: Mutex::default(), place: NOWHERE, held: Arc::default() })
    }

    pub(super) fn again(&self) -> Self {
        let (object, held) = (Arc::clone(&self.object), Arc::clone(&self.held));
        Self { object, at: 0, reader: Mutex::default(), place: NOWHERE, held }
    }

    pub(super) fn identity(&self) -> Identity {
        let ObjectAbout { bytes, version, modified } = self.object.about.clone();
        Identity { bytes, modified, version }
    }

    /// A reader's read-ahead, and the cached ends of all objects.
    pub(super) fn bytes_max(&self) -> u64 {
        let reader = objects().map_or(0, Objects::reader_bytes_max);
        reader + 2 * END_BYTES * KEPT_MAX as u64
    }

    pub(super) fn hold(&self, ranges: &[Range<u64>]) -> Result<(), Error> {
        let mut held = self.held.write().unwrap_or_else(PoisonError::into_inner);
        held.clear();
        let brought = self.object.fetch(ranges)?;
        let starts = ranges.iter().map(|range| range.start);
        held.extend(starts.zip(brought.into_iter().map(Bytes::from)));
        Ok(())
    }

    /// Exactly `length` bytes from `start`.
    pub(super) fn exactly(&self, start: u64, length: usize) -> Result<Bytes, Error> {
        let end = start.saturating_add(length as u64);
        if end > self.object.about.bytes {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        if let Some(bytes) = self.at_hand(start)?.filter(|bytes| bytes.len() >= length) {
            return Ok(bytes.slice(..length));
        }
        let range = start..end;
        Ok(Bytes::from(self.object.fetch(&[range])?.pop().unwrap_or_default()))
    }

    /// Bytes from `at` that are cached or that belong to an end, which is fetched and cached.
    /// `None` for other bytes.
    fn at_hand(&self, at: u64) -> Result<Option<Bytes>, Error> {
        let within = |(start, bytes): &(u64, Bytes)| {
            let from = at.checked_sub(*start).filter(|from| *from < bytes.len() as u64)?;
            Some(bytes.slice(from as usize..))
        };
        let held = self.held.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(bytes) = held.iter().find_map(within) {
            return Ok(Some(bytes));
        }
        // A sequential reader that reaches the end is already receiving these bytes.
        let comes = self.place == at;
        match at {
            _ if comes => Ok(None),
            _ if at < END_BYTES => Ok(within(&self.object.kept(0)?)),
            _ if at >= self.object.end() => Ok(within(&self.object.kept(1)?)),
            _ => Ok(None),
        }
    }

    /// A reader at the position of this file.
    fn reader(&mut self) -> Result<&mut Box<dyn Read + Send>, Error> {
        let (object, at) = (&self.object, self.at);
        let reader = self.reader.get_mut().unwrap_or_else(PoisonError::into_inner);
        let skipped = at.checked_sub(self.place).filter(|bytes| *bytes <= SKIPPED_BYTES);
        self.place = at;
        if let (Some(reader), Some(skipped)) = (reader.as_mut(), skipped) {
            std::io::copy(&mut reader.take(skipped), &mut std::io::sink())?;
        } else {
            *reader = None;
        }
        Ok(match reader {
            Some(reader) => reader,
            none => none.insert(objects()?.read(&object.url, &object.about, at)),
        })
    }
}

impl Read for ObjectFile {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        if self.at >= self.object.about.bytes || into.is_empty() {
            return Ok(0);
        }
        if let Some(bytes) = self.at_hand(self.at)? {
            let read = (&bytes[..]).read(into)?;
            self.at += read as u64;
            return Ok(read);
        }
        let read = self.reader()?.read(into).map_err(|error| unreadable(&error))?;
        self.at += read as u64;
        self.place = self.at;
        Ok(read)
    }
}

impl Seek for ObjectFile {
    fn seek(&mut self, to: SeekFrom) -> std::io::Result<u64> {
        let (from, by) = match to {
            SeekFrom::Start(at) => (at, 0),
            SeekFrom::End(by) => (self.object.about.bytes, by),
            SeekFrom::Current(by) => (self.at, by),
        };
        let at = from.checked_add_signed(by);
        self.at = at.ok_or_else(|| Error::from(ErrorKind::InvalidInput))?;
        Ok(self.at)
    }
}
