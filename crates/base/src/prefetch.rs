//! Prefetching memory ahead of its use.

#![expect(unsafe_code, reason = "a prefetch is an intrinsic; it never faults and changes nothing")]

/// Prefetches the cache line of `value`.
#[inline(always)]
pub fn prefetch<T>(value: &T) {
    prefetch_line(std::ptr::from_ref(value).cast());
}

/// Bytes of a cache line.
const LINE_BYTES: usize = 64;

/// Prefetches the cache line of element `index` of `slice`, which may be beyond its end.
#[inline(always)]
pub fn prefetch_at<T>(slice: &[T], index: usize) {
    prefetch_line(slice.as_ptr().wrapping_add(index).cast());
}

/// Prefetches all cache lines of `row`.
#[inline(always)]
pub fn prefetch_row(row: &[f32]) {
    prefetch_lanes(row.as_ptr(), row.len());
}

/// Prefetches all cache lines of a row that needn't be held, as nothing is read.
#[inline(always)]
pub(crate) fn prefetch_lanes(row: *const f32, lanes: usize) {
    let end = row.wrapping_add(lanes) as usize;
    let mut line = row.map_addr(|address| address & !(LINE_BYTES - 1));
    while (line as usize) < end {
        prefetch_line(line.cast());
        line = line.wrapping_byte_add(LINE_BYTES);
    }
}

#[inline(always)]
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
