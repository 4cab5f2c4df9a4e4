//! Sums over the values of a channel, in a special order.
//!
//! The values of a channel with many places are contiguous. A plain sum would be one chain of
//! dependent additions, so value i joins partial sum i mod 16, and the partial sums are added in
//! order at the end. The order doesn't depend on the processor.

use crate::gemm::Scalar;

/// Number of partial sums.
const PARTS: usize = 16;

/// Sum of `term` over pairs of lanes of two equally long slices.
#[inline(always)]
pub(super) fn sum_of<T: Scalar>(lanes: &[T], others: &[T], term: impl Fn(T, T) -> T) -> T {
    let mut parts = [T::ZERO; PARTS];
    let ((lanes, rest), (others, others_rest)) =
        (lanes.as_chunks::<PARTS>(), others.as_chunks::<PARTS>());
    for (lanes, others) in lanes.iter().zip(others) {
        for i in 0..PARTS {
            parts[i] += term(lanes[i], others[i]);
        }
    }
    for (part, (lane, other)) in parts.iter_mut().zip(rest.iter().zip(others_rest)) {
        *part += term(*lane, *other);
    }
    parts.into_iter().fold(T::ZERO, |sum, part| sum + part)
}
