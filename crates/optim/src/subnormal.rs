//! Means and velocities that have become subnormal are set to zero.
//!
//! If gradients stay zero, a mean decays until it is subnormal, where rounding keeps it forever,
//! and where some processors take a hundred times longer.

/// `x`, or zero if `x` is subnormal.
#[inline(always)]
pub(crate) fn flush(x: f32) -> f32 {
    if x.abs() < f32::MIN_POSITIVE { 0.0 } else { x }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subnormals_become_zero_and_the_least_normal_stays() {
        let least = f32::MIN_POSITIVE;
        assert_eq!([least, -least].map(flush), [least, -least]);
        assert_eq!([least.next_down(), -least.next_down(), 0.0].map(flush), [0.0; 3]);
    }
}
