//! Asking the processor to fetch memory ahead of its use.

#![expect(unsafe_code, reason = "a prefetch is an intrinsic; it never faults and changes nothing")]

/// Asks for the cache line of `value`.
#[inline]
pub fn prefetch<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch never faults, and the address is that of a live value.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(value).cast::<i8>()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}

/// Lanes of one cache line.
const LINE_LANES: usize = 16;

/// Asks for all cache lines of `row`.
#[inline]
pub fn prefetch_row(row: &[f32]) {
    row.iter().step_by(LINE_LANES).for_each(prefetch);
}
