//! Why no state is subnormal.
//!
//! A mean whose gradients stay zero decays until it is subnormal, where rounding keeps it forever,
//! and where some processors take a hundred times longer. It is therefore set to zero.

/// `x`, or zero if `x` is subnormal.
#[inline(always)]
pub(crate) fn flush(x: f32) -> f32 {
    if x.abs() < f32::MIN_POSITIVE { 0.0 } else { x }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_subnormal_is_zero_and_the_least_normal_stays() {
        let least = f32::MIN_POSITIVE;
        assert_eq!([least, -least].map(flush), [least, -least]);
        assert_eq!([least.next_down(), -least.next_down(), 0.0].map(flush), [0.0; 3]);
    }
}
