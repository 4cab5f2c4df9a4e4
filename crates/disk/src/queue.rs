//! Reads and writes under way.
//!
//! - **Why.** A device answers many reads at once in the time of one. A caller that waits for each
//!   gets a small part of what the device can do.
//! - **How.** A [`Queue`] takes operations, each with a token of the caller's choice, and hands
//!   them back as they finish, in any order. Bytes that were read lie in the queue's own memory and
//!   are lent to the caller for the time of one call.
//!
//! ```text
//!   queue.read(7, &file, offset, bytes)     true: it is under way    false: no room now
//!   queue.write(8, &file, offset, &buffer, bytes)        … other work, other operations …
//!   queue.complete(wait, &mut |done| …)     done.token, done.outcome: the bytes, or the error
//! ```
//!
//! - **Order.** None is kept between operations under way, not even of one place: who wants one
//!   after the other starts it when the other was handed back. What is under way is started at the
//!   latest by the next [`Queue::complete`].
//! - **Failure.** An operation that fails does so alone, in its [`Done`]. An error of the queue
//!   itself (the system takes no more) leaves what is under way where it is. Dropping a queue waits
//!   for what the system has of it and forgets the rest.
//! - **Bounds.** `depth` operations and `read_bytes` bytes of reads; `read` and `write` say false
//!   beyond, where no gap among the reads under way is large enough, or where too many files are in
//!   use to open another. With nothing under way, any admitted operation has room.

use std::fmt::Debug;
use std::sync::Arc;

use crate::{BLOCK_BYTES, Buffer, File, Result};

/// Operations that are pushed to the system together, if none waits for them before.
pub(crate) const GROUP: usize = 32;

/// Bounds of a queue.
#[derive(Clone, Copy, Debug)]
pub struct QueueOptions {
    /// Operations in flight at most.
    pub depth: usize,
    /// Bytes of all reads in flight at most.
    pub read_bytes: usize,
}

/// Reads and writes under way, of one caller.
///
/// Several queues of several threads work at once; a queue may go to another thread between calls.
pub trait Queue: Send + Debug {
    /// Operations started and not handed back yet.
    fn in_flight(&self) -> usize;

    /// Starts a read of `bytes` bytes at `offset` into the queue's own memory; false, and nothing
    /// happened, where there is no room now.
    ///
    /// # Errors
    /// When the system takes no operations.
    ///
    /// # Panics
    /// When `bytes` is 0, no multiple of [`BLOCK_BYTES`] or above the queue's `read_bytes`, or
    /// `offset` is no multiple of it in a direct file.
    fn read(&mut self, token: u64, file: &Arc<dyn File>, offset: u64, bytes: usize)
    -> Result<bool>;

    /// Starts a write of the first `bytes` bytes of `buffer`, which the queue holds until it is
    /// handed back; false, and nothing happened, where there is no room now.
    ///
    /// # Errors
    /// When the system takes no operations.
    ///
    /// # Panics
    /// When `bytes` is 0 or above the buffer's length, or `bytes` or `offset` is no multiple of
    /// [`BLOCK_BYTES`] in a direct file.
    fn write(
        &mut self,
        token: u64,
        file: &Arc<dyn File>,
        offset: u64,
        buffer: &Arc<Buffer>,
        bytes: usize,
    ) -> Result<bool>;

    /// Hands finished operations to `done`, in any order; returns how many. With `wait`, waits
    /// until at least one is finished if any is in flight.
    ///
    /// # Errors
    /// When the system takes no operations or tells of none; those in flight stay so.
    fn complete(&mut self, wait: bool, done: &mut dyn FnMut(Done<'_>)) -> Result<usize>;
}

/// An operation that is finished.
#[derive(Debug)]
pub struct Done<'a> {
    /// What the caller named it.
    pub token: u64,
    /// The bytes read, none for a write; or why it failed. A read that the file's end cut short is
    /// `UnexpectedEof`.
    pub outcome: Result<&'a [u8]>,
}

impl QueueOptions {
    /// The same with whole blocks.
    ///
    /// # Panics
    /// When the depth is 0.
    pub(crate) fn checked(self) -> Self {
        assert!(self.depth > 0, "a queue holds at least one operation");
        let read_bytes = self.read_bytes.next_multiple_of(BLOCK_BYTES);
        Self { read_bytes, ..self }
    }

    /// Asserts what [`Queue::read`] is promised by its caller.
    pub(crate) fn check_read(&self, file: &dyn File, offset: u64, bytes: usize) {
        assert!(bytes > 0 && bytes.is_multiple_of(BLOCK_BYTES), "a read of {bytes} bytes");
        assert!(bytes <= self.read_bytes, "a read of {bytes} bytes, {} at most", self.read_bytes);
        check_direct(file.is_direct(), offset, bytes);
    }

    /// Asserts what [`Queue::write`] is promised by its caller.
    pub(crate) fn check_write(&self, file: &dyn File, offset: u64, buffer: &Buffer, bytes: usize) {
        assert!(bytes > 0 && bytes <= buffer.len(), "a write of {bytes} bytes of {buffer:?}");
        check_direct(file.is_direct(), offset, bytes);
    }
}

/// Asserts that an operation on a direct file is one of whole blocks.
pub(crate) fn check_direct(is_direct: bool, offset: u64, bytes: usize) {
    let aligned = offset.is_multiple_of(BLOCK_BYTES as u64) && bytes.is_multiple_of(BLOCK_BYTES);
    assert!(
        !is_direct || aligned,
        "{bytes} bytes at {offset} are no whole blocks of a direct file"
    );
}
