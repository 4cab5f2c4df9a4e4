//! Descriptors of the system, held by the operations that use them.

use std::fs;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::gauge::Permit;

/// Use of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Operations with nothing for a sync to make durable.
    Read,
    /// Changes of bytes or length, which a sync makes durable.
    Write,
}

/// A file of the system that stays open while this is held, whatever happens to its
/// [`File`](crate::File).
#[derive(Debug)]
pub struct Descriptor {
    opened: Arc<Opened>,
    access: Access,
}

/// An open file, and whether it may be closed.
#[derive(Debug)]
pub(crate) struct Opened {
    file: fs::File,
    /// Whether closing it now could lose a write error.
    unsynced: AtomicBool,
    /// Returned after the file is closed.
    _permit: Permit,
}

impl Descriptor {
    pub(crate) fn of(opened: &Arc<Opened>, access: Access) -> Self {
        Self { opened: Arc::clone(opened), access }
    }

    pub(crate) fn file(&self) -> &fs::File {
        &self.opened.file
    }

    pub(crate) fn opened(&self) -> &Opened {
        &self.opened
    }
}

impl AsFd for Descriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.opened.file.as_fd()
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        // After the write, and before the file can be closed: a held file stays open.
        if self.access == Access::Write {
            self.opened.unsynced.store(true, Ordering::Release);
        }
    }
}

impl Opened {
    pub(crate) fn new(file: fs::File, permit: Permit, unsynced: bool) -> Self {
        Self { file, unsynced: AtomicBool::new(unsynced), _permit: permit }
    }

    pub(crate) fn is_unsynced(&self) -> bool {
        self.unsynced.load(Ordering::Acquire)
    }

    /// Makes everything written before durable.
    pub(crate) fn sync(&self) -> std::io::Result<()> {
        // Cleared first, so that a write that ends during the sync counts as a later one.
        self.unsynced.store(false, Ordering::Release);
        let synced = self.file.sync_all();
        if synced.is_err() {
            self.unsynced.store(true, Ordering::Release);
        }
        synced
    }
}
