//! Sums over the lanes of a slice, in a special order.
//!
//! A plain sum would be one chain of dependent additions, so lane i joins partial sum i mod 16, and
//! the partial sums are added in order at the end. The order doesn't depend on the processor.

use crate::gemm::Scalar;

/// Number of partial sums.
const PARTS: usize = 16;

/// Sum of `term` over pairs of lanes of two equally long slices.
#[inline(always)]
pub(super) fn sum_of<T: Scalar>(lanes: &[T], others: &[T], term: impl Fn(T, T) -> T) -> T {
    let mut parts = [T::ZERO; PARTS];
    let ((lanes, rest), (others, others_rest)) =
        (lanes.as_chunks::<PARTS>(), others.as_chunks::<PARTS>());
    // Adapters of iterators would be calls in the innermost loops.
    for group in 0..lanes.len().min(others.len()) {
        for i in 0..PARTS {
            parts[i] += term(lanes[group][i], others[group][i]);
        }
    }
    for i in 0..rest.len().min(others_rest.len()) {
        parts[i] += term(rest[i], others_rest[i]);
    }
    let mut sum = T::ZERO;
    for part in parts {
        sum += part;
    }
    sum
}

/// Sum of the lanes of a slice.
#[inline(always)]
pub(super) fn sum<T: Scalar>(lanes: &[T]) -> T {
    sum_of(lanes, lanes, |lane, _| lane)
}

/// Dot product of two equally long slices.
#[inline(always)]
pub(super) fn dot<T: Scalar>(lanes: &[T], others: &[T]) -> T {
    sum_of(lanes, others, |lane, other| lane * other)
}
