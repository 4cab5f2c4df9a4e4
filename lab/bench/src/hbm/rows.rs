//! Measures row kernels by the bytes of a row: weights, and Adagrad state of the same size.

use bytemuck::Pod;
use serde::Serialize;
use stepwell_device::{Arg, Buffer};
use stepwell_kernels::{NONE, PoolTable, RULE_ADAGRAD, STORAGE_F32, UpdateTable, named};
use stepwell_optim::{Adagrad, RowOptimizer, Rule};

use super::bench::{Bench, same};
use super::order::order;
use crate::measure::over;
use crate::{Error, Result};

/// Bytes of the measured rows.
pub(super) const BYTES: [usize; 4] = [64, 128, 256, 512];
/// Fields per example.
const FIELDS: usize = 26;
/// Number of bags that contain each updated row.
const BAGS_OF_ROW: usize = 2;
const LANE: usize = size_of::<f32>();

/// A kernel.
#[derive(Clone, Debug, Default, Serialize)]
pub struct KernelFigures {
    /// Name of the kernel.
    pub kernel: &'static str,
    /// Rows per second; for `rows_pool`, occurrences.
    pub rows_per_second: f64,
    /// Bytes moved per row, as docs/devices.md counts them.
    pub bytes_of_row: u64,
    /// Bytes per second.
    pub bytes_per_second: f64,
    /// `bytes_per_second` relative to copies within the device.
    pub over_copy: f64,
}

/// Results for one row size.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RowFigures {
    /// Bytes of a row.
    pub row_bytes: u64,
    /// Number of rows.
    pub rows: u64,
    /// Results by kernel.
    pub kernels: Vec<KernelFigures>,
}

/// Rows in slots in random order.
struct Rows<'a> {
    bench: &'a Bench,
    lanes: usize,
    weights: usize,
    count: usize,
    /// Contents of the slots, and the slot of each row.
    values: Vec<f32>,
    slots: Vec<u32>,
    slab: Buffer<f32>,
    list: Buffer<u32>,
}

impl<'a> Rows<'a> {
    fn new(bench: &'a Bench, row_bytes: usize) -> Result<Self> {
        let lanes = row_bytes / LANE;
        // Only whole examples.
        let count = bench.bytes / row_bytes / FIELDS * FIELDS;
        let values: Vec<f32> = (0..count * lanes).map(|at| (at % 1009) as f32 / 64.0).collect();
        let slots = order(count, 3);
        let (slab, list) = (bench.filled(&values)?, bench.filled(&slots)?);
        Ok(Self { bench, lanes, weights: lanes / 2, count, values, slots, slab, list })
    }

    /// Lanes of row `row`.
    fn row(&self, row: usize) -> &[f32] {
        let first = self.slots[row] as usize * self.lanes;
        &self.values[first..first + self.lanes]
    }

    /// Moves all rows between their slots and a contiguous buffer.
    fn move_rows(&self, kernel: &str, from: &Buffer<f32>, to: &Buffer<f32>) -> Result<()> {
        let args = vec![
            Arg::all(from),
            Arg::all(to),
            Arg::first(&self.list, self.count),
            Arg::u64(0),
            Arg::u32(0),
            Arg::u32(self.count as u32),
            Arg::u32(self.lanes as u32),
        ];
        let items = (self.count * self.lanes).div_ceil(4);
        Ok(self.bench.stream.launch(named(kernel), items, args)?)
    }

    fn read(&self, to: &Buffer<f32>) -> Result<()> {
        let lanes = self.count * self.weights;
        let args = vec![
            Arg::all(&self.slab),
            Arg::first(to, lanes),
            Arg::first(&self.list, self.count),
            Arg::u64(0),
            Arg::u32(0),
            Arg::u32(self.count as u32),
            Arg::u32(self.lanes as u32),
            Arg::u32(0),
            Arg::u32(self.weights as u32),
        ];
        Ok(self.bench.stream.launch(named("rows_read"), lanes, args)?)
    }

    /// First arguments of kernels for one table.
    fn told<'b, T: Pod>(&'b self, lists: &'b Buffer<u32>, table: &'b Buffer<T>) -> Vec<Arg<'b>> {
        vec![Arg::all(&self.slab), Arg::all(lists), Arg::all(table), Arg::u32(1)]
    }

    fn figures(
        &self,
        kernel: &'static str,
        bytes: usize,
        seconds: f64,
        copy: f64,
    ) -> KernelFigures {
        let rows_per_second = self.count as f64 / seconds;
        let bytes_per_second = rows_per_second * bytes as f64;
        let (bytes_of_row, over_copy) = (bytes as u64, over(bytes_per_second, copy));
        KernelFigures { kernel, rows_per_second, bytes_of_row, bytes_per_second, over_copy }
    }
}

/// Measures the kernels for rows of `row_bytes` bytes, relative to `copy` bytes per second.
pub(super) fn measure(bench: &Bench, row_bytes: usize, copy: f64) -> Result<RowFigures> {
    let rows = Rows::new(bench, row_bytes)?;
    let (weights, whole) = (rows.weights * LANE, rows.lanes * LANE);
    let in_order: Vec<f32> =
        (0..rows.count).flat_map(|row| rows.row(row).iter().copied()).collect();
    let staging = bench.empty::<f32>(in_order.len())?;
    let mut kernels = Vec::new();

    let down = || rows.move_rows("rows_down", &rows.slab, &staging);
    down()?;
    same("rows_down", &bench.contents(&staging, in_order.len())?, &in_order)?;
    kernels.push(rows.figures("rows_down", 2 * whole + 4, bench.time(down)?, copy));

    let up = || rows.move_rows("rows_up", &staging, &rows.slab);
    bench.stream.clear(&rows.slab, 0..rows.values.len())?;
    up()?;
    same("rows_up", &bench.contents(&rows.slab, rows.values.len())?, &rows.values)?;
    kernels.push(rows.figures("rows_up", 2 * whole + 4, bench.time(up)?, copy));

    let read = || rows.read(&staging);
    read()?;
    let wanted: Vec<f32> =
        (0..rows.count).flat_map(|row| rows.row(row)[..rows.weights].iter().copied()).collect();
    same("rows_read", &bench.contents(&staging, wanted.len())?, &wanted)?;
    kernels.push(rows.figures("rows_read", 2 * weights + 4, bench.time(read)?, copy));
    drop((staging, in_order, wanted));

    let seconds = pool(&rows)?;
    kernels.push(rows.figures("rows_pool", 2 * weights + 32 + 8, seconds, copy));
    let seconds = update(&rows)?;
    let bytes = 2 * whole + 8 + BAGS_OF_ROW * (weights + 4);
    kernels.push(rows.figures("rows_update", bytes, seconds, copy));
    Ok(RowFigures { row_bytes: row_bytes as u64, rows: rows.count as u64, kernels })
}

/// Concatenated lists.
#[derive(Default)]
struct Lists(Vec<u32>);

impl Lists {
    fn put(&mut self, list: impl IntoIterator<Item = u32>) -> u32 {
        let first = self.0.len();
        self.0.extend(list);
        first as u32
    }
}

/// Seconds for pooling one row in each field of all examples.
fn pool(rows: &Rows<'_>) -> Result<f64> {
    let (bench, count) = (rows.bench, rows.count);
    let (examples, columns) = (count / FIELDS, FIELDS * rows.weights);
    let occurrences = order(count, 5);
    let mut lists = Lists::default();
    let table = PoolTable {
        row_lanes: rows.lanes as u32,
        slots: lists.put(rows.slots.iter().copied()),
        occurrence_rows: lists.put(occurrences.iter().copied()),
        ends: lists.put(1..=count as u32),
        factors: NONE,
        fields: FIELDS as u32,
        dim: rows.weights as u32,
        storage: STORAGE_F32,
        ..PoolTable::default()
    };
    let column = |of: usize| [0, of / rows.weights, of % rows.weights].map(|word| word as u32);
    let columns_of: Vec<u32> = (0..columns).flat_map(column).collect();
    let (lists, tables) = (bench.filled(&lists.0)?, bench.filled(&[table])?);
    let columns_of = bench.filled(&columns_of)?;
    let (x, first_order) = (bench.empty::<f32>(examples * columns)?, bench.empty::<f32>(examples)?);
    let give = || {
        let mut args = rows.told(&lists, &tables);
        args.extend([
            Arg::all(&columns_of),
            Arg::u32(columns as u32),
            Arg::u32(examples as u32),
            Arg::all(&x),
            Arg::u32(columns as u32),
            Arg::all(&first_order),
        ]);
        let items = examples * (columns.div_ceil(4) + 1);
        Ok(bench.stream.launch(named("rows_pool"), items, args)?)
    };
    give()?;
    let pooled = occurrences.iter().flat_map(|row| &rows.row(*row as usize)[..rows.weights]);
    same(
        "rows_pool",
        &bench.contents(&x, count * rows.weights)?,
        &pooled.copied().collect::<Vec<_>>(),
    )?;
    bench.time(give)
}

/// Seconds for updating all rows with Adagrad, each with the gradients of two bags.
fn update(rows: &Rows<'_>) -> Result<f64> {
    let (bench, count, weights) = (rows.bench, rows.count, rows.weights);
    let (examples, columns) = (BAGS_OF_ROW * count / FIELDS, FIELDS * weights);
    let bags = order(count, 11);
    let rule = Adagrad { lr: 0.1, eps: 1e-8, initial: 0.0 };
    let mut lists = Lists::default();
    let all = |row: &u32| [*row, *row + count as u32];
    let table = UpdateTable {
        rule: RULE_ADAGRAD,
        rate: -rule.lr as f32,
        eps: rule.eps as f32,
        rows: count as u32,
        row_lanes: rows.lanes as u32,
        slots: lists.put(rows.slots.iter().copied()),
        bag_ends: lists.put((1..=count as u32).map(|row| BAGS_OF_ROW as u32 * row)),
        bags: lists.put(bags.iter().flat_map(all)),
        bag_factors: NONE,
        fields: FIELDS as u32,
        columns: lists.put((0..FIELDS as u32).map(|field| field * weights as u32)),
        dim: weights as u32,
        storage: STORAGE_F32,
        rounding: NONE,
        skip: NONE,
        block_ends: lists.put([examples as u32]),
        blocks: 1,
        ..UpdateTable::default()
    };
    let items = table.items() as usize;
    let (lists, tables) = (bench.filled(&lists.0)?, bench.filled(&[table])?);
    let d_x: Vec<f32> = (0..examples * columns).map(|at| (at % 127) as f32 / 32.0 - 2.0).collect();
    let gradients = bench.filled(&d_x)?;
    let d_first_order = bench.filled(&vec![0.0_f32; examples])?;
    let give = || {
        let mut args = rows.told(&lists, &tables);
        args.extend([
            Arg::u32(items as u32),
            Arg::all(&gradients),
            Arg::u32(columns as u32),
            Arg::all(&d_first_order),
            Arg::u32(examples as u32),
        ]);
        Ok(bench.stream.launch(named("rows_update"), items, args)?)
    };
    give()?;
    let optimizer = RowOptimizer::new(Rule::Adagrad(rule));
    let optimizer = optimizer.map_err(|error| Error::Arguments(error.to_string()))?;
    let mut wanted = rows.values.clone();
    let mut sum = vec![0.0; weights];
    for (row, bag) in bags.iter().enumerate() {
        let of = |bag: usize| &d_x[bag * weights..(bag + 1) * weights];
        let (first, second) = (of(*bag as usize), of(*bag as usize + count));
        sum.iter_mut().zip(first.iter().zip(second)).for_each(|(sum, (a, b))| *sum = a + b);
        let at = rows.slots[row] as usize * rows.lanes;
        let (weights, state) = wanted[at..at + rows.lanes].split_at_mut(weights);
        optimizer.update(weights, state, &sum);
    }
    same("rows_update", &bench.contents(&rows.slab, wanted.len())?, &wanted)?;
    bench.time(give)
}
