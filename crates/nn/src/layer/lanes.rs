//! Functions of each lane of slices.

use crate::gemm::Scalar;

/// Sets each lane of `to` to `of` the lane and the same ones of `from`, which is as long.
///
/// Loops over the lanes of a group have a constant length, and read all before they write, so the
/// compiler needs no checks of overlap to compute them together. That pays for short slices.
#[inline(always)]
pub(super) fn set<T: Scalar, const N: usize>(
    to: &mut [T],
    from: [&[T]; N],
    of: impl Fn(T, [T; N]) -> T,
) {
    let start = groups::<T, N, 16>(to, from, 0, &of);
    let start = groups::<T, N, 4>(to, from, start, &of);
    groups::<T, N, 1>(to, from, start, &of);
}

/// Sets the groups of `LANES` lanes from `start` on; returns where the rest starts.
#[expect(clippy::manual_memcpy, reason = "calls of slices' methods aren't inlined here")]
#[inline(always)]
fn groups<T: Scalar, const N: usize, const LANES: usize>(
    to: &mut [T],
    from: [&[T]; N],
    start: usize,
    of: &impl Fn(T, [T; N]) -> T,
) -> usize {
    let (mut at, count) = (start, to.len());
    while count - at >= LANES {
        let group = &mut to[at..at + LANES];
        let mut values = [[T::ZERO; LANES]; N];
        for k in 0..N {
            let lanes = &from[k][at..at + LANES];
            for i in 0..LANES {
                values[k][i] = lanes[i];
            }
        }
        let mut results = [T::ZERO; LANES];
        for i in 0..LANES {
            let mut lanes = [T::ZERO; N];
            for k in 0..N {
                lanes[k] = values[k][i];
            }
            results[i] = of(group[i], lanes);
        }
        for i in 0..LANES {
            group[i] = results[i];
        }
        at += LANES;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_lane_is_set_once() {
        for count in 0..70 {
            let of = |factor: f32| (0..count).map(|i| i as f32 * factor).collect::<Vec<_>>();
            let (mut to, a, b) = (of(1.0), of(100.0), of(10_000.0));
            set(&mut to, [&a, &b], |to, [a, b]| to + a + b);
            assert_eq!(to, of(10_101.0), "{count}");
        }
    }
}
