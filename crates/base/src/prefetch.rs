//! Asking the processor to fetch memory ahead of its use.

#![expect(unsafe_code, reason = "a prefetch is an intrinsic; it never faults and changes nothing")]

/// Asks for the cache line of `value`.
#[inline]
pub fn prefetch<T>(value: &T) {
    prefetch_line(std::ptr::from_ref(value).cast());
}

/// Lanes of one cache line.
const LINE_LANES: usize = 16;

/// Asks for all cache lines of `row`.
#[inline]
pub fn prefetch_row(row: &[f32]) {
    prefetch_lanes(row.as_ptr(), row.len());
}

/// Asks for all cache lines of a row that nobody need hold: nothing is read.
#[inline]
pub(crate) fn prefetch_lanes(row: *const f32, lanes: usize) {
    (0..lanes).step_by(LINE_LANES).for_each(|lane| prefetch_line(row.wrapping_add(lane).cast()));
}

#[inline]
fn prefetch_line(at: *const i8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch never faults and reads nothing, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}
