//! Sums over the values of a channel, in an order of their own.
//!
//! The values of a channel lie side by side where it has many places. Added one after the other
//! they would wait for each other, so value i joins partial sum i mod 16, and the partial sums are
//! added in order at the end. It is the same order whatever the processor.

use crate::Scalar;

/// Partial sums.
const PARTS: usize = 16;

/// The sum of `term` over pairs of lanes, which are equally many.
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
