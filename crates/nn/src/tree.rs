//! Sums over blocks in one fixed binary tree.
//!
//! Neighbors are added in pairs, level by level; an odd last one waits for the next level:
//!
//! ```text
//! 8 blocks   ((0+1)+(2+3)) + ((4+5)+(6+7))
//! 7 blocks   ((0+1)+(2+3)) + ((4+5)+6)
//! 5 blocks   ((0+1)+(2+3)) + 4
//! ```
//!
//! Equivalently, the left branch takes the largest power of two below the count. Lanes are
//! independent, so threads may each sum a range of lanes, and every input lane is read once.

use pulp::{Arch, Simd, WithSimd};

use crate::gemm::Scalar;

/// Lanes summed at a time; a branch keeps a partial sum of this size on the stack.
const TILE: usize = 128;

/// Sets `sum` to the sum of `blocks`, lane by lane; zero if there are none.
pub fn tree_sum<T: Scalar>(blocks: &[&[T]], sum: &mut [T]) {
    for block in blocks {
        assert_eq!(block.len(), sum.len(), "blocks have the lanes of their sum");
    }
    Arch::new().dispatch(TreeSum { blocks, sum });
}

/// Sum of `values`, one per block, in the same tree.
pub fn tree_sum_values<T: Scalar>(values: &[T]) -> T {
    match values {
        [] => T::ZERO,
        [value] => *value,
        _ => {
            let (left, right) = values.split_at(left_count(values.len()));
            tree_sum_values(left) + tree_sum_values(right)
        }
    }
}

/// Blocks in the left branch of a tree of `count` blocks, at least 2: the largest power of two
/// below `count`.
fn left_count(count: usize) -> usize {
    count.next_power_of_two() / 2
}

struct TreeSum<'a, T> {
    blocks: &'a [&'a [T]],
    sum: &'a mut [T],
}

impl<T: Scalar> WithSimd for TreeSum<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        if let [a, b, c, d, e, f, g, h] = self.blocks {
            return sum_of_eight([a, b, c, d, e, f, g, h], self.sum);
        }
        for (index, tile) in self.sum.chunks_mut(TILE).enumerate() {
            branch(self.blocks, index * TILE, tile);
        }
    }
}

/// The usual number of blocks, without partial sums in memory.
#[inline(always)]
fn sum_of_eight<T: Scalar>(blocks: [&[T]; 8], sum: &mut [T]) {
    let lanes = sum.len();
    let [a, b, c, d, e, f, g, h] = blocks.map(|block| &block[..lanes]);
    for i in 0..lanes {
        sum[i] = ((a[i] + b[i]) + (c[i] + d[i])) + ((e[i] + f[i]) + (g[i] + h[i]));
    }
}

/// Sets `tile` to the sum of `blocks`, starting at lane `start`.
fn branch<T: Scalar>(blocks: &[&[T]], start: usize, tile: &mut [T]) {
    let lanes = start..start + tile.len();
    match blocks {
        [] => tile.fill(T::ZERO),
        [block] => tile.copy_from_slice(&block[lanes]),
        _ => {
            let (left, right) = blocks.split_at(left_count(blocks.len()));
            branch(left, start, tile);
            if let [block] = right {
                tile.iter_mut().zip(&block[lanes]).for_each(|(t, b)| *t += *b);
                return;
            }
            let mut other = [T::ZERO; TILE];
            let other = &mut other[..tile.len()];
            branch(right, start, other);
            tile.iter_mut().zip(other).for_each(|(t, o)| *t += *o);
        }
    }
}

/// Sets `sum` to the sum over all blocks of a tree, lane by lane, given the sums of subtrees. Each
/// has the number of its first block, in ascending order.
///
/// The result has the same bits as [`tree_sum`] over the blocks.
pub fn tree_sum_of_subtrees<T: Scalar>(subtrees: &[(usize, &[T])], sum: &mut [T]) {
    for (_, values) in subtrees {
        assert_eq!(values.len(), sum.len(), "subtrees have the lanes of their sum");
    }
    Arch::new().dispatch(SubtreeSum { subtrees, sum });
}

struct SubtreeSum<'a, T> {
    subtrees: &'a [(usize, &'a [T])],
    sum: &'a mut [T],
}

impl<T: Scalar> WithSimd for SubtreeSum<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        for (index, tile) in self.sum.chunks_mut(TILE).enumerate() {
            subtree_branch(self.subtrees, index * TILE, tile);
        }
    }
}

/// Sets `tile` to the sum of `subtrees`, starting at lane `start`. They are split at the highest
/// bit in which the numbers of the first and the last differ.
fn subtree_branch<T: Scalar>(subtrees: &[(usize, &[T])], start: usize, tile: &mut [T]) {
    let lanes = start..start + tile.len();
    let (first, last) = match subtrees {
        [] => return tile.fill(T::ZERO),
        [(_, values)] => return tile.copy_from_slice(&values[lanes]),
        [(first, _), .., (last, _)] => (*first, *last),
    };
    let bit = 1 << (first ^ last).ilog2();
    let middle = subtrees.partition_point(|(block, _)| block & bit == first & bit);
    let (left, right) = subtrees.split_at(middle);
    subtree_branch(left, start, tile);
    let mut other = [T::ZERO; TILE];
    let other = &mut other[..tile.len()];
    subtree_branch(right, start, other);
    tile.iter_mut().zip(other).for_each(|(t, o)| *t += *o);
}

#[cfg(test)]
mod tests {
    use super::*;
    use stepwell_base::random::Stream;

    /// Level by level, as in the module's documentation.
    fn by_levels(mut values: Vec<f32>) -> f32 {
        while values.len() > 1 {
            values = values
                .chunks(2)
                .map(|pair| pair.iter().copied().reduce(|a, b| a + b))
                .map(Option::unwrap)
                .collect();
        }
        values.first().copied().unwrap_or(0.0)
    }

    #[test]
    fn any_count_of_blocks_follows_the_tree() {
        let mut stream = Stream::named(1, b"tree");
        for count in 0..20 {
            let blocks: Vec<Vec<f32>> = (0..count)
                .map(|_| (0..301).map(|_| stream.next_symmetric(1.0)).collect())
                .collect();
            let slices: Vec<&[f32]> = blocks.iter().map(Vec::as_slice).collect();
            let mut sum = vec![f32::NAN; 301];
            tree_sum(&slices, &mut sum);
            for lane in 0..301 {
                let values: Vec<f32> = blocks.iter().map(|block| block[lane]).collect();
                assert_eq!(sum[lane].to_bits(), by_levels(values.clone()).to_bits(), "{count}");
                assert_eq!(sum[lane].to_bits(), tree_sum_values(&values).to_bits());
            }
            let mut parts = vec![f32::NAN; 301];
            for (index, part) in parts.chunks_mut(37).enumerate() {
                let range = index * 37..index * 37 + part.len();
                let slices: Vec<&[f32]> = blocks.iter().map(|b| &b[range.clone()]).collect();
                tree_sum(&slices, part);
            }
            assert_eq!(sum, parts);
        }
    }

    #[test]
    fn subtrees_sum_to_the_bits_of_their_blocks() {
        let mut stream = Stream::named(2, b"tree");
        for count in 1..20usize {
            let blocks: Vec<Vec<f32>> = (0..count)
                .map(|_| (0..301).map(|_| stream.next_symmetric(1.0)).collect())
                .collect();
            let sum_of = |blocks: &[Vec<f32>]| {
                let slices: Vec<&[f32]> = blocks.iter().map(Vec::as_slice).collect();
                let mut sum = vec![f32::NAN; 301];
                tree_sum(&slices, &mut sum);
                sum
            };
            let wanted = sum_of(&blocks);
            for _ in 0..20 {
                // Random sizes that are whole subtrees.
                let (mut first, mut sums) = (0, Vec::new());
                while first < count {
                    let most = (count - first).ilog2().min(first.trailing_zeros());
                    let size = 1 << (stream.next_u64() % u64::from(most + 1));
                    sums.push((first, sum_of(&blocks[first..first + size])));
                    first += size;
                }
                let subtrees: Vec<(usize, &[f32])> =
                    sums.iter().map(|(first, sum)| (*first, &sum[..])).collect();
                let mut sum = vec![f32::NAN; 301];
                tree_sum_of_subtrees(&subtrees, &mut sum);
                assert_eq!(sum, wanted, "{count} blocks");
            }
        }
    }
}
