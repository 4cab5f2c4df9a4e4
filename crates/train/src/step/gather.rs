//! Rows into the input of the graph: look-up, sum pooling and concatenation in one pass.

use stepwell_optim::{Storage, Weights};

use pulp::{Arch, Simd, WithSimd};

use super::sight::Sight;
use crate::batch::{GroupPart, MiniBatch};
use crate::models::Model;

/// Occurrences that the processor is asked to fetch ahead.
const PREFETCH_OCCURRENCES: usize = 24;

/// Fills `x` and `first_order` for the examples of `range`.
///
/// A bag's rows are added in the order of the data; the wide weights of an example in the order of
/// groups and fields.
pub(super) fn gather(
    model: &Model,
    mini: &MiniBatch,
    sights: &[Sight<'_>],
    range: std::ops::Range<usize>,
    x: &mut [f32],           // (examples of range, columns)
    first_order: &mut [f32], // (examples of range)
) {
    let columns = model.columns();
    let embedding = model.embedding_columns();
    let dense = columns - embedding;
    first_order.fill(0.0);
    for (local, example) in range.clone().enumerate() {
        let features = &mini.dense[example * dense..(example + 1) * dense];
        x[local * columns + embedding..(local + 1) * columns].copy_from_slice(features);
    }
    for (group, sight) in sights.iter().enumerate() {
        let (part, range) = (&mini.groups[group], range.clone());
        Arch::new().dispatch(Place { model, group, sight, columns, part, range, x, first_order });
    }
}

/// Bytes of rows that [`gather`] reads, and of the input that it writes.
pub(super) fn bytes(model: &Model, mini: &MiniBatch, range: std::ops::Range<usize>) -> u64 {
    let rows = model.tables().iter().zip(&mini.groups).enumerate().map(|(group, (table, part))| {
        let fields = model.field_columns(group).len();
        let first = part.bags.range(range.start * fields).start;
        let end =
            if range.is_empty() { first } else { part.bags.range(range.end * fields - 1).end };
        (end - first) * table.weight_lanes()
    });
    ((rows.sum::<usize>() + range.len() * model.columns()) * size_of::<f32>()) as u64
}

/// Where one group's rows go.
struct Place<'a> {
    model: &'a Model,
    group: usize,
    sight: &'a Sight<'a>,
    columns: usize,
    part: &'a GroupPart,
    range: std::ops::Range<usize>,
    x: &'a mut [f32],
    first_order: &'a mut [f32],
}

impl WithSimd for Place<'_> {
    type Output = ();

    /// Loops are unrolled for the usual embeddings: none, and of 16 lanes.
    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let (table, sight) = (&self.model.tables()[self.group], self.sight);
        let (width, rows) = (table.weight_count(), sight.rows());
        let as_f32 = |row| Storage::F32.view(rows.row(row), width);
        match (table.storage, table.dim) {
            _ if sight.looks_elsewhere() => self.run(table.dim, |row| sight.weights(row)),
            (Storage::F32, 0) => self.run(0, as_f32),
            (Storage::F32, 16) => self.run(16, as_f32),
            (storage, dim) => self.run(dim, |row| storage.view(rows.row(row), width)),
        }
    }
}

impl<'a> Place<'a> {
    #[inline(always)]
    fn run(self, dim: usize, weights: impl Fn(usize) -> Weights<'a>) {
        let Self { part, range, sight, x, first_order, columns, .. } = self;
        let (field_columns, table) =
            (self.model.field_columns(self.group), &self.model.tables()[self.group]);
        let (wide, lanes, held) = (table.wide, table.weight_lanes(), sight.rows());
        let rows = &part.lookup.occurrence_rows[..];
        assert_eq!(
            (first_order.len(), x.len()),
            (range.len(), range.len() * columns),
            "one row each"
        );
        let fields = field_columns.len();
        let mut ends = part.bags.ends[range.start * fields..range.end * fields].iter();
        let mut occurrence = part.bags.range(range.start * fields).start;
        for (first_order, row_of_x) in first_order.iter_mut().zip(x.chunks_exact_mut(columns)) {
            let mut sum = *first_order;
            for (column, end) in field_columns.iter().zip(&mut ends) {
                let pooled = &mut row_of_x[*column..*column + dim];
                let bag = &rows[occurrence..*end as usize];
                if bag.is_empty() {
                    pooled.fill(0.0);
                }
                for (number, row) in bag.iter().enumerate() {
                    if let Some(far) = rows.get(occurrence + 2 * PREFETCH_OCCURRENCES) {
                        held.prefetch_place(*far as usize);
                    }
                    if let Some(ahead) = rows.get(occurrence + PREFETCH_OCCURRENCES) {
                        held.prefetch(*ahead as usize, lanes);
                    }
                    occurrence += 1;
                    let row = weights(*row as usize);
                    pool(pooled, &row, number == 0);
                    if wide > 0 {
                        sum += row.get(dim);
                    }
                }
            }
            *first_order = sum;
        }
    }
}

/// Begins a pooled embedding with a row, or adds a row to it.
#[inline(always)]
fn pool(pooled: &mut [f32], row: &Weights<'_>, first: bool) {
    if first {
        row.copy_to(pooled);
    } else {
        row.add_to(pooled);
    }
}
