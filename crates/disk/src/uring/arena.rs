//! The memory into which the reads of one queue go.
//!
//! - **How.** One [`Buffer`], handed out in [`Lot`]s of neighbouring blocks. While a read is under
//!   way the system writes into its lot; the lot is kept in the read's flight until the system has
//!   told of its end.
//! - **Invariants.**
//!   - A1 lots do not overlap;
//!   - A2 no slice of a lot exists while a read into it is under way (its users are
//!     [`super::ring::Ring`] alone).

use std::slice;

use super::extents::Extents;
use crate::{BLOCK_BYTES, Buffer};

#[derive(Debug)]
pub(super) struct Arena {
    buffer: Buffer,
    extents: Extents,
}

/// Bytes of an arena that one read has to itself.
#[derive(Debug)]
pub(super) struct Lot {
    start: usize,
    bytes: usize,
}

impl Arena {
    pub(super) fn new(bytes: usize) -> Self {
        let buffer = Buffer::new(bytes);
        let extents = Extents::new(buffer.len() / BLOCK_BYTES);
        Self { buffer, extents }
    }

    pub(super) fn bytes(&self) -> usize {
        self.buffer.len()
    }

    /// Its first byte; for the system alone.
    pub(super) fn start(&self) -> *mut u8 {
        self.buffer.start()
    }

    /// A lot of `bytes` bytes, whole blocks, or none where no gap holds them.
    pub(super) fn take(&mut self, bytes: usize) -> Option<Lot> {
        let block = self.extents.take(bytes / BLOCK_BYTES)?;
        Some(Lot { start: block * BLOCK_BYTES, bytes })
    }

    /// Takes a lot back.
    pub(super) fn give(&mut self, lot: Lot) {
        self.extents.give(lot.start / BLOCK_BYTES, lot.bytes / BLOCK_BYTES);
    }

    /// Where byte `from` of a lot lies; for the system alone.
    pub(super) fn place(&self, lot: &Lot, from: usize) -> *mut u8 {
        assert!(from <= lot.bytes && lot.start + lot.bytes <= self.buffer.len(), "A1");
        self.buffer.start().wrapping_add(lot.start + from)
    }

    /// The bytes of a lot.
    ///
    /// # Safety
    /// No read into the lot is under way.
    pub(super) unsafe fn read(&self, lot: &Lot) -> &[u8] {
        // SAFETY: the bytes lie in the buffer (asserted in `place`) and were written at least
        // once, when it was made. Nobody writes them: the lot is this caller's alone (A1), no read
        // into it is under way, and the borrow ends before the lot can be used again.
        unsafe { slice::from_raw_parts(self.place(lot, 0), lot.bytes) }
    }

    /// The bytes of a lot, to be filled.
    ///
    /// # Safety
    /// No read into the lot is under way.
    pub(super) unsafe fn write(&mut self, lot: &mut Lot) -> &mut [u8] {
        // SAFETY: as in `read`; the lot is borrowed for writing.
        unsafe { slice::from_raw_parts_mut(self.place(lot, 0), lot.bytes) }
    }
}
