//! Updates rows: sums gradients by row and applies the row optimizer, in one pass over distinct
//! rows.
//!
//! A row's gradient is the sum over its bags: in example order within a block, then over blocks by
//! the fixed binary tree (invariant I2). Blocks without an occurrence are left out, instead of
//! adding a zero. Threads divide the rows, so their number has no effect.

use pulp::{Arch, Simd, WithSimd};
use stepwell_base::Key;
use stepwell_base::slab::RowsMut;
use stepwell_mem::Occurrence;
use stepwell_optim::{Storage, Stored};

use super::admission::{self, Admissions};
use super::laps::Laps;
use super::sums::combine::{Combined, Partials};
use super::sums::{GivenSums, RowGradients, Sums, SumsAndGiven, SumsRoom, TableBags};
use super::workspaces::{Workspaces, refill};
use crate::life::History;
use crate::request::{BagsByRow, Request};
use crate::table_spec::TableSpec;
use crate::working_set::Loan;

/// Number of bags that one task takes, unless a single row has more.
const GRAIN_BAGS: usize = 4096;
/// Rows between the prefetch of a row and its use.
const ROWS_AHEAD: usize = 8;

/// Inputs for the update of one table.
pub(super) struct Update<'a> {
    pub(super) table: &'a TableSpec,
    /// Whether gradients replace the rows, to be sent to the devices that have these.
    pub(super) sends: bool,
    pub(super) request: &'a Request,
    /// The bags of each row, or its requesters.
    pub(super) bags: &'a BagsByRow,
    /// How each row is lent; empty if none is.
    pub(super) loans: &'a [Loan],
    pub(super) gradients: RowsOf<'a>,
    /// Decides which rows may be updated; `None` if all may.
    pub(super) admissions: Option<&'a Admissions>,
    /// The number of this step, from 1.
    pub(super) step: u64,
    pub(super) laps: &'a dyn Laps,
    pub(super) workspaces: &'a Workspaces<Workspace>,
}

/// Inputs for the gradients of rows.
#[derive(Clone, Copy)]
pub(super) enum RowsOf<'a> {
    /// This rank's bags.
    Bags(TableBags<'a>),
    /// Sums from all ranks.
    Partials(&'a Partials<'a>),
    /// Sums that the caller made (rows, weights), of rows that occur in these bags.
    Given(TableBags<'a>, &'a [f32]),
    /// This rank's bags, plus sums that the caller made (rows, weights).
    BagsAndGiven(TableBags<'a>, &'a [f32]),
}

impl Update<'_> {
    /// Updates all `rows` and records how each occurred.
    pub(super) fn run(&self, rows: RowsMut<'_>, occurrences: &mut [Occurrence]) {
        self.share(rows, occurrences, 0);
    }

    /// Splits by bags, not by rows: the most frequent rows come first in a mini-batch, so one
    /// thread would get most of the bags.
    fn share(&self, rows: RowsMut<'_>, occurrences: &mut [Occurrence], first: usize) {
        let (by_row, range) = (self.bags, first..first + rows.len());
        let before = by_row.before(range.start);
        let bags = by_row.before(range.end) - before;
        if bags <= GRAIN_BAGS || rows.len() < 2 {
            let begin = self.laps.now();
            self.update(rows, occurrences, first);
            return self.laps.over(begin, self.bytes(range));
        }
        let is_left = |end: &u32| *end as usize - before <= bags / 2;
        let middle = by_row.ends[range].partition_point(is_left).clamp(1, rows.len() - 1);
        let (left, right) = rows.split_at(middle);
        let (left_seen, right_seen) = occurrences.split_at_mut(middle);
        rayon::join(
            || self.share(left, left_seen, first),
            || self.share(right, right_seen, first + middle),
        );
    }

    /// Bytes of gradients that the update of `rows` reads, plus bytes of rows that it reads and
    /// writes.
    fn bytes(&self, rows: std::ops::Range<usize>) -> u64 {
        let (table, by_row) = (self.table, self.bags);
        let bags = by_row.before(rows.end) - by_row.before(rows.start);
        let lanes = bags * table.weight_lanes() + 2 * rows.len() * table.model_lanes();
        (lanes * size_of::<f32>()) as u64
    }

    fn update(&self, rows: RowsMut<'_>, occurrences: &mut [Occurrence], first: usize) {
        let rows = Rows { update: self, rows, occurrences, first };
        match self.request.is_weighed() {
            true => Arch::new().dispatch(WeighedRows(rows)),
            false => Arch::new().dispatch(rows),
        }
    }
}

/// Buffers of one task.
#[derive(Debug, Default)]
pub(super) struct Workspace {
    pub(super) sums: SumsRoom,
    /// Weights in f32, if rows store them otherwise. // (weights)
    pub(super) weights: Vec<f32>,
}

impl Workspace {
    /// Maximum lanes of a workspace, for any of `tables`.
    pub(super) fn lanes_max(tables: &[TableSpec], blocks: usize) -> usize {
        let width = tables.iter().map(TableSpec::weight_count).max().unwrap_or(0);
        width + SumsRoom::lanes_max(width, blocks)
    }
}

/// Updates weights and state of the row of `key` by its `gradient` in step `step`.
#[inline(always)]
pub(super) fn step_row(
    table: &TableSpec,
    storage: Storage,
    model: &mut [f32],
    key: Key,
    step: u64,
    gradient: &[f32],
    room: &mut Vec<f32>,
) {
    let (weights, state) = model.split_at_mut(table.weight_lanes());
    if storage == Storage::F32 {
        table.optimizer.update_inline(weights, state, gradient);
        table.optimizer.bound(&mut weights[..table.dim]);
    } else {
        let random = table.rounding(key, step);
        let stored = Stored { storage, dim: table.dim, lanes: weights, random, room };
        table.optimizer.update_stored(stored, state, gradient);
    }
}

/// The rows of one task, from row number `first` of the mini-batch on.
struct Rows<'a> {
    update: &'a Update<'a>,
    rows: RowsMut<'a>,
    occurrences: &'a mut [Occurrence],
    first: usize,
}

impl WithSimd for Rows<'_> {
    type Output = ();

    /// Specialized for the usual embeddings: none, or 16 lanes.
    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Update { table, workspaces, .. } = *self.update;
        let mut workspace = workspaces.take(Workspace::default);
        match (table.storage, table.dim) {
            (Storage::F32, 0) => self.sum::<false>(Storage::F32, 0, &mut workspace),
            (Storage::F32, 16) => self.sum::<false>(Storage::F32, 16, &mut workspace),
            (storage, dim) => self.sum::<false>(storage, dim, &mut workspace),
        }
        workspaces.put_back(workspace);
    }
}

/// Like [`Rows`], with factors of rows: compiled separately, so the usual loops stay as fast as
/// without it.
struct WeighedRows<'a>(Rows<'a>);

impl WithSimd for WeighedRows<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Update { table, workspaces, .. } = *self.0.update;
        let mut workspace = workspaces.take(Workspace::default);
        self.0.sum::<true>(table.storage, table.dim, &mut workspace);
        workspaces.put_back(workspace);
    }
}

impl Rows<'_> {
    #[inline(always)]
    fn sum<const WEIGHED: bool>(self, storage: Storage, dim: usize, workspace: &mut Workspace) {
        let Workspace { sums, weights } = workspace;
        let width = self.update.table.weight_count();
        match &self.update.gradients {
            RowsOf::Bags(bags) => {
                self.run(storage, weights, Sums::<WEIGHED>::new(bags, dim, width, sums));
            }
            RowsOf::Partials(partials) => {
                self.run(storage, weights, Combined::new(partials, width, sums));
            }
            RowsOf::Given(bags, gradients) => {
                self.run(storage, weights, GivenSums { bags, gradients, width });
            }
            RowsOf::BagsAndGiven(bags, given) => {
                let sums = Sums::<WEIGHED>::new(bags, dim, width, sums);
                self.run(storage, weights, SumsAndGiven { sums, given, width });
            }
        }
    }

    #[inline(always)]
    fn run(self, storage: Storage, room: &mut Vec<f32>, mut gradients: impl RowGradients) {
        let Self { update, mut rows, occurrences, first } = self;
        let Update { table, request, admissions, .. } = *update;
        let lanes = table.model_lanes();
        refill(room, table.weight_count());
        for (index, occurrence) in occurrences.iter_mut().enumerate() {
            rows.prefetch(index + ROWS_AHEAD);
            if admissions.is_some_and(|admissions| admissions.refused(first + index)) {
                continue;
            }
            if update.loans.get(first + index).is_some_and(|loan| *loan != Loan::None) {
                // A use of a lent row counts as one occurrence.
                *occurrence = Occurrence { examples: 1, ..Occurrence::default() };
                continue;
            }
            let (gradient, seen) = gradients.of(first + index);
            *occurrence = seen;
            if update.sends {
                rows.row(index)[..gradient.len()].copy_from_slice(gradient);
                continue;
            }
            let (model, history) = rows.row(index).split_at_mut(lanes);
            let key = request.distinct[first + index];
            step_row(table, storage, model, key, update.step, gradient, room);
            if admissions.is_some() {
                let was = History::read(history);
                admission::trained(was, update.step, occurrence).write(history);
            }
        }
    }
}
