//! An open file.

use std::fmt;
use std::path::Path;

use crate::Result;
#[cfg(doc)]
use crate::buffer::BLOCK_BYTES;
use crate::descriptor::{Access, Descriptor};

/// How a file was made or opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mode {
    pub(crate) writable: bool,
    pub(crate) direct: bool,
}

impl Mode {
    /// A new file.
    pub(crate) const NEW: Self = Self { writable: true, direct: false };
    /// A new direct file.
    pub(crate) const NEW_DIRECT: Self = Self { writable: true, direct: true };
    /// A file to read.
    pub(crate) const READ: Self = Self { writable: false, direct: false };
    /// A direct file to read.
    pub(crate) const READ_DIRECT: Self = Self { writable: false, direct: true };
}

/// An open file.
#[expect(clippy::len_without_is_empty, reason = "a length is asked of the system")]
pub trait File: Send + Sync + fmt::Debug {
    /// Path with which it was made or opened, used in messages.
    fn path(&self) -> &Path;

    /// Length of the file.
    ///
    /// # Errors
    /// If the system cannot tell.
    fn len(&self) -> Result<u64>;

    /// Writes all of `bytes` at `offset`; the file grows if needed.
    ///
    /// # Errors
    /// If the system refuses; a part may have been written then.
    ///
    /// # Panics
    /// If the file is direct and offset or length is not a multiple of [`BLOCK_BYTES`].
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()>;

    /// Fills all of `buffer` with the bytes from `offset` on.
    ///
    /// # Errors
    /// If the file ends too early (`UnexpectedEof`), or the system refuses.
    ///
    /// # Panics
    /// If the file is direct and offset or length is not a multiple of [`BLOCK_BYTES`].
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()>;

    /// Sets the file's length: removes bytes beyond it, fills new ones with zeros.
    ///
    /// # Errors
    /// If the system refuses, or the file was opened for reading.
    fn truncate(&self, bytes: u64) -> Result<()>;

    /// Makes everything written so far, and the length, durable.
    ///
    /// # Errors
    /// If the system fails; any write since the last sync may then be lost.
    fn sync(&self) -> Result<()>;

    /// Whether the file is direct.
    fn is_direct(&self) -> bool;

    /// Whether engines may use the system's descriptor. If not, as for a wrapper that must see
    /// every operation, they use `read_at` and `write_at`.
    fn has_descriptor(&self) -> bool {
        false
    }

    /// The system's descriptor, which stays open while it is held; `None` if there is none, or so
    /// many files are in use that this one should be opened later.
    ///
    /// # Errors
    /// If it had to be reopened, and the system refuses or its name refers to another file.
    fn descriptor(&self, _access: Access) -> Result<Option<Descriptor>> {
        Ok(None)
    }
}
