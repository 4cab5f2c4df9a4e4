//! Lengths of sequences.

use crate::gemm::Scalar;

/// Number of steps of a sequence of this length: it is rounded down to an integer from 0 to
/// `steps_max`; NaN means all steps.
#[inline(always)]
pub(super) fn steps_of<T: Scalar>(length: T, steps_max: usize) -> usize {
    let length = length.to_f64();
    // The cast turns negative numbers into 0.
    if length < steps_max as f64 { length as usize } else { steps_max }
}
