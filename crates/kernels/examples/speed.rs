//! Measures kernels on one core of this processor: `cargo run --release --example speed`.
//!
//! This is the cost of tests, and unrelated to that on a device.

#![expect(clippy::print_stdout, reason = "an example prints")]

#[path = "../tests/twins/runner.rs"]
mod runner;
#[path = "../tests/twins/support/mod.rs"]
mod support;

use std::time::Instant;

use stepwell_kernels::host::Schedule;
use stepwell_kernels::{TABLE_OWN_PLACES, UpdateTable};
use stepwell_optim::Storage;
use support::batch::{Batch, Shape, optimizers};
use support::steps::{scan, sort};
use support::{Arg, Dice, run};

const ONE: Schedule = Schedule { seed: 5, workers: 1 };
const COUNT: usize = 100_000;

/// Prints the time of the fastest of several runs, in total and per item.
fn time(what: &str, items: usize, mut of: impl FnMut()) {
    let one = |_| {
        let begin = Instant::now();
        of();
        begin.elapsed().as_secs_f64()
    };
    let seconds = (0..7).map(one).fold(f64::INFINITY, f64::min);
    let (each, all) = (1e9 * seconds / items as f64, 1e3 * seconds);
    println!("{what:<34} {items:>8} items  {all:>9.3} ms  {each:>8.1} ns each");
}

fn rows(row_lanes: usize) {
    let mut dice = Dice(1);
    let slots = dice.order(COUNT);
    let (mut rows, staging) = (vec![0.0; COUNT * row_lanes], dice.numbers(COUNT * row_lanes));
    time(&format!("rows_up, {row_lanes} lanes"), COUNT, || {
        let shape = [0, COUNT as u32, row_lanes as u32].map(Arg::U32);
        let [at, count, lanes] = shape;
        let (from, to, lists) = (Arg::F(&staging), Arg::FMut(&mut rows), Arg::W(&slots));
        run("rows_up", 1 << 20, ONE, &mut [from, to, lists, Arg::U64(0), at, count, lanes]);
    });
}

fn pool(dim: usize, storage: Storage) {
    let optimizer = optimizers()[0];
    let (keys, fields, more_lanes) = (50_000, 5, 0);
    let shape =
        Shape { dim, wide: 0, fields, storage, optimizer, is_weighed: false, keys, more_lanes };
    let batch = Batch::drawn(10_000, &[shape], &mut Dice(2));
    let mut x = vec![0.0; batch.examples * batch.columns];
    let mut first_order = vec![0.0; batch.examples];
    let occurrences = batch.tables[0].occurrence_rows.len();
    time(&format!("rows_pool, {dim} lanes of {}", storage.name()), occurrences, || {
        let arguments = &mut [
            Arg::F(&batch.rows),
            Arg::W(&batch.lists.0),
            Arg::Pool(&batch.pool),
            Arg::U32(1),
            Arg::W(&batch.columns_of),
            Arg::U32(batch.columns as u32),
            Arg::U32(batch.examples as u32),
            Arg::FMut(&mut x),
            Arg::U32(batch.columns as u32),
            Arg::FMut(&mut first_order),
        ];
        run("rows_pool", 1 << 20, ONE, arguments);
    });
}

/// Updates rows of 16 lanes, each of which occurs twice.
fn update(rule: u32, storage: Storage) {
    let mut dice = Dice(3);
    let (count, examples, dim) = (COUNT as u32 / 2, COUNT as u32, 16);
    let of = UpdateTable { rule, dim, rate: 0.1, eps: 1e-3, ..UpdateTable::default() };
    let of = UpdateTable { lr: 0.1, beta1: 0.9, beta2: 0.99, storage: storage as u32, ..of };
    let mut lists = support::Lists::default();
    let ends: Vec<u32> = (1..=count).map(|row| 2 * row).collect();
    let bags: Vec<u32> = (0..count).flat_map(|row| [row, row + count]).collect();
    let blocks: Vec<u32> = (1..=8).map(|block| examples * block / 8).collect();
    let table = UpdateTable {
        rows: count,
        row_lanes: storage.lanes(16) as u32 + 33,
        slots: lists.put(&dice.order(count as usize)),
        bag_ends: lists.put(&ends),
        bags: lists.put(&bags),
        bag_factors: stepwell_kernels::NONE,
        fields: 1,
        columns: lists.put(&[0]),
        rounding: lists.put_wide(&vec![9; count as usize]),
        skip: stepwell_kernels::NONE,
        block_ends: lists.put(&blocks),
        blocks: 8,
        ..of
    };
    let mut rows = vec![0.5; (count * table.row_lanes) as usize];
    let (d_x, d_first_order) = (dice.numbers(COUNT * 16), dice.numbers(COUNT));
    let what = ["sgd", "adagrad", "adam"][rule as usize];
    time(&format!("rows_update, {what}, {}", storage.name()), count as usize, || {
        let arguments = &mut [
            Arg::FMut(&mut rows),
            Arg::W(&lists.0),
            Arg::Update(std::slice::from_ref(&table)),
            Arg::U32(1),
            Arg::U32(table.items() as u32),
            Arg::F(&d_x),
            Arg::U32(16),
            Arg::F(&d_first_order),
            Arg::U32(examples),
        ];
        run("rows_update", 1 << 20, ONE, arguments);
    });
}

fn table(capacity: usize) {
    let mut dice = Dice(4);
    let keys: Vec<u64> = (0..COUNT).map(|_| dice.next()).collect();
    let values: Vec<u32> = (0..COUNT as u32).collect();
    let places = capacity + TABLE_OWN_PLACES as usize;
    let (mut slots_keys, mut of_slots) = (vec![0; places], vec![0; places]);
    let mut placed = vec![0; COUNT];
    let load = COUNT as f64 / capacity as f64;
    let [places, count] = [capacity, COUNT].map(|of| of as u32);
    time(&format!("table_insert, load {load:.2}"), COUNT, || {
        let (keys_at, values_at) = (Arg::LMut(&mut slots_keys), Arg::WMut(&mut of_slots));
        run("table_clear", 1 << 20, ONE, &mut [keys_at, values_at, Arg::U32(places)]);
        let arguments = &mut [
            Arg::LMut(&mut slots_keys),
            Arg::WMut(&mut of_slots),
            Arg::U32(places),
            Arg::L(&keys),
            Arg::W(&values),
            Arg::U32(count),
            Arg::WMut(&mut placed),
            Arg::WMut(&mut [0, 0]),
        ];
        run("table_insert", 1 << 20, ONE, arguments);
    });
    time(&format!("table_get, load {load:.2}"), COUNT, || {
        let (keys_at, values_at) = (Arg::L(&slots_keys), Arg::W(&of_slots));
        let (asked, found) = (Arg::L(&keys), Arg::WMut(&mut placed));
        let (count, counters) = (Arg::U32(count), Arg::WMut(&mut [0]));
        let arguments = &mut [keys_at, values_at, Arg::U32(places), asked, count, found, counters];
        run("table_get", 1 << 20, ONE, arguments);
    });
}

fn main() {
    time("an empty launch", 1, || {
        run("sort_begin", 0, ONE, &mut [Arg::WMut(&mut []), Arg::U32(0)]);
    });
    [16, 17, 64].into_iter().for_each(rows);
    pool(16, Storage::F32);
    pool(64, Storage::F32);
    pool(16, Storage::F16);
    for rule in 0..3 {
        update(rule, Storage::F32);
        update(rule, Storage::Bf16);
    }
    table(2 * COUNT);
    table(COUNT);
    let words: Vec<u32> = (0..COUNT as u32).map(|word| word.wrapping_mul(0x9E37_79B9)).collect();
    time("scan", COUNT, || drop(scan(&words, ONE)));
    time("sort, a pass of 8 bits", COUNT, || drop(sort(&words, 8, ONE)));
}
