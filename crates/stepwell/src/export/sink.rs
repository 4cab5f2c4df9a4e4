//! A writer of tensors: it gets all shapes before the first value, takes values of all tensors
//! alternately, and keeps a bounded buffer for each.

use std::io;

/// Texts about the tensors of a file, by name.
pub(crate) type About<'a> = [(&'a str, String)];

/// A writer of tensors.
pub(crate) trait Sink {
    /// Adds values, as little-endian bytes, to tensor number `tensor`. For a table, the values of
    /// one row are added to all tensors in order before the values of the next row.
    fn put(&mut self, tensor: usize, bytes: &[u8]) -> io::Result<()>;

    /// Writes and syncs the buffered values.
    fn finish(self: Box<Self>) -> io::Result<()>;
}
