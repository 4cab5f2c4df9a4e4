//! Loops over lanes in tiles of a fixed size.
//!
//! Rows are short: for them, checking how many lanes are left costs more than the arithmetic. Call
//! from code compiled for wide vectors, as within `pulp::Arch::dispatch`.

/// Lanes of a tile: one vector, or two or four.
pub const TILE: usize = 16;

/// Applies `rule` to every lane of `vectors`, which change, and of `operand`, which doesn't.
///
/// `rule` receives one number of each vector and returns the new numbers of those that change. All
/// vectors have as many lanes as `operand`.
#[inline(always)]
pub fn by_tiles<T: Copy, const N: usize>(
    vectors: [&mut [f32]; N], // (lanes) each
    operand: &[T],            // (lanes)
    rule: impl Fn([f32; N], T) -> [f32; N],
) {
    for vector in &vectors {
        assert_eq!(vector.len(), operand.len(), "vectors need equally many lanes");
    }
    let (tiles, rest) = operand.as_chunks::<TILE>();
    let parts = vectors.map(|vector| vector.as_chunks_mut::<TILE>());
    for (number, tile) in tiles.iter().enumerate() {
        // A copy, so that the compiler doesn't have to check for overlap. A plain loop over lanes:
        // an iterator's `for_each` was compiled separately, without wide vectors.
        let mut copy: [[f32; TILE]; N] = std::array::from_fn(|of| parts[of].0[number]);
        for lane in 0..TILE {
            let lanes = rule(std::array::from_fn(|of| copy[of][lane]), tile[lane]);
            for of in 0..N {
                copy[of][lane] = lanes[of];
            }
        }
        for of in 0..N {
            parts[of].0[number] = copy[of];
        }
    }
    for (lane, value) in rest.iter().enumerate() {
        let lanes = rule(std::array::from_fn(|of| parts[of].1[lane]), *value);
        for of in 0..N {
            parts[of].1[lane] = lanes[of];
        }
    }
}

/// Adds `values` to `sum`, lane by lane.
#[inline(always)]
pub fn add(sum: &mut [f32], values: &[f32]) {
    by_tiles([sum], values, |[sum], value| [sum + value]);
}

/// Copies `values` to `to`.
#[inline(always)]
pub fn copy(to: &mut [f32], values: &[f32]) {
    by_tiles([to], values, |_, value| [value]);
}

/// Adds `values` times `factor` to `sum`.
#[inline(always)]
pub fn add_times(sum: &mut [f32], values: &[f32], factor: f32) {
    by_tiles([sum], values, |[sum], value| [sum + value * factor]);
}

/// Writes `values` times `factor` to `to`.
#[inline(always)]
pub fn copy_times(to: &mut [f32], values: &[f32], factor: f32) {
    by_tiles([to], values, |_, value| [value * factor]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_lane_is_met_once() {
        for lanes in [0, 1, 15, 16, 17, 40] {
            let number = |lane: usize| lane as f32;
            let (mut a, mut b) = (vec![1.0; lanes], (0..lanes).map(number).collect::<Vec<_>>());
            let operand: Vec<u16> = (0..lanes as u16).rev().collect();
            by_tiles([&mut a, &mut b], &operand, |[a, b], o| [a + b, b * f32::from(o)]);
            for lane in 0..lanes {
                assert_eq!(a[lane], 1.0 + number(lane));
                assert_eq!(b[lane], number(lane) * number(lanes - 1 - lane));
            }
            let mut sum = a.clone();
            add(&mut sum, &b);
            copy(&mut a, &b);
            assert!((0..lanes).all(|lane| sum[lane] == 1.0 + number(lane) + b[lane]));
            assert_eq!(a, b);
            copy_times(&mut sum, &b, 0.5);
            assert!((0..lanes).all(|lane| sum[lane] == 0.5 * b[lane]));
            add_times(&mut sum, &a, 2.0);
            assert!((0..lanes).all(|lane| sum[lane] == 2.5 * b[lane]));
        }
    }

    #[test]
    #[should_panic(expected = "vectors need equally many lanes")]
    fn vectors_have_the_same_lanes() {
        add(&mut [0.0; 17], &[0.0; 16]);
    }
}
