//! Sums of a row's gradient over its bags, in a fixed order.
//!
//! Bags are added in example order within a block, and the blocks' sums by the fixed binary tree of
//! [`stepwell_nn::tree_sum`] over all blocks. A block without an occurrence is left out, instead of
//! adding a zero (invariant I2).
//!
//! - **How.** Two blocks meet at the highest bit in which their numbers differ. So a stack of sums
//!   suffices: before a block is pushed, the two upper sums are added as long as they meet at a
//!   lower bit than the upper one and the block.
//!
//! ```text
//! blocks 1 3 4 6 of 8     1 │ 1 3 │ (1+3) 4 │ (1+3) 4 6 │ (1+3) (4+6) │ (1+3)+(4+6)
//! ```

pub(super) mod combine;

use std::ops::Range;

use stepwell_base::prefetch::prefetch_row;
use stepwell_base::tiles::{TILE, add, add_times, copy, copy_times};
use stepwell_mem::Occurrence;

use super::workspaces::refill;
use crate::blocks::Blocks;
use crate::request::{BagsByRow, Field};

/// Bags between the prefetch of a gradient and its use, within one row or across rows.
const BAGS_AHEAD: usize = 16;
/// Maximum number of sums on the stack: one for each bit of a block's number, plus one.
const DEPTH_MAX: usize = u32::BITS as usize + 1;

/// Buffers for sums, reused across tasks.
#[derive(Debug, Default)]
pub(super) struct SumsRoom {
    /// Where each block's bags end.
    ends: Vec<u32>,
    /// The stack. // (sums, width)
    sums: Vec<f32>,
}

impl SumsRoom {
    /// Maximum lanes of one set of buffers, for rows of `width` weights.
    pub(super) fn lanes_max(width: usize, blocks: usize) -> usize {
        blocks + width * Self::depth(blocks)
    }

    /// Number of sums on the stack that suffices for any number of blocks.
    pub(super) const DEPTH: usize = DEPTH_MAX;

    /// The stack for sums of `width` lanes over `blocks` blocks.
    #[inline(always)]
    pub(super) fn stack(&mut self, width: usize, blocks: usize) -> &mut [f32] {
        refill(&mut self.sums, width * Self::depth(blocks));
        &mut self.sums
    }

    /// Maximum number of sums on the stack for `blocks` blocks.
    fn depth(blocks: usize) -> usize {
        (blocks.max(1).ilog2() as usize + 2).min(DEPTH_MAX)
    }
}

/// Gradients of a mini-batch, from the model above.
#[derive(Clone, Copy, Debug)]
pub struct Gradients<'a> {
    /// Gradient of the pooled embeddings. // (examples, columns)
    pub d_x: &'a [f32],
    /// Gradient of the sums of first-order weights. // (examples)
    pub d_first_order: &'a [f32],
    /// Labels; above 0.5 is a click, which makes its rows more important. // (examples)
    pub labels: &'a [f32],
}

/// Bags of a table's rows, and their gradients.
#[derive(Clone, Copy)]
pub(super) struct TableBags<'a> {
    pub(super) bags: &'a BagsByRow,
    pub(super) gradients: Gradients<'a>,
    pub(super) fields: &'a [Field],
    /// Number of columns of the pooled embeddings.
    pub(super) columns: usize,
    pub(super) blocks: Blocks,
}

/// Gradients of rows, requested one after another.
pub(super) trait RowGradients {
    /// The gradient of row `row`, and how the row occurs.
    fn of(&mut self, row: usize) -> (&[f32], Occurrence);
}

/// Gradients of rows that the caller summed.
pub(super) struct GivenSums<'a> {
    pub(super) bags: &'a TableBags<'a>,
    /// Gradient of each row. // (rows, width)
    pub(super) gradients: &'a [f32],
    pub(super) width: usize,
}

impl RowGradients for GivenSums<'_> {
    #[inline(always)]
    fn of(&mut self, row: usize) -> (&[f32], Occurrence) {
        let TableBags { bags, fields, gradients, .. } = self.bags;
        let occurrence = occurrence(bags.of(row), fields.len(), gradients.labels);
        (&self.gradients[row * self.width..(row + 1) * self.width], occurrence)
    }
}

/// Sums of gradients by the fixed tree; if `WEIGHED`, each gradient is multiplied by its row's
/// factor in the bag.
pub(super) struct Sums<'a, const WEIGHED: bool> {
    gradients: BagGradients<'a>,
    /// Where the bags of each row end.
    rows: &'a [u32],
    ends: &'a [u32],
    /// Number of blocks of the mini-batch before the first of `ends`.
    first: u32,
    sums: &'a mut [f32],
    width: usize,
}

impl<'a, const WEIGHED: bool> Sums<'a, WEIGHED> {
    /// Sums for rows of `width` weights, whose embeddings have `dim` lanes.
    #[inline(always)]
    pub(super) fn new(
        of: &'a TableBags<'a>,
        dim: usize,
        width: usize,
        room: &'a mut SumsRoom,
    ) -> Self {
        let sums = Self::of(BagGradients::new(of, dim), of.blocks, width, room);
        Self { rows: &of.bags.ends, ..sums }
    }

    #[inline(always)]
    fn of(
        gradients: BagGradients<'a>,
        blocks: Blocks,
        width: usize,
        room: &'a mut SumsRoom,
    ) -> Self {
        let end = |block: usize| (blocks.start(block + 1) * gradients.of_fields.len()) as u32;
        room.ends.clear();
        room.ends.reserve_exact(blocks.count());
        room.ends.extend((0..blocks.count()).map(end));
        refill(&mut room.sums, width * SumsRoom::depth(blocks.count()));
        let first = blocks.first() as u32;
        Self { gradients, rows: &[], ends: &room.ends, first, sums: &mut room.sums, width }
    }

    /// The sum over these bags (at least one), and how their row occurs.
    ///
    /// Most rows occur once or twice, which needs no tree.
    #[inline(always)]
    pub(super) fn gradient(&mut self, bags: Range<usize>) -> (&[f32], Occurrence) {
        let mut seen = Seen::default();
        match bags.len() {
            1 => self.start(0, bags.start, &mut seen),
            2 => {
                self.start(0, bags.start, &mut seen);
                let bag = self.gradients.of::<WEIGHED>(bags.start + 1, &mut seen);
                let (embedding, wide) = self.place(0);
                bag.add_to::<WEIGHED>(embedding);
                for sum in wide {
                    *sum += bag.wide::<WEIGHED>();
                }
            }
            _ => self.by_block(bags, &mut seen),
        }
        (&self.sums[..self.width], seen.occurrence)
    }

    /// Sums the bags of each block and combines the blocks' sums.
    #[inline(always)]
    fn by_block(&mut self, bags: Range<usize>, seen: &mut Seen) {
        let mut stack = [0u32; DEPTH_MAX];
        let (mut depth, mut block, mut at) = (0, 0, bags.start);
        while at < bags.end {
            while self.gradients.bags[at] >= self.ends[block] {
                block += 1;
            }
            let number = self.first + block as u32;
            while depth > 1 && stack[depth - 2] ^ stack[depth - 1] < stack[depth - 1] ^ number {
                depth -= 1;
                self.meet(depth);
            }
            stack[depth] = number;
            self.start(depth, at, seen);
            at = self.go_on(depth, at + 1..bags.end, self.ends[block], seen);
            depth += 1;
        }
        while depth > 1 {
            depth -= 1;
            self.meet(depth);
        }
    }

    /// Starts sum number `place` of the stack with bag number `at`.
    #[inline(always)]
    fn start(&mut self, place: usize, at: usize, seen: &mut Seen) {
        let bag = self.gradients.of::<WEIGHED>(at, seen);
        let (embedding, wide) = self.place(place);
        bag.copy_to::<WEIGHED>(embedding);
        wide.fill(bag.wide::<WEIGHED>());
    }

    /// Adds the `bags` before `end` to sum number `place`; returns the number of the first bag that
    /// isn't before `end`.
    #[inline(always)]
    fn go_on(&mut self, place: usize, bags: Range<usize>, end: u32, seen: &mut Seen) -> usize {
        let gradients = self.gradients;
        let (embedding, wide) = self.place(place);
        let mut of_wide = wide.first().copied().unwrap_or_default();
        let next = if let Ok(sum) = <&mut [f32; TILE]>::try_from(&mut *embedding) {
            let mut in_register = *sum;
            let sums = &mut in_register[..];
            let next = gradients.add_each::<WEIGHED>(bags, end, sums, &mut of_wide, seen);
            *sum = in_register;
            next
        } else {
            gradients.add_each::<WEIGHED>(bags, end, embedding, &mut of_wide, seen)
        };
        wide.fill(of_wide);
        next
    }

    /// Adds sum number `upper` of the stack to the one below it.
    #[inline(always)]
    fn meet(&mut self, upper: usize) {
        let (below, above) = self.sums.split_at_mut(upper * self.width);
        add(&mut below[(upper - 1) * self.width..], &above[..self.width]);
    }

    /// Sum number `place` of the stack: of the embedding, and of the wide weight.
    #[inline(always)]
    fn place(&mut self, place: usize) -> (&mut [f32], &mut [f32]) {
        let sum = &mut self.sums[place * self.width..(place + 1) * self.width];
        sum.split_at_mut(self.gradients.dim)
    }
}

impl<const WEIGHED: bool> RowGradients for Sums<'_, WEIGHED> {
    #[inline(always)]
    fn of(&mut self, row: usize) -> (&[f32], Occurrence) {
        let before = if row == 0 { 0 } else { self.rows[row - 1] };
        self.gradient(before as usize..self.rows[row] as usize)
    }
}

/// Sums over bags, plus the gradient that the caller gave for each row.
pub(super) struct SumsAndGiven<'a, const WEIGHED: bool> {
    pub(super) sums: Sums<'a, WEIGHED>,
    /// Gradient of each row. // (rows, width)
    pub(super) given: &'a [f32],
    pub(super) width: usize,
}

impl<const WEIGHED: bool> RowGradients for SumsAndGiven<'_, WEIGHED> {
    #[inline(always)]
    fn of(&mut self, row: usize) -> (&[f32], Occurrence) {
        let Self { sums, given, width } = self;
        let (_, seen) = sums.of(row);
        // The sum is at the bottom of the stack.
        let sum = &mut sums.sums[..*width];
        add(sum, &given[row * *width..(row + 1) * *width]);
        (sum, seen)
    }
}

/// The gradient of one bag, and the factor of a row in it.
struct BagGradient<'a> {
    /// Gradient of the bag's pooled embedding.
    values: &'a [f32],
    /// Gradient of the example's sum of first-order weights.
    d_wide: f32,
    factor: f32,
}

impl BagGradient<'_> {
    #[inline(always)]
    fn copy_to<const WEIGHED: bool>(&self, to: &mut [f32]) {
        if WEIGHED { copy_times(to, self.values, self.factor) } else { copy(to, self.values) }
    }

    #[inline(always)]
    fn add_to<const WEIGHED: bool>(&self, sum: &mut [f32]) {
        if WEIGHED { add_times(sum, self.values, self.factor) } else { add(sum, self.values) }
    }

    #[inline(always)]
    fn wide<const WEIGHED: bool>(&self) -> f32 {
        if WEIGHED { self.d_wide * self.factor } else { self.d_wide }
    }
}

/// The gradients of bags.
#[derive(Clone, Copy)]
struct BagGradients<'a> {
    /// Bags by row. // (occurrences)
    bags: &'a [u32],
    /// Factor of the row in each bag; empty if all are 1. // (occurrences)
    factors: &'a [f32],
    /// Gradient of the pooled embeddings. // (examples, embedding columns)
    d_x: &'a [f32],
    /// Gradient of the sums of first-order weights. // (examples)
    d_first_order: &'a [f32],
    labels: &'a [f32],
    of_fields: &'a [Field],
    fields: Divisor,
    columns: usize,
    dim: usize,
}

impl<'a> BagGradients<'a> {
    #[inline(always)]
    fn new(of: &TableBags<'a>, dim: usize) -> Self {
        let TableBags { fields: of_fields, columns, bags, gradients, .. } = *of;
        Self {
            bags: &bags.bags,
            factors: &bags.factors,
            d_x: gradients.d_x,
            d_first_order: gradients.d_first_order,
            labels: gradients.labels,
            of_fields,
            fields: Divisor::new(of_fields.len() as u32),
            columns,
            dim,
        }
    }

    /// The gradient of bag number `at`. Prefetches a later one.
    #[inline(always)]
    fn of<const WEIGHED: bool>(&self, at: usize, seen: &mut Seen) -> BagGradient<'a> {
        if self.dim > 0
            && let Some(ahead) = self.bags.get(at + BAGS_AHEAD)
        {
            prefetch_row(self.embedding(*ahead, self.fields.quotient(*ahead)));
        }
        let bag = self.bags[at];
        let example = self.fields.quotient(bag);
        seen.meet(example, self.labels);
        BagGradient {
            values: self.embedding(bag, example),
            d_wide: self.d_first_order[example as usize],
            factor: if WEIGHED { self.factors[at] } else { 1.0 },
        }
    }

    #[inline(always)]
    fn embedding(&self, bag: u32, example: u32) -> &'a [f32] {
        if self.dim == 0 {
            return &[];
        }
        let field = bag as usize - example as usize * self.of_fields.len();
        let start = example as usize * self.columns + self.of_fields[field].column;
        &self.d_x[start..start + self.dim]
    }

    /// Adds the gradients of the `bags` before `end`; returns the number of the first bag that
    /// isn't before `end`. The loop takes no closure, because a closure was compiled separately and
    /// called for each bag.
    #[inline(always)]
    fn add_each<const WEIGHED: bool>(
        &self,
        bags: Range<usize>,
        end: u32,
        embedding: &mut [f32],
        wide: &mut f32,
        seen: &mut Seen,
    ) -> usize {
        let mut at = bags.start;
        while at < bags.end && self.bags[at] < end {
            let bag = self.of::<WEIGHED>(at, seen);
            bag.add_to::<WEIGHED>(embedding);
            *wide += bag.wide::<WEIGHED>();
            at += 1;
        }
        at
    }
}

/// Counts how a row occurs, bag by bag.
#[derive(Clone, Copy, Default)]
struct Seen {
    occurrence: Occurrence,
    /// The last example seen, plus one.
    last: u32,
}

impl Seen {
    #[inline(always)]
    fn meet(&mut self, example: u32, labels: &[f32]) {
        let is_new = u32::from(self.last != example + 1);
        self.last = example + 1;
        self.occurrence.examples += is_new;
        self.occurrence.positives += is_new & u32::from(labels[example as usize] > 0.5);
    }
}

/// How a row with these `bags` occurs, with `fields` bags per example.
pub(super) fn occurrence(bags: &[u32], fields: usize, labels: &[f32]) -> Occurrence {
    let (mut seen, fields) = (Seen::default(), Divisor::new(fields as u32));
    bags.iter().for_each(|bag| seen.meet(fields.quotient(*bag), labels));
    seen.occurrence
}

/// Divides by a fixed number with a multiplication.
///
/// Source: Lemire, Kaser, Kurz, "Faster remainder by direct computation" (2019), section 3; exact
/// for all 32-bit dividends and divisors.
#[derive(Clone, Copy, Debug)]
struct Divisor {
    /// 2^64 divided by the divisor, rounded up; 0 for a divisor of 1.
    inverse: u64,
}

impl Divisor {
    fn new(divisor: u32) -> Self {
        assert!(divisor > 0, "a group has at least one field");
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
mod tests;
