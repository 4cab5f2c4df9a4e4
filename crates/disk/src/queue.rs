//! Concurrent reads and writes.
//!
//! - **Why.** A device answers many concurrent reads in the time of one. Waiting for each read uses
//!   only a small part of what it can do.
//! - **How.** A [`Queue`] takes operations, each with a token chosen by the caller, and returns
//!   them as they finish, in any order. Bytes that were read are in the queue's own memory, lent to
//!   the caller for the duration of one call.
//!
//! ```text
//!   queue.read(7, &file, offset, bytes)     true: it is in flight    false: no room now
//!   queue.write(8, &file, offset, &buffer, bytes)        … other work, other operations …
//!   queue.complete(wait, &mut |done| …)     done.token, done.outcome: the bytes, or the error
//! ```
//!
//! - **Order.** Operations in flight are not ordered, not even in the same place: to order two of
//!   them, start the second after the first was returned. Operations are started at the latest by
//!   the next [`Queue::complete`].
//! - **Failure.** A failed operation affects only its own [`Done`]. An error of the queue itself
//!   (the system takes no more) leaves operations in flight where they are. Dropping a queue waits
//!   for operations that the system has, and discards the others.
//! - **Bounds.** `depth` operations and `read_bytes` bytes of reads. Beyond that, `read` and
//!   `write` return false, as they do if no gap among the reads in flight is large enough, or too
//!   many files are in use to open another. With nothing in flight, any valid operation has room.

use std::fmt::Debug;
use std::sync::Arc;

use crate::Result;
use crate::buffer::{BLOCK_BYTES, Buffer};
use crate::file::File;

/// Number of operations that are submitted together, unless something waits for them earlier.
pub(crate) const GROUP: usize = 32;

/// Bounds of a queue.
#[derive(Clone, Copy, Debug)]
pub struct QueueOptions {
    /// The most operations in flight.
    pub depth: usize,
    /// The most bytes of all reads in flight.
    pub read_bytes: usize,
}

/// Reads and writes of one caller.
///
/// Several threads may use a queue each; a queue may move to another thread between calls.
pub trait Queue: Send + Debug {
    /// Number of operations started and not returned yet.
    fn in_flight(&self) -> usize;

    /// Starts a read of `bytes` bytes at `offset` into the queue's own memory; returns false and
    /// does nothing if there is no room now.
    ///
    /// # Errors
    /// If the system takes no operations.
    ///
    /// # Panics
    /// If `bytes` is 0, not a multiple of [`BLOCK_BYTES`] or above the queue's `read_bytes`, or if
    /// `offset` is not a multiple of it in a direct file.
    fn read(&mut self, token: u64, file: &Arc<dyn File>, offset: u64, bytes: usize)
    -> Result<bool>;

    /// Starts a write of the first `bytes` bytes of `buffer`, which the queue holds until the
    /// operation is returned; returns false and does nothing if there is no room now.
    ///
    /// # Errors
    /// If the system takes no operations.
    ///
    /// # Panics
    /// If `bytes` is 0 or above the buffer's length, or if `bytes` or `offset` is not a multiple of
    /// [`BLOCK_BYTES`] in a direct file.
    fn write(
        &mut self,
        token: u64,
        file: &Arc<dyn File>,
        offset: u64,
        buffer: &Arc<Buffer>,
        bytes: usize,
    ) -> Result<bool>;

    /// Calls `done` with finished operations, in any order; returns their number.
    ///
    /// # Errors
    /// If the system takes no operations or returns none; operations in flight stay in flight.
    fn complete(&mut self, wait: Wait, done: &mut dyn FnMut(Done<'_>)) -> Result<usize>;
}

/// Whether a call waits for operations in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Does not wait.
    No,
    /// Waits until at least one operation has finished, if any is in flight.
    ForOne,
}

/// A finished operation.
#[derive(Debug)]
pub struct Done<'a> {
    /// Token chosen by the caller.
    pub token: u64,
    /// The bytes read, empty for a write; or the error. A read beyond the file's end fails with
    /// `UnexpectedEof`.
    pub outcome: Result<&'a [u8]>,
}

impl QueueOptions {
    /// Rounds up to whole blocks.
    ///
    /// # Panics
    /// If the depth is 0.
    pub(crate) fn checked(self) -> Self {
        assert!(self.depth > 0, "a queue holds at least one operation");
        let read_bytes = self.read_bytes.next_multiple_of(BLOCK_BYTES);
        Self { read_bytes, ..self }
    }

    /// Asserts the preconditions of [`Queue::read`].
    pub(crate) fn check_read(&self, file: &dyn File, offset: u64, bytes: usize) {
        assert!(bytes > 0 && bytes.is_multiple_of(BLOCK_BYTES), "a read of {bytes} bytes");
        assert!(bytes <= self.read_bytes, "a read of {bytes} bytes, {} at most", self.read_bytes);
        check_direct(file.is_direct(), offset, bytes);
    }

    /// Asserts the preconditions of [`Queue::write`].
    pub(crate) fn check_write(&self, file: &dyn File, offset: u64, buffer: &Buffer, bytes: usize) {
        assert!(bytes > 0 && bytes <= buffer.len(), "a write of {bytes} bytes of {buffer:?}");
        check_direct(file.is_direct(), offset, bytes);
    }
}

/// Asserts that an operation on a direct file covers whole blocks.
pub(crate) fn check_direct(is_direct: bool, offset: u64, bytes: usize) {
    let aligned = offset.is_multiple_of(BLOCK_BYTES as u64) && bytes.is_multiple_of(BLOCK_BYTES);
    assert!(
        !is_direct || aligned,
        "{bytes} bytes at {offset} are not whole blocks of a direct file"
    );
}
