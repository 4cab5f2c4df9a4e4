//! Objects stored elsewhere than on a local disk, behind a trait.
//!
//! **Why.** Readers of data request bytes of a URL and wait; the protocol, the number of tries and
//! the library don't concern them.
//!
//! **Invariant.** All bytes read from an object belong to the version that [`Objects::about`]
//! described. If the object has changed since, reading is an error.

use std::fmt::Debug;
use std::io::{Error, Read};
use std::ops::Range;

/// Metadata of an object, known before it is read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectAbout {
    /// Length in bytes.
    pub bytes: u64,
    /// Identifies this version: an entity tag, or the time of the last change as the server writes
    /// it; empty if the server sends neither.
    pub version: String,
    /// Time of the last change, in nanoseconds since 1970; 0 if unknown.
    pub modified: i64,
}

/// Depth of a listing of a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Objects directly in the folder.
    Folder,
    /// Also objects in all folders below it.
    All,
}

/// A store of objects. Calls block until the answer; all may come from any thread.
///
/// Errors are one line with the problem and the fix, without the name of the object, which the
/// caller knows.
pub trait Objects: Debug + Send + Sync {
    /// Describes the object at `url`.
    ///
    /// # Errors
    /// If there is no object (kind `NotFound`), it may not be read, or the server doesn't answer.
    fn about(&self, url: &str) -> Result<ObjectAbout, Error>;

    /// Names of the objects in the folder `url`, which ends with `/`, to the given depth; relative
    /// to the folder, in any order.
    ///
    /// # Errors
    /// If the folder doesn't exist, or the server lists nothing.
    fn list(&self, url: &str, depth: Depth) -> Result<Vec<String>, Error>;

    /// The bytes of each of `ranges` of the object at `url`; several ranges are requested
    /// concurrently.
    ///
    /// # Errors
    /// If the object cannot be read any more, or doesn't match `about`.
    fn fetch(
        &self,
        url: &str,
        about: &ObjectAbout,
        ranges: &[Range<u64>],
    ) -> Result<Vec<Vec<u8>>, Error>;

    /// Reads the object at `url` from byte `start` on, with readahead; reading fails as
    /// [`Objects::fetch`] does.
    fn read(&self, url: &str, about: &ObjectAbout, start: u64) -> Box<dyn Read + Send>;

    /// Maximum bytes that one such reader holds.
    fn reader_bytes_max(&self) -> u64;
}
