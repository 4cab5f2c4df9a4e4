//! Vector unit in hardware: AVX-512 with its BF16 extension.

use std::arch::x86_64::{
    __m512, __m512bh, _mm512_dpbf16_ps, _mm512_loadu_si512, _mm512_set1_epi32, _mm512_setzero_ps,
    _mm512_storeu_ps,
};
use std::mem::transmute;

use super::lanes::{ByLanes, LaneUnit};
use super::panel::{Panel, Unit};
use crate::gemm::tile::LINES;

/// Whether this machine has the unit.
pub(super) fn is_here() -> bool {
    is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bf16")
}

#[derive(Debug)]
pub(super) struct Avx512;

impl Unit for Avx512 {
    #[expect(unsafe_code, reason = "calls a function with instructions that not every CPU has")]
    fn run(&self, panel: Panel<'_>) {
        assert!(is_here(), "avx512_bf16 on a machine without it");
        // SAFETY: the assertion above.
        unsafe { run(panel) }
    }
}

#[target_feature(enable = "avx512f,avx512bf16")]
fn run(panel: Panel<'_>) {
    panel.run(&mut ByLanes(Lanes(())));
}

/// Invariant: exists only in [`run`], so that every method runs on a machine with the unit.
struct Lanes(());

impl LaneUnit for Lanes {
    type Sums = __m512;
    type Pairs = __m512bh;

    #[expect(unsafe_code, reason = "an instruction that not every CPU has")]
    #[inline(always)]
    fn zero(&self) -> __m512 {
        // SAFETY: the invariant of `Lanes`.
        unsafe { _mm512_setzero_ps() }
    }

    #[expect(unsafe_code, reason = "an instruction that not every CPU has")]
    #[inline(always)]
    fn load(&self, from: &[u32; LINES]) -> __m512bh {
        // SAFETY: the invariant of `Lanes`; `from` has the 64 bytes that are read.
        let words = unsafe { _mm512_loadu_si512(from.as_ptr().cast()) };
        // SAFETY: both are vectors of 64 bytes, for which all bits are valid.
        unsafe { transmute(words) }
    }

    #[expect(unsafe_code, reason = "an instruction that not every CPU has")]
    #[inline(always)]
    fn spread(&self, pair: u32) -> __m512bh {
        // SAFETY: the invariant of `Lanes`.
        let words = unsafe { _mm512_set1_epi32(pair.cast_signed()) };
        // SAFETY: both are vectors of 64 bytes, for which all bits are valid.
        unsafe { transmute(words) }
    }

    #[expect(unsafe_code, reason = "an instruction that not every CPU has")]
    #[inline(always)]
    fn dot(&self, sums: __m512, left: __m512bh, right: __m512bh) -> __m512 {
        // SAFETY: the invariant of `Lanes`.
        unsafe { _mm512_dpbf16_ps(sums, left, right) }
    }

    #[expect(unsafe_code, reason = "an instruction that not every CPU has")]
    #[inline(always)]
    fn store(&self, sums: __m512, to: &mut [f32; LINES]) {
        // SAFETY: the invariant of `Lanes`; `to` has the 64 bytes that are written.
        unsafe { _mm512_storeu_ps(to.as_mut_ptr(), sums) }
    }
}
