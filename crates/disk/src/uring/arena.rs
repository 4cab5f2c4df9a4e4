//! The memory that the reads of one queue fill.
//!
//! - **How.** One [`Buffer`], divided into [`Lot`]s of adjacent blocks. While a read is in flight,
//!   the system writes into its lot, which the read's flight keeps until the system has reported
//!   completion.
//! - **Invariants.**
//!   - DISK-I2: lots do not overlap;
//!   - DISK-I3: no slice of a lot exists while a read into it is in flight (only
//!     [`super::ring::Ring`] uses them).

use std::slice;

use super::extents::Extents;
use crate::buffer::{BLOCK_BYTES, Buffer};

#[derive(Debug)]
pub(super) struct Arena {
    buffer: Buffer,
    extents: Extents,
}

/// Bytes of an arena that belong to one read.
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

    /// Pointer to the first byte; only for the system.
    pub(super) fn start(&self) -> *mut u8 {
        self.buffer.start()
    }

    /// Returns a lot of `bytes` bytes, whole blocks; `None` if no gap is large enough.
    pub(super) fn take(&mut self, bytes: usize) -> Option<Lot> {
        let block = self.extents.take(bytes / BLOCK_BYTES)?;
        Some(Lot { start: block * BLOCK_BYTES, bytes })
    }

    /// Takes a lot back.
    pub(super) fn give(&mut self, lot: Lot) {
        self.extents.give(lot.start / BLOCK_BYTES, lot.bytes / BLOCK_BYTES);
    }

    /// Address of byte `from` of a lot; only for the system.
    pub(super) fn place(&self, lot: &Lot, from: usize) -> *mut u8 {
        assert!(from <= lot.bytes && lot.start + lot.bytes <= self.buffer.len(), "DISK-I2");
        self.buffer.start().wrapping_add(lot.start + from)
    }

    /// The bytes of a lot.
    ///
    /// # Safety
    /// No read into the lot may be in flight.
    pub(super) unsafe fn read(&self, lot: &Lot) -> &[u8] {
        // SAFETY: the bytes are in the buffer (asserted in `place`) and were written at least once,
        // when it was made. Nothing writes them: this caller owns the lot (DISK-I2), no read into
        // it is in flight, and the borrow ends before the lot can be used again.
        unsafe { slice::from_raw_parts(self.place(lot, 0), lot.bytes) }
    }

    /// The bytes of a lot, to fill.
    ///
    /// # Safety
    /// No read into the lot may be in flight.
    pub(super) unsafe fn write(&mut self, lot: &mut Lot) -> &mut [u8] {
        // SAFETY: as in `read`; the lot is mutably borrowed.
        unsafe { slice::from_raw_parts_mut(self.place(lot, 0), lot.bytes) }
    }
}
