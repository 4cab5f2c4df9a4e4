//! Memory for direct reads and writes.
//!
//! - **Why.** A direct transfer goes between the device and the caller's memory, so address, offset
//!   and length must be multiples of the device's block. The standard allocator does not guarantee
//!   such addresses for bytes.
//! - **How.** One allocation aligned to [`BLOCK_BYTES`], its length rounded up to a multiple.
//! - **Invariants.**
//!   - DISK-I1: `start` is aligned to [`BLOCK_BYTES`] and points at `bytes` bytes that this buffer
//!     exclusively owns, all written at least once; it dangles if `bytes` is 0.
//! - **Cost.** The memory is filled with zeros when the buffer is made.

#![expect(unsafe_code, reason = "memory of an alignment that no safe type of bytes has")]

use std::alloc::{self, Layout};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::slice;

/// Offsets, lengths and addresses of direct reads and writes are multiples of this.
pub const BLOCK_BYTES: usize = 4096;

/// A block, for its alignment.
#[repr(align(4096))]
struct Block;

const _: () = assert!(align_of::<Block>() == BLOCK_BYTES);

/// Zeroed memory aligned to [`BLOCK_BYTES`], with a length that is a multiple of it.
pub struct Buffer {
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: by DISK-I1 the buffer owns its bytes, and any thread may own bytes.
unsafe impl Send for Buffer {}
// SAFETY: through a shared reference the bytes are only read (except through `start`, whose users
// are responsible).
unsafe impl Sync for Buffer {}

impl Buffer {
    /// Allocates `bytes` bytes, rounded up to whole blocks.
    ///
    /// # Panics
    /// If they do not fit any address space.
    pub fn new(bytes: usize) -> Self {
        let bytes = bytes.next_multiple_of(BLOCK_BYTES);
        if bytes == 0 {
            return Self { start: NonNull::<Block>::dangling().cast(), bytes };
        }
        let layout = Self::layout(bytes);
        // SAFETY: the layout's size is not 0.
        let start = unsafe { alloc::alloc_zeroed(layout) };
        match NonNull::new(start) {
            Some(start) => Self { start, bytes },
            None => alloc::handle_alloc_error(layout),
        }
    }

    fn layout(bytes: usize) -> Layout {
        match Layout::from_size_align(bytes, BLOCK_BYTES) {
            Ok(layout) => layout,
            Err(_) => unreachable!("a buffer of {bytes} bytes is larger than any address space"),
        }
    }

    /// Pointer to the first byte, for memory that is written while this buffer is shared.
    ///
    /// Users that write through it must ensure that no slice of those bytes exists then.
    pub(crate) fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if self.bytes > 0 {
            let layout = Self::layout(self.bytes);
            // SAFETY: by DISK-I1 this buffer owns the memory, which `new` allocated with the same
            // layout.
            unsafe { alloc::dealloc(self.start.as_ptr(), layout) };
        }
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: by DISK-I1 there are this many bytes, all written; they live as long as the
        // buffer, which is borrowed.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; the buffer is mutably borrowed, so there is no other reference.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes)", self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_zeroed_aligned_and_whole_blocks() {
        for (asked, got) in [(0, 0), (1, 4096), (4096, 4096), (4097, 8192), (100_000, 102_400)] {
            let mut buffer = Buffer::new(asked);
            assert_eq!(buffer.len(), got);
            assert_eq!(buffer.as_ptr().addr() % BLOCK_BYTES, 0);
            assert!(buffer.iter().all(|byte| *byte == 0));
            buffer.fill(7);
            assert!(buffer.iter().all(|byte| *byte == 7));
            assert_eq!(format!("{buffer:?}"), format!("Buffer({got} bytes)"));
        }
    }

    #[test]
    fn a_buffer_goes_to_other_threads() {
        let mut buffer = Buffer::new(4096);
        let sum = std::thread::spawn(move || {
            buffer.fill(1);
            buffer.iter().map(|byte| u64::from(*byte)).sum::<u64>()
        });
        assert_eq!(sum.join().unwrap(), 4096);
    }
}
