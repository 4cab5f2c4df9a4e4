//! Objects that lie elsewhere than on a disk of this machine, behind a trait.
//!
//! **Why.** Whoever reads data asks for bytes of a URL and waits; how they come, over which
//! protocol and with how many tries, is no concern of his, and neither is the library that does it.
//!
//! **Invariant.** What is read of an object is of one version of it: that which [`Objects::about`]
//! described. Anything else is an error.

use std::fmt::Debug;
use std::io::{Error, Read};
use std::ops::Range;

/// What is known of an object before it is read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectAbout {
    /// Its length.
    pub bytes: u64,
    /// What tells this version from others: an entity tag, or the time of the last change as the
    /// server writes it; empty where it says neither.
    pub version: String,
    /// When it was last changed, in nanoseconds since 1970; 0 where nobody says.
    pub modified: i64,
}

/// Where objects lie. Every call waits for its answer; all may come from any thread.
///
/// Errors are one line that says what is wrong and what helps, without the name of the object,
/// which the caller knows.
pub trait Objects: Debug + Send + Sync {
    /// What there is at `url`.
    ///
    /// # Errors
    /// Nothing there (of the kind `NotFound`), nothing that may be read, nobody who answers.
    fn about(&self, url: &str) -> Result<ObjectAbout, Error>;

    /// Names of all objects in the folder `url`, which ends with `/`, and of those in folders below
    /// it where it is to be searched `deep`ly, each from the folder on; in any order.
    ///
    /// # Errors
    /// A folder that is not there, or a server that lists nothing.
    fn list(&self, url: &str, deep: bool) -> Result<Vec<String>, Error>;

    /// The bytes of each of `ranges` of the object at `url`, several of which are asked for at
    /// once.
    ///
    /// # Errors
    /// An object that cannot be read any more or is not as it was `about`.
    fn fetch(
        &self,
        url: &str,
        about: &ObjectAbout,
        ranges: &[Range<u64>],
    ) -> Result<Vec<Vec<u8>>, Error>;

    /// Reads the object at `url` from the byte `start` on, ahead of whoever takes it; reading fails
    /// as [`Objects::fetch`] does.
    fn read(&self, url: &str, about: &ObjectAbout, start: u64) -> Box<dyn Read + Send>;

    /// The most bytes that one such reader holds.
    fn reader_bytes_max(&self) -> u64;
}
