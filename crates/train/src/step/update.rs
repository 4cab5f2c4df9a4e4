//! Gradients by row, and the row optimizer, in one pass over the distinct rows.
//!
//! A row's gradient is the sum over its bags: in example order within a block, then over blocks by
//! the fixed binary tree (invariant I2). Blocks without an occurrence do not take part, rather
//! than adding a zero. Threads share out rows, so their number does not show.

use stepwell_base::slab::RowsMut;
use stepwell_mem::Occurrence;
use stepwell_optim::{Storage, Stored};
use stepwell_server::History;

use crate::batch::GroupPart;
use crate::models::Model;
use crate::profile::{Kernel, Profile};
use crate::step::blocks::Blocks;
use crate::step::life::{self, Lives};

/// Rows that one task updates.
const GRAIN_ROWS: usize = 2048;
/// Rows that the processor is asked to fetch ahead.
const PREFETCH_ROWS: usize = 8;

/// Everything that the update of one group reads.
pub(super) struct Update<'a> {
    pub(super) model: &'a Model,
    pub(super) group: usize,
    pub(super) part: &'a GroupPart,
    pub(super) blocks: Blocks,
    pub(super) labels: &'a [f32],
    /// Gradient of the pooled embeddings. // (examples, embedding columns)
    pub(super) d_x: &'a [f32],
    /// Gradient of the logits. // (examples)
    pub(super) d_logits: &'a [f32],
    /// Which rows may be updated, where not all may.
    pub(super) lives: Option<&'a Lives>,
    /// The step that this is, from 1.
    pub(super) step: u64,
    pub(super) profile: &'a Profile,
}

impl Update<'_> {
    /// Updates all `rows` and notes how each occurred.
    pub(super) fn run(&self, rows: RowsMut<'_>, occurrences: &mut [Occurrence]) {
        self.share(rows, occurrences, 0);
    }

    fn share(&self, rows: RowsMut<'_>, occurrences: &mut [Occurrence], first: usize) {
        if rows.len() <= GRAIN_ROWS {
            self.profile.count(Kernel::Rows, 0, self.bytes(first..first + rows.len()));
            return self.profile.time(Kernel::Rows, || self.update(rows, occurrences, first));
        }
        let middle = rows.len() / 2;
        let (left, right) = rows.split_at(middle);
        let (left_seen, right_seen) = occurrences.split_at_mut(middle);
        rayon::join(
            || self.share(left, left_seen, first),
            || self.share(right, right_seen, first + middle),
        );
    }

    /// Bytes of gradients that the update of `rows` reads, and of rows that it reads and writes.
    fn bytes(&self, rows: std::ops::Range<usize>) -> u64 {
        let table = &self.model.tables()[self.group];
        let ends = &self.part.lookup.bag_ends;
        let before = |row: usize| if row == 0 { 0 } else { ends[row - 1] as usize };
        let bags = before(rows.end) - before(rows.start);
        let lanes = bags * table.weight_lanes() + 2 * rows.len() * table.model_lanes();
        (lanes * size_of::<f32>()) as u64
    }

    fn update(&self, mut rows: RowsMut<'_>, occurrences: &mut [Occurrence], first: usize) {
        let table = &self.model.tables()[self.group];
        let (width, lanes) = (table.weight_count(), table.model_lanes());
        let mut room = vec![0.0; width];
        let mut sums = Sums::new(self, width);
        for (index, occurrence) in occurrences.iter_mut().enumerate() {
            if index + PREFETCH_ROWS < rows.len() {
                rows.prefetch(index + PREFETCH_ROWS);
            }
            if self.lives.is_some_and(|lives| lives.refused(first + index)) {
                continue;
            }
            let bags = self.part.lookup.bags_of(first + index);
            *occurrence = self.occurrence(bags);
            let gradient = sums.gradient(bags);
            let (model, history) = rows.row(index).split_at_mut(lanes);
            let (weights, state) = model.split_at_mut(table.weight_lanes());
            if table.storage == Storage::F32 {
                table.optimizer.update(weights, state, gradient);
            } else {
                let key = self.part.lookup.distinct[first + index];
                let random = table.rounding(key, self.step);
                let (storage, room) = (table.storage, &mut room[..]);
                let stored = Stored { storage, lanes: weights, random, room };
                table.optimizer.update_stored(stored, state, gradient);
            }
            if self.lives.is_some() {
                let was = History::read(history);
                life::trained(was, self.step, occurrence).write(history);
            }
        }
    }

    fn occurrence(&self, bags: &[u32]) -> Occurrence {
        let fields = self.model.field_columns(self.group).len() as u32;
        let mut seen = Occurrence::default();
        let mut last = u32::MAX;
        for bag in bags {
            let example = bag / fields;
            if example != last {
                last = example;
                seen.examples += 1;
                seen.positives += u32::from(self.labels[example as usize] > 0.5);
            }
        }
        seen
    }
}

/// Sums of gradients by the fixed tree.
struct Sums<'a> {
    update: &'a Update<'a>,
    field_columns: &'a [usize],
    embedding_columns: usize,
    dim: usize,
    width: usize,
    /// One gradient for each level of the tree.
    levels: Vec<f32>,
}

impl<'a> Sums<'a> {
    fn new(update: &'a Update<'a>, width: usize) -> Self {
        let depth = update.blocks.count().ilog2() as usize + 2;
        Self {
            update,
            field_columns: update.model.field_columns(update.group),
            embedding_columns: update.model.embedding_columns(),
            dim: update.model.tables()[update.group].dim,
            width,
            levels: vec![0.0; width * depth],
        }
    }

    fn gradient(&mut self, bags: &[u32]) -> &[f32] {
        let mut levels = std::mem::take(&mut self.levels);
        match bags {
            [bag] => self.set(&mut levels[..self.width], *bag),
            _ => self.tree(&mut levels, bags, 0, self.update.blocks.count()),
        }
        self.levels = levels;
        &self.levels[..self.width]
    }

    /// Sums `bags`, not empty, of blocks `low..high` into the front of `levels`.
    fn tree(&self, levels: &mut [f32], bags: &[u32], low: usize, high: usize) {
        if high - low == 1 {
            return self.sequence(&mut levels[..self.width], bags);
        }
        let middle = low + (high - low).next_power_of_two() / 2;
        let fields = self.field_columns.len();
        let start = (self.update.blocks.start(middle) * fields) as u32;
        let split = bags.partition_point(|bag| *bag < start);
        let (left, right) = bags.split_at(split);
        if right.is_empty() {
            return self.tree(levels, left, low, middle);
        }
        if left.is_empty() {
            return self.tree(levels, right, middle, high);
        }
        self.tree(levels, left, low, middle);
        let (sum, rest) = levels.split_at_mut(self.width);
        self.tree(rest, right, middle, high);
        sum.iter_mut().zip(rest).for_each(|(sum, value)| *sum += *value);
    }

    fn sequence(&self, sum: &mut [f32], bags: &[u32]) {
        self.set(sum, bags[0]);
        for bag in &bags[1..] {
            let (embedding, wide) = sum.split_at_mut(self.dim);
            let (values, d_logit) = self.of(*bag);
            embedding.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
            wide.iter_mut().for_each(|sum| *sum += d_logit);
        }
    }

    fn set(&self, sum: &mut [f32], bag: u32) {
        let (embedding, wide) = sum.split_at_mut(self.dim);
        let (values, d_logit) = self.of(bag);
        embedding.copy_from_slice(values);
        wide.fill(d_logit);
    }

    /// The gradient of one bag: of its pooled embedding, and of its example's logit.
    #[inline]
    fn of(&self, bag: u32) -> (&'a [f32], f32) {
        let (example, field) =
            (bag as usize / self.field_columns.len(), bag as usize % self.field_columns.len());
        let start = example * self.embedding_columns + self.field_columns[field];
        (&self.update.d_x[start..start + self.dim], self.update.d_logits[example])
    }
}
