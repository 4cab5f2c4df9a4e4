//! Gathers rows into the columns of a matrix: look-up, sum pooling and concatenation in one pass.

use std::ops::Range;

use pulp::{Arch, Simd, WithSimd};
use stepwell_optim::{Storage, Weights};

use super::EmbeddingBags;
use super::working::{TableRows, WorkingRows};
use crate::request::{Columns, Field, is_pooled};
use crate::table_spec::TableSpec;

/// Occurrences between the prefetch of a row and its use.
const PREFETCH_OCCURRENCES: usize = 24;

/// Destination of pooled rows.
#[derive(Debug)]
pub struct Pooled<'a> {
    /// Rows of a matrix whose first columns receive the embeddings. // (examples, width)
    pub x: &'a mut [f32],
    /// Number of columns of that matrix, including columns other than embeddings.
    pub width: usize,
    /// Sums of first-order weights. // (examples)
    pub first_order: &'a mut [f32],
}

impl EmbeddingBags {
    /// Pools the rows of the examples of `range`.
    ///
    /// A bag's rows are added in the order of the data, the first-order weights of an example in
    /// the order of tables and fields.
    pub fn gather(&self, rows: &WorkingRows<'_>, range: Range<usize>, pooled: Pooled<'_>) {
        let Pooled { x, width, first_order } = pooled;
        assert_eq!(
            (first_order.len(), x.len()),
            (range.len(), range.len() * width),
            "one row each"
        );
        first_order.fill(0.0);
        let Columns { of_fields, .. } = &self.columns;
        let tables = self.tables.iter().zip(&rows.tables).zip(of_fields);
        for ((table, rows), fields) in tables.filter(|(_, fields)| is_pooled(fields)) {
            let range = range.clone();
            Arch::new().dispatch(Place { table, fields, rows, width, range, x, first_order });
        }
    }

    /// Bytes of rows that [`EmbeddingBags::gather`] reads plus bytes of embeddings that it writes.
    pub fn gather_bytes(&self, rows: &WorkingRows<'_>, range: Range<usize>) -> u64 {
        let tables = self.tables.iter().zip(&rows.tables).zip(&self.columns.of_fields);
        let lanes = tables.map(|((table, rows), fields)| {
            let fields = fields.len();
            let before = |example: usize| rows.request.occurrences_before(example * fields);
            (before(range.end) - before(range.start)) * table.weight_lanes()
        });
        ((lanes.sum::<usize>() + range.len() * self.columns.count) * size_of::<f32>()) as u64
    }
}

/// Destination of one table's rows.
struct Place<'a> {
    table: &'a TableSpec,
    fields: &'a [Field],
    rows: &'a TableRows<'a>,
    width: usize,
    range: Range<usize>,
    x: &'a mut [f32],
    first_order: &'a mut [f32],
}

impl WithSimd for Place<'_> {
    type Output = ();

    /// Specialized for the usual embeddings: none, or 16 lanes.
    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let (table, held) = (self.table, self.rows);
        let (width, rows) = (table.weight_count(), held.rows());
        let as_f32 = |row| Storage::F32.view(rows.row(row), width);
        let storage = held.storage();
        let as_kept = |row| storage.view(rows.row(row), width);
        match (storage, table.dim) {
            _ if held.looks_elsewhere() && held.request.is_weighed() => {
                self.run::<true>(table.dim, |row| held.weights(row));
            }
            _ if held.looks_elsewhere() => self.run::<false>(table.dim, |row| held.weights(row)),
            (_, dim) if held.request.is_weighed() => self.run::<true>(dim, as_kept),
            (Storage::F32, 0) => self.run::<false>(0, as_f32),
            (Storage::F32, 16) => self.run::<false>(16, as_f32),
            (_, dim) => self.run::<false>(dim, as_kept),
        }
    }
}

impl<'a> Place<'a> {
    #[inline(always)]
    fn run<const WEIGHED: bool>(self, dim: usize, weights: impl Fn(usize) -> Weights<'a>) {
        let Self { table, fields: of_table, rows, width, range, x, first_order } = self;
        let (wide, lanes, held) = (table.wide, table.weight_lanes(), rows.rows());
        let request = rows.request;
        let of_occurrences = &request.occurrence_rows[..];
        let fields = of_table.len();
        let mut ends = request.ends[range.start * fields..range.end * fields].iter();
        let mut occurrence = request.occurrences_before(range.start * fields);
        for (example, first_order) in first_order.iter_mut().enumerate() {
            // In a model of first-order weights alone, rows have no columns.
            let row_of_x = &mut x[example * width..(example + 1) * width];
            let mut sum = *first_order;
            for (Field { column, .. }, end) in of_table.iter().zip(&mut ends) {
                let pooled = &mut row_of_x[*column..*column + dim];
                let bag = &of_occurrences[occurrence..*end as usize];
                if bag.is_empty() {
                    pooled.fill(0.0);
                }
                for (number, row) in bag.iter().enumerate() {
                    if let Some(far) = of_occurrences.get(occurrence + 2 * PREFETCH_OCCURRENCES) {
                        held.prefetch_place(*far as usize);
                    }
                    if let Some(ahead) = of_occurrences.get(occurrence + PREFETCH_OCCURRENCES) {
                        held.prefetch(*ahead as usize, lanes);
                    }
                    let factor = if WEIGHED { request.factors[occurrence] } else { 1.0 };
                    occurrence += 1;
                    let row = weights(*row as usize);
                    pool::<WEIGHED>(pooled, &row, factor, number == 0);
                    if wide > 0 {
                        sum += if WEIGHED { row.get(dim) * factor } else { row.get(dim) };
                    }
                }
            }
            *first_order = sum;
        }
    }
}

/// Starts a pooled embedding with a row, or adds a row to it, times `factor` if `WEIGHED`.
#[inline(always)]
fn pool<const WEIGHED: bool>(pooled: &mut [f32], row: &Weights<'_>, factor: f32, first: bool) {
    match (first, WEIGHED) {
        (true, false) => row.copy_to(pooled),
        (false, false) => row.add_to(pooled),
        (true, true) => row.copy_times_to(pooled, factor),
        (false, true) => row.add_times_to(pooled, factor),
    }
}
