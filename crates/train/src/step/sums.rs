//! The gradient of a row: the sum over its bags, in a fixed order.
//!
//! Bags are added in example order within a block, and the blocks' sums by the fixed binary tree of
//! [`stepwell_nn::tree_sum`] over all blocks; a block without an occurrence does not take part,
//! rather than adding a zero (invariant I2).
//!
//! How: two blocks meet where their numbers, written in bits, begin to differ. So a stack of sums
//! is enough: before a block is put on it, its two upper sums meet as long as they do so further
//! down than the upper one and the block.
//!
//! ```text
//! blocks 1 3 4 6 of 8     1 │ 1 3 │ (1+3) 4 │ (1+3) 4 6 │ (1+3) (4+6) │ (1+3)+(4+6)
//! ```

use stepwell_mem::Occurrence;

use super::update::Update;

/// Lanes that are added at a time where there are so many.
const TILE: usize = 16;
/// Bags of the same row between the request for a gradient and its use.
const BAGS_AHEAD: usize = 6;
/// Sums on the stack: one for each bit of a block's number, and one.
const DEPTH_MAX: usize = u32::BITS as usize + 1;

/// Sums of gradients by the fixed tree.
pub(super) struct Sums<'a> {
    update: &'a Update<'a>,
    field_columns: &'a [usize],
    fields: Divisor,
    embedding_columns: usize,
    dim: usize,
    width: usize,
    /// Where each block's bags end.
    ends: Vec<u32>,
    /// The stack. // (sums, width)
    sums: Vec<f32>,
}

impl<'a> Sums<'a> {
    pub(super) fn new(update: &'a Update<'a>, width: usize) -> Self {
        let blocks = update.blocks;
        let field_columns = update.model.field_columns(update.group);
        let end = |block: usize| (blocks.start(block + 1) * field_columns.len()) as u32;
        let depth = blocks.count().ilog2() as usize + 2;
        Self {
            update,
            field_columns,
            fields: Divisor::new(field_columns.len() as u32),
            embedding_columns: update.model.embedding_columns(),
            dim: update.model.tables()[update.group].dim,
            width,
            ends: (0..blocks.count()).map(end).collect(),
            sums: vec![0.0; width * depth.min(DEPTH_MAX)],
        }
    }

    /// The gradient of the row that occurs in `bags`, not empty and in order, and how it occurs.
    #[inline(always)]
    pub(super) fn gradient(&mut self, bags: &[u32]) -> (&[f32], Occurrence) {
        let (width, mut seen, mut last) = (self.width, Occurrence::default(), u32::MAX);
        let mut stack = [0u32; DEPTH_MAX];
        let (mut depth, mut block, mut end) = (0, 0, 0);
        for (index, bag) in bags.iter().enumerate() {
            if let Some(ahead) = bags.get(index + BAGS_AHEAD) {
                self.prefetch(*ahead);
            }
            let example = self.fields.quotient(*bag);
            if example != last {
                last = example;
                seen.examples += 1;
                seen.positives += u32::from(self.update.labels[example as usize] > 0.5);
            }
            let (values, d_logit) = self.of(*bag, example);
            if *bag < end {
                let (embedding, wide) =
                    self.sums[(depth - 1) * width..depth * width].split_at_mut(self.dim);
                add(embedding, values);
                wide.iter_mut().for_each(|sum| *sum += d_logit);
                continue;
            }
            while *bag >= self.ends[block] {
                block += 1;
            }
            end = self.ends[block];
            let number = block as u32;
            while depth > 1 && stack[depth - 2] ^ stack[depth - 1] < stack[depth - 1] ^ number {
                depth -= 1;
                self.meet(depth);
            }
            stack[depth] = number;
            let (embedding, wide) =
                self.sums[depth * width..(depth + 1) * width].split_at_mut(self.dim);
            copy(embedding, values);
            wide.fill(d_logit);
            depth += 1;
        }
        while depth > 1 {
            depth -= 1;
            self.meet(depth);
        }
        (&self.sums[..width], seen)
    }

    /// Adds the sum number `upper` of the stack to the one below it.
    #[inline(always)]
    fn meet(&mut self, upper: usize) {
        let (below, above) = self.sums.split_at_mut(upper * self.width);
        add(&mut below[(upper - 1) * self.width..], &above[..self.width]);
    }

    /// The gradient of one bag: of its pooled embedding, and of its example's logit.
    #[inline(always)]
    fn of(&self, bag: u32, example: u32) -> (&'a [f32], f32) {
        let field = bag as usize - example as usize * self.field_columns.len();
        let start = example as usize * self.embedding_columns + self.field_columns[field];
        (&self.update.d_x[start..start + self.dim], self.update.d_logits[example as usize])
    }

    /// Asks the processor to fetch the gradient of one bag.
    #[inline(always)]
    pub(super) fn prefetch(&self, bag: u32) {
        let (values, _) = self.of(bag, self.fields.quotient(bag));
        stepwell_base::prefetch::prefetch_row(values);
    }
}

#[inline(always)]
fn add(sum: &mut [f32], values: &[f32]) {
    if let (Ok(sum), Ok(values)) =
        (<&mut [f32; TILE]>::try_from(&mut *sum), <&[f32; TILE]>::try_from(values))
    {
        for lane in 0..TILE {
            sum[lane] += values[lane];
        }
        return;
    }
    sum.iter_mut().zip(values).for_each(|(sum, value)| *sum += *value);
}

#[inline(always)]
fn copy(to: &mut [f32], values: &[f32]) {
    if let (Ok(to), Ok(values)) =
        (<&mut [f32; TILE]>::try_from(&mut *to), <&[f32; TILE]>::try_from(values))
    {
        *to = *values;
        return;
    }
    to.copy_from_slice(values);
}

/// Divides by a number that stays the same, by a multiplication.
///
/// Source: Lemire, Kaser, Kurz, "Faster remainder by direct computation" (2019), section 3: exact
/// for all dividends and divisors of 32 bits.
#[derive(Clone, Copy, Debug)]
struct Divisor {
    /// 2^64 over the divisor, rounded up; 0 for a divisor of 1.
    inverse: u64,
}

impl Divisor {
    fn new(divisor: u32) -> Self {
        assert!(divisor > 0, "a group has fields");
        Self { inverse: (u64::MAX / u64::from(divisor)).wrapping_add(1) }
    }

    #[inline(always)]
    fn quotient(self, dividend: u32) -> u32 {
        if self.inverse == 0 {
            return dividend;
        }
        ((u128::from(self.inverse) * u128::from(dividend)) >> u64::BITS) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotients_are_exact() {
        for divisor in [1, 2, 3, 7, 26, 39, 255, 65_536, u32::MAX] {
            let by = Divisor::new(divisor);
            let near = |number: u32| [number.wrapping_sub(1), number, number.wrapping_add(1)];
            let multiples = (0..200).flat_map(|times| near(divisor.wrapping_mul(times)));
            for dividend in multiples.chain(near(0)).chain(near(1 << 31)) {
                assert_eq!(by.quotient(dividend), dividend / divisor, "{dividend} / {divisor}");
            }
        }
    }

    /// The order in which blocks meet, as text: by the stack, and by the recursive tree.
    #[test]
    fn blocks_meet_as_in_the_tree() {
        fn tree(blocks: &[u32], low: u32, high: u32) -> String {
            if high - low == 1 {
                return low.to_string();
            }
            let middle = low + (high - low).next_power_of_two() / 2;
            let (left, right) = blocks.split_at(blocks.partition_point(|block| *block < middle));
            match (left.is_empty(), right.is_empty()) {
                (true, _) => tree(right, middle, high),
                (_, true) => tree(left, low, middle),
                _ => format!("({}+{})", tree(left, low, middle), tree(right, middle, high)),
            }
        }
        fn stack(blocks: &[u32]) -> String {
            let mut sums: Vec<(u32, String)> = Vec::new();
            let meet = |sums: &mut Vec<(u32, String)>| {
                let (_, above) = sums.pop().unwrap();
                let (_, below) = sums.last_mut().unwrap();
                *below = format!("({below}+{above})");
            };
            for block in blocks {
                while let [.., (x, _), (y, _)] = sums.as_slice()
                    && x ^ y < y ^ block
                {
                    meet(&mut sums);
                }
                sums.push((*block, block.to_string()));
            }
            while sums.len() > 1 {
                meet(&mut sums);
            }
            sums.remove(0).1
        }
        for count in 1..=9u32 {
            for mask in 1..1u32 << count {
                let blocks: Vec<u32> = (0..count).filter(|block| mask >> block & 1 == 1).collect();
                assert_eq!(stack(&blocks), tree(&blocks, 0, count), "{blocks:?} of {count}");
            }
        }
    }
}
