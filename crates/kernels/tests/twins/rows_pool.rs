//! Pooled embeddings and first-order sums have the bits of a plain loop.

use super::support::batch::{Batch, Shape, optimizers};
use super::support::{Arg, Dice, SCHEDULES, bits, run, sizes};

use stepwell_optim::Storage;

/// The engine's result, in a matrix of `width` columns.
fn pooled(batch: &Batch, width: usize) -> (Vec<f32>, Vec<f32>) {
    let mut x = vec![-5.0; batch.examples * width];
    let mut first_order = vec![0.0f32; batch.examples];
    for table in &batch.tables {
        let shape = table.shape;
        let weights = |row: u32| {
            let row = &batch.rows[table.place(row as usize)];
            shape.storage.view(&row[..shape.storage.lanes(shape.width())], shape.width())
        };
        for (example, first_order) in first_order.iter_mut().enumerate() {
            for field in 0..shape.fields {
                let at = example * width + table.columns[field];
                let to = &mut x[at..at + shape.dim];
                to.fill(0.0);
                let bag = table.bag(example * shape.fields + field);
                for (number, occurrence) in bag.enumerate() {
                    let row = weights(table.occurrence_rows[occurrence]);
                    let factor = table.factors.get(occurrence);
                    let times = |weight: f32| factor.map_or(weight, |factor| weight * factor);
                    for (lane, sum) in to.iter_mut().enumerate() {
                        let weight = times(row.get(lane));
                        *sum = if number == 0 { weight } else { *sum + weight };
                    }
                    if shape.wide > 0 {
                        *first_order += times(row.get(shape.dim));
                    }
                }
            }
        }
    }
    (x, first_order)
}

fn compare(batch: &Batch, more_columns: usize) {
    let width = batch.columns + more_columns;
    let (x, first_order) = pooled(batch, width);
    compare_with(batch, width, &(x, first_order));
}

fn compare_with(batch: &Batch, width: usize, (x, first_order): &(Vec<f32>, Vec<f32>)) {
    for schedule in SCHEDULES {
        let mut got = (vec![-5.0; x.len()], vec![f32::NAN; batch.examples]);
        let items = batch.examples * (batch.columns.div_ceil(4) + 1);
        run(
            "rows_pool",
            items as u64,
            schedule,
            &mut [
                Arg::F(&batch.rows),
                Arg::W(&batch.lists.0),
                Arg::Pool(&batch.pool),
                Arg::U32(batch.pool.len() as u32),
                Arg::W(&batch.columns_of),
                Arg::U32(batch.columns as u32),
                Arg::U32(batch.examples as u32),
                Arg::FMut(&mut got.0),
                Arg::U32(width as u32),
                Arg::FMut(&mut got.1),
            ],
        );
        assert_eq!(bits(&got.0), bits(x), "{} examples", batch.examples);
        assert_eq!(bits(&got.1), bits(first_order), "{} examples", batch.examples);
    }
}

fn shape(dim: usize, wide: usize, storage: Storage, is_weighed: bool) -> Shape {
    let optimizer = optimizers()[dim % 3];
    Shape { dim, wide, fields: 2, storage, optimizer, is_weighed, keys: 90, more_lanes: 1 }
}

#[test]
fn one_table_of_every_shape() {
    let mut dice = Dice(11);
    for storage in Storage::ALL {
        for dim in [0, 1, 3, 4, 5, 8, 16, 17] {
            for (wide, is_weighed) in [(0, false), (1, false), (1, true)] {
                let shape = shape(dim, wide, storage, is_weighed);
                compare(&Batch::drawn(37, &[shape], &mut dice), dim % 3);
                // Rows aligned to four lanes.
                let more_lanes = shape.model_lanes().next_multiple_of(4) - shape.model_lanes();
                compare(&Batch::drawn(37, &[Shape { more_lanes, ..shape }], &mut dice), 0);
            }
        }
    }
}

#[test]
fn several_tables_of_different_shapes_at_once() {
    let mut dice = Dice(12);
    let shapes = [
        Shape { fields: 3, ..shape(4, 1, Storage::F32, false) },
        shape(5, 0, Storage::F16, true),
        Shape { fields: 1, ..shape(0, 1, Storage::F32, true) },
        Shape { keys: 1, ..shape(16, 1, Storage::Bf16, false) },
        Shape { more_lanes: 0, ..shape(16, 0, Storage::F32, true) },
        shape(1, 0, Storage::F32, false),
    ];
    for examples in sizes() {
        let shapes = if examples > 100_000 { &shapes[4..] } else { &shapes[..] };
        compare(&Batch::drawn(examples, shapes, &mut dice), 13);
    }
}

/// Four adjacent columns are not always four adjacent lanes.
#[test]
fn columns_may_stand_in_any_order() {
    let mut dice = Dice(13);
    for swapped in [(0, 3), (1, 2), (0, 8), (5, 11)] {
        let shape = Shape { more_lanes: 0, ..shape(8, 0, Storage::F32, false) };
        let shape = Shape { optimizer: optimizers()[0], ..shape };
        let mut batch = Batch::drawn(33, &[shape], &mut dice);
        let (mut x, first_order) = pooled(&batch, batch.columns);
        for word in 0..3 {
            batch.columns_of.swap(swapped.0 * 3 + word, swapped.1 * 3 + word);
        }
        for row in x.chunks_mut(batch.columns) {
            row.swap(swapped.0, swapped.1);
        }
        compare_with(&batch, batch.columns, &(x, first_order));
    }
}
