//! Differences of a table's rows in two checkpoints.
//!
//! - **How.** The rows of A are scanned in the order of its files and looked up in B, some
//!   thousands at once. A scan of B counts its rows, and so the rows that only B has.
//! - **Bounds.** The indexes of the table's stores in both, 8 to 11 bytes per row; 8 MiB of rows of
//!   each, or one row; a distribution; the listed rows.
//! - **Cost.** One scan of both, and look-ups in B, with a page for each row of A if B has the rows
//!   in another order.

use serde_json::{Value, json};
use stepwell_base::Key;
use stepwell_base::stop::StopRequest;
use stepwell_disk::FileDisk;
use stepwell_engine::{Checkpoint, RowsView, TableSpec};
use stepwell_ssd::{Manifest, StoreOptions};

use crate::distribution::{Distribution, Top};
use crate::failure::Failure;
use crate::snapshots::each_row;

/// Bytes of rows per look-up, unless one row is longer.
const BYTES_AT_ONCE: usize = 8 << 20;
/// Bytes of files read through the system's page cache, as look-ups return to their pages.
const CACHED_BYTES: u64 = 4 << 30;

/// A table of a checkpoint.
#[derive(Clone, Copy)]
pub(super) struct Table<'a> {
    pub(super) checkpoint: &'a Checkpoint,
    pub(super) number: usize,
    pub(super) spec: &'a TableSpec,
}

/// A comparison in progress.
struct Comparison<'a> {
    a: Table<'a>,
    b: Table<'a>,
    view: RowsView,
    /// Rows of A for the next look-up.
    keys: Vec<Key>,
    rows: Vec<f32>, // (keys, lanes of A)
    found: Found,
}

struct Found {
    only_a: u64,
    both: u64,
    weights_changed: u64,
    rest_changed: u64,
    distances: Distribution,
    top: Top<(Key, Norms)>,
}

/// A row of a table.
#[derive(Clone, Copy)]
struct Row<'a> {
    spec: &'a TableSpec,
    lanes: &'a [f32],
}

impl<'a> Row<'a> {
    /// Lanes after the weights.
    fn state(self) -> &'a [f32] {
        &self.lanes[self.spec.weight_lanes()..]
    }
}

/// The norms of a row's weights in A and in B, as bits.
type Norms = [u64; 2];

/// All differences of the rows of two tables; lists the `top` most changed rows.
pub(super) fn compare(a: Table<'_>, b: Table<'_>, top: usize) -> Result<Value, Failure> {
    let found = Found {
        only_a: 0,
        both: 0,
        weights_changed: 0,
        rest_changed: 0,
        distances: Distribution::default(),
        top: Top::new(top),
    };
    let (keys, rows) = (Vec::new(), Vec::new());
    let mut comparison = Comparison { a, b, view: view(b)?, keys, rows, found };
    let rows_at_once = (BYTES_AT_ONCE / a.spec.row_bytes().max(b.spec.row_bytes())).max(1);
    let stop = StopRequest::new();
    each_row(a.checkpoint, a.number, a.spec, &stop, &mut |key, row| {
        comparison.keys.push(key);
        comparison.rows.extend_from_slice(row);
        if comparison.keys.len() >= rows_at_once { comparison.look_up() } else { Ok(()) }
    })?;
    comparison.look_up()?;
    let Comparison { found, .. } = comparison;
    let mut rows_b = 0;
    each_row(b.checkpoint, b.number, b.spec, &stop, &mut |_, _| {
        rows_b += 1;
        Ok(())
    })?;
    Ok(found.into_json(a.spec, rows_b))
}

/// Opens the rows of a table for look-ups.
fn view(of: Table<'_>) -> Result<RowsView, Failure> {
    let rows = of.checkpoint.rows_of(of.number)?;
    let disk = FileDisk::open(&rows[0].path)?;
    let manifest = Manifest::load(&disk)?;
    let options = StoreOptions {
        index_bytes_max: u64::MAX,
        cached_bytes: CACHED_BYTES,
        ..StoreOptions::new(manifest.table, of.spec.row_bytes())
    };
    Ok(RowsView::open(of.checkpoint, of.number, options)?)
}

impl Comparison<'_> {
    /// Looks up the collected rows in B.
    fn look_up(&mut self) -> Result<(), Failure> {
        let (a, b) = (self.a.spec, self.b.spec);
        let salted: Vec<Key> = self.keys.iter().map(|key| key.salted(b.salt())).collect();
        let mut rows = vec![0.0f32; salted.len() * b.row_lanes()];
        let mut found = vec![false; salted.len()];
        let looked_up =
            self.view.get_many(&salted, bytemuck::cast_slice_mut(&mut rows), &mut found);
        looked_up?;
        let step = self.b.checkpoint.step;
        let of_a = self.keys.iter().zip(self.rows.chunks_exact(a.row_lanes()));
        let of_b = found.iter().zip(rows.chunks_exact(b.row_lanes()));
        for ((key, mine), (found, other)) in of_a.zip(of_b) {
            if *found && b.owns(other) && b.exists(other, step) {
                let (a, b) = (Row { spec: a, lanes: mine }, Row { spec: b, lanes: other });
                self.found.both(*key, a, b);
            } else {
                self.found.only_a += 1;
            }
        }
        self.keys.clear();
        self.rows.clear();
        Ok(())
    }
}

impl Found {
    fn both(&mut self, key: Key, a: Row<'_>, b: Row<'_>) {
        self.both += 1;
        if a.spec.weight_count() != b.spec.weight_count() {
            self.weights_changed += 1;
            return;
        }
        let (weights_a, weights_b) = (a.spec.weights(a.lanes), b.spec.weights(b.lanes));
        let (mut squares, mut same) = ([0.0f64; 3], true);
        for at in 0..a.spec.weight_count() {
            let (a, b) = (weights_a.get(at), weights_b.get(at));
            same &= a.to_bits() == b.to_bits();
            let (a, b) = (f64::from(a), f64::from(b));
            let parts = [(a - b).powi(2), a.powi(2), b.powi(2)];
            squares.iter_mut().zip(parts).for_each(|(sum, part)| *sum += part);
        }
        let [distance, norm_a, norm_b] = squares.map(f64::sqrt);
        // Equal bits have distance 0, even for NaN.
        let distance = if same { 0.0 } else { distance };
        self.distances.add(distance);
        if !same {
            self.weights_changed += 1;
            self.top.offer(distance, (key, [norm_a, norm_b].map(f64::to_bits)));
        } else if !is_same(a.state(), b.state()) {
            self.rest_changed += 1;
        }
    }

    fn into_json(self, spec: &TableSpec, rows_b: u64) -> Value {
        let Self { only_a, both, weights_changed, rest_changed, distances, top } = self;
        let only_b = rows_b.saturating_sub(both);
        let row = |(distance, (key, norms)): (f64, (Key, Norms))| {
            let [norm_a, norm_b] = norms.map(f64::from_bits);
            json!({
                "key": format!("{:016x}", key.0),
                "distance": distance,
                "norm_a": norm_a,
                "norm_b": norm_b,
            })
        };
        json!({
            "name": spec.name,
            "differ": only_a + only_b + weights_changed + rest_changed > 0,
            "rows_only_in_a": only_a,
            "rows_only_in_b": only_b,
            "rows_in_both": both,
            "rows_with_other_weights": weights_changed,
            "rows_with_other_state": rest_changed,
            "distances": distances.to_json(),
            "top": top.into_items().into_iter().map(row).collect::<Vec<Value>>(),
        })
    }
}

/// Whether two lists have the same bits.
fn is_same(a: &[f32], b: &[f32]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits())
}
