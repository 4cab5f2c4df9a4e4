//! Gradients by row, and the row optimizer, in one pass over the distinct rows.
//!
//! A row's gradient is the sum over its bags: in example order within a block, then over blocks by
//! the fixed binary tree (invariant I2). Blocks without an occurrence do not take part, rather
//! than adding a zero. Threads share out rows, so their number does not show.

use pulp::{Arch, Simd, WithSimd};
use stepwell_base::slab::RowsMut;
use stepwell_mem::Occurrence;
use stepwell_optim::{Storage, Stored};
use stepwell_server::History;

use crate::batch::GroupPart;
use crate::models::Model;
use crate::profile::{Kernel, Profile};
use crate::step::blocks::Blocks;
use crate::step::life::{self, Lives};
use crate::step::sums::Sums;

/// Rows that one task updates.
const GRAIN_ROWS: usize = 2048;
/// Rows between the request for a row and its use, and for the gradients of its bags.
const ROWS_AHEAD: usize = 8;
const BAGS_AHEAD: usize = 4;
/// Bags of a row whose gradients are asked for: most rows have few.
const BAGS_OF_A_ROW_AHEAD: usize = 4;

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

    fn update(&self, rows: RowsMut<'_>, occurrences: &mut [Occurrence], first: usize) {
        Arch::new().dispatch(Rows { update: self, rows, occurrences, first });
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

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { update, mut rows, occurrences, first } = self;
        let table = &update.model.tables()[update.group];
        let (width, lanes) = (table.weight_count(), table.model_lanes());
        let lookup = &update.part.lookup;
        let mut room = vec![0.0; width];
        let mut sums = Sums::new(update, width);
        for (index, occurrence) in occurrences.iter_mut().enumerate() {
            if index + ROWS_AHEAD < rows.len() {
                rows.prefetch(index + ROWS_AHEAD);
            }
            if index + BAGS_AHEAD < rows.len() {
                let bags = lookup.bags_of(first + index + BAGS_AHEAD);
                bags.iter().take(BAGS_OF_A_ROW_AHEAD).for_each(|bag| sums.prefetch(*bag));
            }
            if update.lives.is_some_and(|lives| lives.refused(first + index)) {
                continue;
            }
            let (gradient, seen) = sums.gradient(lookup.bags_of(first + index));
            *occurrence = seen;
            let (model, history) = rows.row(index).split_at_mut(lanes);
            let (weights, state) = model.split_at_mut(table.weight_lanes());
            if table.storage == Storage::F32 {
                table.optimizer.update_inline(weights, state, gradient);
            } else {
                let random = table.rounding(lookup.distinct[first + index], update.step);
                let (storage, room) = (table.storage, &mut room[..]);
                let stored = Stored { storage, lanes: weights, random, room };
                table.optimizer.update_stored(stored, state, gradient);
            }
            if update.lives.is_some() {
                let was = History::read(history);
                life::trained(was, update.step, occurrence).write(history);
            }
        }
    }
}
