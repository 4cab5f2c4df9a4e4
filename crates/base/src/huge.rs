//! Zero-initialized slices. Each has its own memory mapping, with huge pages where available.
//!
//! - **Why.** Planning and look-ups access tables of hundreds of megabytes at random. With pages of
//!   4 KiB, each access also misses the TLB and walks page tables that are not in the caches; with
//!   pages of 2 MiB these are. The allocator doesn't request huge pages.
//!
//! Operands of matrix products, which are read repeatedly, gain as well, if less: see the decision
//! on rows in memory.
//!
//! - **How.** A mapping, which the system fills with zeros page by page on first access. A mapping
//!   with room for a huge page starts at one.
//!
//! - **Invariants.** Elements are plain data that may be zeros, so nothing is dropped or
//!   initialized.
//! - **Failure.** Too little memory ends the program, as for every other allocation.
//! - **Cost.** Whole pages, small or huge; memory that was never touched costs nothing.

#![expect(unsafe_code, reason = "a mapping of bytes is lent as a slice of plain structs")]

use std::alloc::Layout;
use std::io::ErrorKind;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use bytemuck::Zeroable;
use memmap2::MmapMut;

/// The smallest page size, so the maximum alignment of elements.
const ALIGN_MAX: usize = 4096;

/// Bytes of a small page, for the capacity plan.
const SMALL: usize = ALIGN_MAX;
/// Bytes of a huge page.
const HUGE: usize = 2 << 20;

/// Kind of pages at the end of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// Huge pages where the data fills them, small pages for the rest.
    Exact,
    /// Whole huge pages, if the mapping has an eighth of one or more.
    RoundedUp,
}

impl End {
    /// Bytes of memory for `bytes` bytes, once all were touched.
    const fn bytes_for(self, bytes: usize) -> usize {
        match self {
            Self::RoundedUp if bytes >= HUGE / 8 => bytes.next_multiple_of(HUGE),
            _ => bytes.next_multiple_of(SMALL),
        }
    }
}

/// A mapping.
pub(crate) struct Mapping {
    memory: MmapMut,
    /// Offset of the used part, at a huge page if it has one.
    start: usize,
}

impl Mapping {
    /// Maps `bytes` zero bytes and requests huge pages for all but the last, partial one.
    ///
    /// # Errors
    /// If the system refuses the mapping.
    pub(crate) fn new(bytes: usize) -> std::io::Result<Self> {
        Self::with_end(bytes, End::Exact)
    }

    fn with_end(bytes: usize, end: End) -> std::io::Result<Self> {
        let wanted = end.bytes_for(bytes);
        if wanted < HUGE {
            return Ok(Self { memory: MmapMut::map_anon(wanted.max(1))?, start: 0 });
        }
        // Memory before the first huge page is never touched.
        let memory = MmapMut::map_anon(wanted.checked_add(HUGE).ok_or(ErrorKind::OutOfMemory)?)?;
        let start = memory.as_ptr().align_offset(HUGE);
        #[cfg(target_os = "linux")]
        {
            // A hint: without huge pages the memory is slower, not wrong.
            let whole = wanted - wanted % HUGE;
            let _ = memory.advise_range(memmap2::Advice::HugePage, start, whole);
        }
        Ok(Self { memory, start })
    }

    /// Start of the mapping; the requested number of bytes follows.
    #[inline]
    pub(crate) fn as_ptr(&self) -> *const u8 {
        self.memory.as_ptr().wrapping_add(self.start)
    }

    /// [`Mapping::as_ptr`] for writing.
    #[inline]
    pub(crate) fn as_mut_ptr(&mut self) -> *mut u8 {
        self.memory.as_mut_ptr().wrapping_add(self.start)
    }
}

/// A slice of fixed length, initially zeros.
pub struct HugeSlice<T> {
    memory: Mapping,
    len: usize,
    _elements: PhantomData<T>,
}

impl<T: Copy + Zeroable> HugeSlice<T> {
    /// `len` zeros, in as many bytes as the elements have, rounded up to a small page.
    pub fn zeroed(len: usize) -> Self {
        Self::with_end(len, End::Exact)
    }

    /// `len` zeros in whole huge pages, if they take an eighth of one or more: for data that is
    /// read repeatedly. Bytes: [`HugeSlice::bytes_rounded_up`].
    pub fn rounded_up(len: usize) -> Self {
        Self::with_end(len, End::RoundedUp)
    }

    /// Bytes of memory of [`HugeSlice::rounded_up`], once all were touched.
    pub const fn bytes_rounded_up(len: usize) -> usize {
        End::RoundedUp.bytes_for(len * size_of::<T>())
    }

    fn with_end(len: usize, end: End) -> Self {
        const { assert!(align_of::<T>() <= ALIGN_MAX) };
        let Ok(layout) = Layout::array::<T>(len) else {
            panic!("a slice of {len} elements is larger than memory can be");
        };
        match Mapping::with_end(layout.size(), end) {
            Ok(memory) => Self { memory, len, _elements: PhantomData },
            Err(_) => std::alloc::handle_alloc_error(layout),
        }
    }
}

impl<T: Copy + Zeroable> Default for HugeSlice<T> {
    fn default() -> Self {
        Self::zeroed(0)
    }
}

impl<T: Copy + Zeroable> Deref for HugeSlice<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: the mapping has the bytes of `len` elements, starts at a page boundary, was
        // filled with zeros, which are valid for `T`, and is borrowed with `self`.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr().cast(), self.len) }
    }
}

impl<T: Copy + Zeroable> DerefMut for HugeSlice<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`; `&mut self` excludes every other borrower.
        unsafe { std::slice::from_raw_parts_mut(self.memory.as_mut_ptr().cast(), self.len) }
    }
}

impl<T> std::fmt::Debug for HugeSlice<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HugeSlice").field("len", &self.len).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_at_first_and_then_what_was_written() {
        let mut slice = HugeSlice::<[u64; 3]>::zeroed(100_000);
        assert!(slice.iter().all(|of| *of == [0; 3]));
        (0..).zip(slice.iter_mut()).for_each(|(at, of)| *of = [at, at + 1, at + 2]);
        assert_eq!((slice.len(), slice[77_777]), (100_000, [77_777, 77_778, 77_779]));
        assert!(HugeSlice::<u32>::zeroed(0).is_empty());
    }

    #[test]
    fn large_mappings_begin_at_huge_pages_and_the_plan_knows_their_bytes() {
        let bytes = [0, 1, SMALL, HUGE / 8 - 1, HUGE / 8, HUGE, HUGE + 1];
        let rounded = bytes.map(HugeSlice::<u8>::bytes_rounded_up);
        let below = HUGE / 8;
        assert_eq!(rounded, [0, SMALL, SMALL, below, HUGE, HUGE, 2 * HUGE]);
        for bytes in bytes {
            for mut slice in [HugeSlice::<u8>::zeroed(bytes), HugeSlice::rounded_up(bytes)] {
                slice.fill(7);
                assert!(slice.len() == bytes && slice.iter().all(|byte| *byte == 7));
                let at_huge = slice.as_ptr().align_offset(HUGE) == 0;
                assert!(at_huge || slice.memory.memory.len() < HUGE, "{bytes}");
            }
        }
    }

    #[test]
    fn what_fills_a_huge_page_alone_is_mapped_with_room_to_begin_at_one() {
        let below = HUGE - SMALL;
        let sizes = [
            (0, 1),
            (1, SMALL),
            (below, below),
            (below + 1, 2 * HUGE),
            (HUGE, 2 * HUGE),
            (HUGE + 1, 2 * HUGE + SMALL),
        ];
        for (bytes, mapped) in sizes {
            let mapping = Mapping::new(bytes).unwrap();
            assert_eq!(mapping.memory.len(), mapped, "{bytes}");
            assert!(mapping.start + bytes <= mapped, "{bytes}");
        }
    }
}
