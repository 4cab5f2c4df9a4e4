//! Gradients by row, and the row optimizer, in one pass over the distinct rows.
//!
//! A row's gradient is the sum over its bags: in example order within a block, then over blocks by
//! the fixed binary tree (invariant I2). Blocks without an occurrence do not take part, rather
//! than adding a zero. Threads share out rows, so their number does not show.

use pulp::{Arch, Simd, WithSimd};
use stepwell_base::slab::RowsMut;
use stepwell_engine::{History, TableSpec};
use stepwell_mem::Occurrence;
use stepwell_optim::{Storage, Stored};

use crate::batch::GroupPart;
use crate::models::Model;
use crate::profile::{Kernel, Profile};
use crate::step::blocks::Blocks;
use crate::step::desks::{Desks, refill};
use crate::step::life::{self, Lives};
use crate::step::sums::{Sums, SumsRoom};

/// Bags that one task takes, unless a row has more by itself.
const GRAIN_BAGS: usize = 4096;
/// Rows between the request for a row and its use.
const ROWS_AHEAD: usize = 8;

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
    pub(super) desks: &'a Desks<Desk>,
}

impl Update<'_> {
    /// Updates all `rows` and notes how each occurred.
    pub(super) fn run(&self, rows: RowsMut<'_>, occurrences: &mut [Occurrence]) {
        self.share(rows, occurrences, 0);
    }

    /// Halves the bags rather than the rows: the most frequent rows come first in a mini-batch, so
    /// that one thread would have most of the bags.
    fn share(&self, rows: RowsMut<'_>, occurrences: &mut [Occurrence], first: usize) {
        let (lookup, range) = (&self.part.lookup, first..first + rows.len());
        let before = lookup.bags_before(range.start);
        let bags = lookup.bags_before(range.end) - before;
        if bags <= GRAIN_BAGS || rows.len() < 2 {
            self.profile.count(Kernel::Rows, 0, self.bytes(range));
            return self.profile.time(Kernel::Rows, || self.update(rows, occurrences, first));
        }
        let is_left = |end: &u32| *end as usize - before <= bags / 2;
        let middle = lookup.bag_ends[range].partition_point(is_left).clamp(1, rows.len() - 1);
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
        let lookup = &self.part.lookup;
        let bags = lookup.bags_before(rows.end) - lookup.bags_before(rows.start);
        let lanes = bags * table.weight_lanes() + 2 * rows.len() * table.model_lanes();
        (lanes * size_of::<f32>()) as u64
    }

    fn update(&self, rows: RowsMut<'_>, occurrences: &mut [Occurrence], first: usize) {
        Arch::new().dispatch(Rows { update: self, rows, occurrences, first });
    }
}

/// What one task needs beside the rows.
#[derive(Debug, Default)]
pub(super) struct Desk {
    sums: SumsRoom,
    /// Weights in f32, where rows keep them otherwise. // (weights)
    weights: Vec<f32>,
}

impl Desk {
    /// The most lanes of one, for any table of `model`.
    pub(super) fn lanes_max(model: &Model, blocks: usize) -> usize {
        let width = model.tables().iter().map(TableSpec::weight_count).max().unwrap_or(0);
        width + SumsRoom::lanes_max(width, blocks)
    }
}

/// The rows of one task, from the row number `first` of the mini-batch on.
struct Rows<'a> {
    update: &'a Update<'a>,
    rows: RowsMut<'a>,
    occurrences: &'a mut [Occurrence],
    first: usize,
}

impl WithSimd for Rows<'_> {
    type Output = ();

    /// Loops are unrolled for the usual embeddings: none, and of 16 lanes.
    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let desks = self.update.desks;
        let table = &self.update.model.tables()[self.update.group];
        let mut desk = desks.take(Desk::default);
        match (table.storage, table.dim) {
            (Storage::F32, 0) => self.run(Storage::F32, 0, &mut desk),
            (Storage::F32, 16) => self.run(Storage::F32, 16, &mut desk),
            (storage, dim) => self.run(storage, dim, &mut desk),
        }
        desks.put_back(desk);
    }
}

impl Rows<'_> {
    #[inline(always)]
    fn run(self, storage: Storage, dim: usize, desk: &mut Desk) {
        let Self { update, mut rows, occurrences, first } = self;
        let table = &update.model.tables()[update.group];
        let (weights, lanes) = (table.weight_lanes(), table.model_lanes());
        let lookup = &update.part.lookup;
        refill(&mut desk.weights, table.weight_count());
        let mut sums = Sums::new(update, dim, &mut desk.sums);
        for (index, occurrence) in occurrences.iter_mut().enumerate() {
            rows.prefetch(index + ROWS_AHEAD);
            if update.lives.is_some_and(|lives| lives.refused(first + index)) {
                continue;
            }
            let (gradient, seen) = sums.gradient(lookup.bag_range(first + index));
            *occurrence = seen;
            let (model, history) = rows.row(index).split_at_mut(lanes);
            let (weights, state) = model.split_at_mut(weights);
            if storage == Storage::F32 {
                table.optimizer.update_inline(weights, state, gradient);
            } else {
                let random = table.rounding(lookup.distinct[first + index], update.step);
                let stored = Stored { storage, lanes: weights, random, room: &mut desk.weights };
                table.optimizer.update_stored(stored, state, gradient);
            }
            if update.lives.is_some() {
                let was = History::read(history);
                life::trained(was, update.step, occurrence).write(history);
            }
        }
    }
}
