//! Separate memory of an emulated device.

#![expect(unsafe_code, reason = "memory is had by its address")]

use std::alloc::{Layout, alloc, alloc_zeroed, dealloc};

/// Content of fresh memory: NaN as a number, and invalid as a slot.
const FRESH: u8 = 0xff;
/// Content of freed memory.
const FREED: u8 = 0xfd;
/// Bytes before and after each region that must not be written: on a GPU, a kernel would overwrite
/// other data there.
const GUARD_BYTES: usize = 256;
/// Content of these bytes.
const GUARD: u8 = 0xa5;

/// Layout of a region with its guards.
fn layout(bytes: usize) -> Option<Layout> {
    let guarded = bytes.max(1).checked_add(2 * GUARD_BYTES)?;
    Layout::from_size_align(guarded, GUARD_BYTES).ok()
}

/// Content of allocated memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// [`FRESH`], as after an allocation without a fill on a GPU.
    Poison,
    /// Zero bytes.
    Zeros,
}

/// Allocates memory; `None` if there is none.
pub(super) fn allocate(bytes: usize, content: Content) -> Option<u64> {
    let layout = layout(bytes)?;
    let memory = match content {
        // SAFETY: the layout is not empty.
        Content::Poison => unsafe { alloc(layout) },
        // SAFETY: as above.
        Content::Zeros => unsafe { alloc_zeroed(layout) },
    };
    if memory.is_null() {
        return None;
    }
    let (guard, own) = (GUARD_BYTES as u64, layout.size() - 2 * GUARD_BYTES);
    let address = memory as u64 + guard;
    fill(memory as u64, GUARD_BYTES, GUARD);
    fill(address + own as u64, GUARD_BYTES, GUARD);
    if content == Content::Poison {
        fill(address, own, FRESH);
    }
    Some(address)
}

/// Frees memory from [`allocate`], which must be unused.
///
/// # Panics
/// If anything was written before or after it.
pub(super) fn free(address: u64, bytes: usize) {
    let Some(layout) = layout(bytes) else { return };
    let memory = (address as usize - GUARD_BYTES) as *mut u8;
    // SAFETY: `allocate` returned this many bytes at this address, and they have no other users.
    let all = unsafe { std::slice::from_raw_parts(memory, layout.size()) };
    let behind = layout.size() - GUARD_BYTES;
    let is_whole = [&all[..GUARD_BYTES], &all[behind..]].concat().iter().all(|of| *of == GUARD);
    // SAFETY: as above.
    unsafe { memory.write_bytes(FREED, layout.size()) };
    // SAFETY: as above, with the same layout.
    unsafe { dealloc(memory, layout) };
    let ends = std::thread::panicking();
    assert!(is_whole || ends, "an operation wrote beyond its {bytes} bytes");
}

/// Copies bytes between two live regions.
pub(super) fn copy(from: u64, to: u64, bytes: usize) {
    let (from, to) = (from as usize as *const u8, to as usize as *mut u8);
    // SAFETY: the operation keeps both regions alive, its ranges were checked when it was made, and
    // the check of order ensures that these bytes aren't used otherwise.
    unsafe { std::ptr::copy(from, to, bytes) };
}

/// Fills bytes of a live region.
pub(super) fn fill(to: u64, bytes: usize, with: u8) {
    let to = to as usize as *mut u8;
    // SAFETY: as for copies.
    unsafe { to.write_bytes(with, bytes) };
}

/// Numbers in a region that stays alive as long as its operation.
pub(super) fn numbers<'a>(at: u64, len: usize) -> &'a [f32] {
    // SAFETY: as for copies; what an operation only reads isn't written while it runs, and the
    // caller finishes before the operation is over.
    unsafe { std::slice::from_raw_parts(at as usize as *const f32, len) }
}

/// Like [`numbers`], for writing.
pub(super) fn numbers_mut<'a>(at: u64, len: usize) -> &'a mut [f32] {
    // SAFETY: as above; the result of a product overlaps no operand, and these bytes aren't used
    // otherwise.
    unsafe { std::slice::from_raw_parts_mut(at as usize as *mut f32, len) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_beyond_a_piece_is_found() {
        for content in [Content::Poison, Content::Zeros] {
            for bytes in [0, 1, 100, 256, 5000] {
                free(allocate(bytes, content).unwrap(), bytes);
                let beyond = [-1, bytes.max(1) as i64];
                for at in beyond {
                    let address = allocate(bytes, content).unwrap();
                    fill(address.wrapping_add_signed(at), 1, 7);
                    let found = std::panic::catch_unwind(|| free(address, bytes));
                    assert!(found.is_err(), "{at} of {bytes}");
                }
            }
        }
    }
}
