//! Rows into the input of the graph: look-up, sum pooling and concatenation in one pass.

use stepwell_optim::Weights;

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

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { part, range, x, first_order, .. } = self;
        let field_columns = self.model.field_columns(self.group);
        let dim = self.model.tables()[self.group].dim;
        let wide = self.model.tables()[self.group].wide;
        let rows = &part.lookup.occurrence_rows;
        let fields = field_columns.len();
        let mut occurrence = part.bags.range(range.start * fields).start;
        for (local, example) in range.enumerate() {
            let row_of_x = &mut x[local * self.columns..(local + 1) * self.columns];
            let mut sum = first_order[local];
            for (field, column) in field_columns.iter().enumerate() {
                let end = part.bags.ends[example * fields + field] as usize;
                let pooled = &mut row_of_x[*column..*column + dim];
                let first = occurrence;
                while occurrence < end {
                    if let Some(far) = rows.get(occurrence + 2 * PREFETCH_OCCURRENCES) {
                        self.sight.prefetch_place(*far as usize);
                    }
                    if let Some(ahead) = rows.get(occurrence + PREFETCH_OCCURRENCES) {
                        self.sight.prefetch(*ahead as usize);
                    }
                    let row = self.sight.weights(rows[occurrence] as usize);
                    pool(pooled, &row, occurrence == first);
                    if wide > 0 {
                        sum += row.get(dim);
                    }
                    occurrence += 1;
                }
                if first == end {
                    pooled.fill(0.0);
                }
            }
            first_order[local] = sum;
        }
    }
}

#[inline(always)]
fn pool(pooled: &mut [f32], row: &Weights<'_>, first: bool) {
    if first {
        row.copy_to(pooled);
    } else {
        row.add_to(pooled);
    }
}
