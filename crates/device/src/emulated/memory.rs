//! Memory that a device has to itself.

#![expect(unsafe_code, reason = "memory is had by its address")]

use std::alloc::{Layout, alloc, alloc_zeroed, dealloc};

/// What fresh memory is full of: no number, and no slot that there is.
const FRESH: u8 = 0xff;
/// What freed memory is full of.
const FREED: u8 = 0xfd;

fn layout(bytes: usize) -> Option<Layout> {
    Layout::from_size_align(bytes.max(1), 256).ok()
}

/// Memory full of poison, or of zeros; none where there is none.
pub(super) fn allocate(bytes: usize, zeros: bool) -> Option<u64> {
    let layout = layout(bytes)?;
    if zeros {
        // SAFETY: the layout is not empty.
        let memory = unsafe { alloc_zeroed(layout) };
        return (!memory.is_null()).then_some(memory as u64);
    }
    // SAFETY: the layout is not empty.
    let memory = unsafe { alloc(layout) };
    if memory.is_null() {
        return None;
    }
    // SAFETY: so many bytes were given just now.
    unsafe { memory.write_bytes(FRESH, layout.size()) };
    Some(memory as u64)
}

/// Gives back what [`allocate`] gave; nobody uses it any more.
pub(super) fn free(address: u64, bytes: usize) {
    let Some(layout) = layout(bytes) else { return };
    let memory = address as usize as *mut u8;
    // SAFETY: `allocate` gave so many bytes at this address, and nobody has them any more.
    unsafe { memory.write_bytes(FREED, layout.size()) };
    // SAFETY: as above, with the same layout.
    unsafe { dealloc(memory, layout) };
}

/// Copies bytes between two pieces of memory that are both alive.
pub(super) fn copy(from: u64, to: u64, bytes: usize) {
    let (from, to) = (from as usize as *const u8, to as usize as *mut u8);
    // SAFETY: the operation keeps both pieces alive, its ranges were checked when it was made, and
    // nobody else uses these bytes: the check of order saw to it.
    unsafe { std::ptr::copy(from, to, bytes) };
}

/// Fills bytes of a piece of memory that is alive.
pub(super) fn fill(to: u64, bytes: usize, with: u8) {
    let to = to as usize as *mut u8;
    // SAFETY: as for copies.
    unsafe { to.write_bytes(with, bytes) };
}

/// Numbers of a piece of memory that is alive as long as the operation that names it.
pub(super) fn numbers<'a>(at: u64, len: usize) -> &'a [f32] {
    // SAFETY: as for copies; what an operation only reads, nobody writes while it runs, and the
    // caller is done with it before the operation is over.
    unsafe { std::slice::from_raw_parts(at as usize as *const f32, len) }
}

/// The same, for writing.
pub(super) fn numbers_mut<'a>(at: u64, len: usize) -> &'a mut [f32] {
    // SAFETY: as above; what a product writes overlaps with nothing that it reads, and nobody else
    // uses these bytes.
    unsafe { std::slice::from_raw_parts_mut(at as usize as *mut f32, len) }
}
