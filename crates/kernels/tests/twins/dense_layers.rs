//! Layers of the dense part compared to plain loops, with each sum in the order of `stepwell-nn`'s
//! layers.

use super::support::matrix::{Matrix, check, items, n, shapes};
use super::support::{Arg, Dice, run};
use stepwell_base::random::Stream;

#[test]
fn columns_are_copied_added_and_cleared() {
    let mut dice = Dice(1);
    for shape in shapes() {
        let (rows, columns) = shape;
        let from = Matrix::drawn(shape, 2, &mut dice);
        let before = Matrix::drawn(shape, 1, &mut dice);
        let strides = || [n(from.stride), n(before.stride)];
        for adds in [false, true] {
            let mut expected = before.clone();
            for (row, column) in (0..rows).flat_map(|row| (0..columns).map(move |c| (row, c))) {
                expected.put((row, column), from.at(row, column), adds);
            }
            check("dense_copy", (&before.lanes, &expected.lanes), |to, schedule| {
                let [from_stride, to_stride] = strides();
                let (source, to) = (Arg::F(&from.lanes), Arg::FMut(to));
                let flag = n(usize::from(adds));
                let args = &mut [source, to, n(rows), n(columns), from_stride, to_stride, flag];
                run("dense_copy", items(shape), schedule, args);
            });
        }
        let mut cleared = before.clone();
        for (row, column) in (0..rows).flat_map(|row| (0..columns).map(move |c| (row, c))) {
            cleared.put((row, column), 0.0, false);
        }
        check("dense_clear", (&before.lanes, &cleared.lanes), |to, schedule| {
            let args = &mut [Arg::FMut(to), n(rows), n(columns), n(before.stride)];
            run("dense_clear", items(shape), schedule, args);
        });
    }
}

#[test]
fn what_is_added_to_a_product_and_its_gradient() {
    let mut dice = Dice(2);
    for shape in shapes() {
        let (rows, columns) = shape;
        let mut values = dice.numbers(rows * columns);
        if let Some(first) = values.first_mut() {
            *first = f32::INFINITY;
        }
        let (bias, gradient) = (dice.numbers(columns), dice.numbers(rows * columns));
        for (has_bias, rectifies) in [(true, true), (true, false), (false, true)] {
            let of = |(at, value): (usize, &f32)| {
                let sum = if has_bias { value + bias[at % columns] } else { *value };
                if rectifies && sum <= 0.0 { 0.0 } else { sum }
            };
            let expected: Vec<f32> = values.iter().enumerate().map(of).collect();
            check("dense_activate", (&values, &expected), |values, schedule| {
                let (has_bias, rectifies) = (n(usize::from(has_bias)), n(usize::from(rectifies)));
                let (values, bias) = (Arg::FMut(values), Arg::F(&bias));
                let args = &mut [values, bias, n(rows), n(columns), has_bias, rectifies];
                run("dense_activate", items(shape), schedule, args);
            });
        }
        let through = gradient.iter().zip(&values).map(|(d, y)| if *y <= 0.0 { 0.0 } else { *d });
        let expected: Vec<f32> = through.collect();
        check("dense_deactivate", (&gradient, &expected), |gradient, schedule| {
            let args = &mut [Arg::F(&values), Arg::FMut(gradient), n(rows), n(columns)];
            run("dense_deactivate", items(shape), schedule, args);
        });
    }
}

#[test]
fn columns_are_summed_by_block_in_the_order_of_examples() {
    let mut dice = Dice(3);
    for (slot_rows, columns) in shapes() {
        let rows_of: Vec<u32> = [slot_rows, slot_rows / 2, 0].map(|rows| rows as u32).to_vec();
        let blocks = rows_of.len();
        let mut values = dice.numbers(blocks * slot_rows * columns);
        let apart = columns + 4;
        let before = dice.numbers(blocks * apart);
        let mut expected = before.clone();
        for (block, rows) in rows_of.iter().map(|rows| *rows as usize).enumerate() {
            let block_values = &mut values[block * slot_rows * columns..][..slot_rows * columns];
            // Data behind the rows of a block is never read.
            block_values[rows * columns..].fill(f32::NAN);
            for column in 0..columns {
                let of_column = (0..rows).map(|row| block_values[row * columns + column]);
                expected[block * apart + column] = of_column.fold(0.0, |sum, value| sum + value);
            }
        }
        check("dense_column_sums", (&before, &expected), |sums, schedule| {
            let args = &mut [
                Arg::F(&values),
                Arg::FMut(sums),
                Arg::W(&rows_of),
                n(blocks),
                n(slot_rows),
                n(columns),
                Arg::U64(apart as u64),
            ];
            run("dense_column_sums", items((blocks, columns)), schedule, args);
        });
    }
}

#[test]
fn lanes_are_dropped_by_the_numbers_of_their_rows() {
    let mut dice = Dice(4);
    for shape in shapes() {
        let (rows, columns) = shape;
        let input = Matrix::drawn(shape, 3, &mut dice);
        for (apart, rate) in [(1, 0.5), (2, 0.0), (3, 0.999), (1, 0.1)] {
            let streams: Vec<u64> = (0..rows * apart).map(|_| dice.next()).collect();
            let scale = (1.0 / (1.0 - rate)) as f32;
            let of = |(row, column): (usize, usize)| {
                let stream = Stream::from_state(streams[row * apart]);
                let uniform = (stream.at(column as u64) >> 11) as f64 / (1u64 << 53) as f64;
                if uniform < rate { 0.0 } else { scale }
            };
            let places = (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column)));
            let kept: Vec<f32> = places.clone().map(of).collect();
            let outputs = places.zip(&kept).map(|((row, column), m)| input.at(row, column) * m);
            let outputs: Vec<f32> = outputs.collect();
            let dropped = (rate * (1u64 << 53) as f64).ceil() as u64;
            let run = |output: &mut [f32], kept: &mut [f32], schedule| {
                let (input_of, streams) = (Arg::F(&input.lanes), Arg::L(&streams));
                let (output, kept) = (Arg::FMut(output), Arg::FMut(kept));
                let numbers = [n(rows), n(columns), n(input.stride), n(apart)];
                let [rows, columns, stride, apart] = numbers;
                let (dropped, scale) = (Arg::U64(dropped), Arg::F32(scale));
                let args = &mut [
                    input_of, streams, output, kept, rows, columns, stride, apart, dropped, scale,
                ];
                run("dense_dropout", items(shape), schedule, args);
            };
            let before = vec![f32::NAN; rows * columns];
            check("dense_dropout: output", (&before, &outputs), |output, schedule| {
                run(output, &mut before.clone(), schedule);
            });
            check("dense_dropout: factors", (&before, &kept), |kept, schedule| {
                run(&mut before.clone(), kept, schedule);
            });
        }
    }
}

#[test]
fn factorization_machines() {
    let mut dice = Dice(4);
    for (rows, dim) in shapes() {
        let (slots, shape) = (5, (rows, dim));
        let input = Matrix::drawn((rows, slots * dim), 3, &mut dice);
        let (mut terms, mut output) = (Vec::new(), Vec::new());
        for row in 0..rows {
            let mut total = 0.0;
            for lane in 0..dim {
                let values = || (0..slots).map(|slot| input.at(row, slot * dim + lane));
                let sum = values().fold(0.0, |sum, value| sum + value);
                let squares = values().fold(0.0, |sum, value| sum + value * value);
                terms.push(sum * sum - squares);
                total += sum * sum - squares;
            }
            output.push(0.5 * total);
        }
        let stride = || n(input.stride);
        check("dense_fm_terms", (&vec![f32::NAN; terms.len()], &terms), |to, schedule| {
            let (input, to) = (Arg::F(&input.lanes), Arg::FMut(to));
            let args = &mut [input, to, n(rows), n(slots), n(dim), stride()];
            run("dense_fm_terms", items(shape), schedule, args);
        });
        check("dense_fm_total", (&vec![f32::NAN; rows], &output), |to, schedule| {
            let args = &mut [Arg::F(&terms), Arg::FMut(to), n(rows), n(dim)];
            run("dense_fm_total", rows as u64, schedule, args);
        });
        // All columns, then part of a vector.
        for (wanted, adds) in [(slots * dim, false), (2 * dim + dim / 2, true)] {
            let d_output = dice.numbers(rows);
            let before = Matrix::drawn((rows, wanted), 2, &mut dice);
            let mut expected = before.clone();
            for (row, column) in (0..rows).flat_map(|row| (0..wanted).map(move |c| (row, c))) {
                let values = (0..slots).map(|slot| input.at(row, slot * dim + column % dim));
                let sum = values.fold(0.0, |sum, value| sum + value);
                let value = d_output[row] * (sum - input.at(row, column));
                expected.put((row, column), value, adds);
            }
            check("dense_fm_backward", (&before.lanes, &expected.lanes), |to, schedule| {
                let args = &mut [
                    Arg::F(&input.lanes),
                    Arg::F(&d_output),
                    Arg::FMut(to),
                    n(rows),
                    n(slots),
                    n(dim),
                    stride(),
                    n(wanted),
                    n(before.stride),
                    n(usize::from(adds)),
                ];
                run("dense_fm_backward", items(shape), schedule, args);
            });
        }
    }
}

#[test]
fn cross_layers() {
    let mut dice = Dice(5);
    for shape in shapes() {
        let (rows, columns) = shape;
        let base = Matrix::drawn(shape, 1, &mut dice);
        let input = Matrix::drawn(shape, 2, &mut dice);
        let (product, gradient) = (dice.numbers(rows * columns), dice.numbers(rows * columns));
        let bias = dice.numbers(columns);
        let places = || (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column)));
        let sum = |row: usize, column: usize| product[row * columns + column] + bias[column];
        let output: Vec<f32> =
            places().map(|(r, c)| base.at(r, c) * sum(r, c) + input.at(r, c)).collect();
        check("dense_cross", (&vec![f32::NAN; output.len()], &output), |to, schedule| {
            let args = &mut [
                Arg::F(&base.lanes),
                Arg::F(&product),
                Arg::F(&bias),
                Arg::F(&input.lanes),
                Arg::FMut(to),
                n(rows),
                n(columns),
                n(base.stride),
                n(input.stride),
            ];
            run("dense_cross", items(shape), schedule, args);
        });
        for (wanted, adds) in [(columns, false), (columns.div_ceil(2), true)] {
            let before = Matrix::drawn((rows, wanted), 3, &mut dice);
            let mut expected = before.clone();
            for (row, column) in places().filter(|(_, column)| *column < wanted) {
                let value = gradient[row * columns + column] * sum(row, column);
                expected.put((row, column), value, adds);
            }
            check("dense_cross_to_base", (&before.lanes, &expected.lanes), |to, schedule| {
                let args = &mut [
                    Arg::F(&product),
                    Arg::F(&bias),
                    Arg::F(&gradient),
                    Arg::FMut(to),
                    n(rows),
                    n(columns),
                    n(wanted),
                    n(before.stride),
                    n(usize::from(adds)),
                ];
                run("dense_cross_to_base", items((rows, wanted)), schedule, args);
            });
        }
        let of_product: Vec<f32> =
            places().map(|(r, c)| gradient[r * columns + c] * base.at(r, c)).collect();
        check("dense_cross_to_product", (&gradient, &of_product), |gradient, schedule| {
            let (base_lanes, gradient) = (Arg::F(&base.lanes), Arg::FMut(gradient));
            let args = &mut [base_lanes, gradient, n(rows), n(columns), n(base.stride)];
            run("dense_cross_to_product", items(shape), schedule, args);
        });
    }
}

/// The vectors of an interaction: some from one matrix, the others from another.
struct Vectors {
    first: Matrix,
    second: Matrix,
    of_first: usize,
    count: usize,
    dim: usize,
}

impl Vectors {
    fn at(&self, row: usize, vector: usize, lane: usize) -> f32 {
        match vector.checked_sub(self.of_first) {
            None => self.first.at(row, vector * self.dim + lane),
            Some(vector) => self.second.at(row, vector * self.dim + lane),
        }
    }

    fn args(&self) -> [Arg<'_>; 2] {
        [Arg::F(&self.first.lanes), Arg::F(&self.second.lanes)]
    }

    fn numbers(&self, rows: usize) -> [Arg<'static>; 6] {
        let strides = [self.first.stride, self.second.stride];
        [rows, self.count, self.dim, self.of_first, strides[0], strides[1]].map(n)
    }

    /// The scaled sum of lane `lane` over the vectors other than `own`.
    fn others(&self, row: usize, (own, lane): (usize, usize), scales: &[f32]) -> f32 {
        let scale = |other: usize| {
            let (earlier, later) = (own.min(other), own.max(other));
            scales[later * (later - 1) / 2 + earlier]
        };
        let others = (0..self.count).filter(|other| *other != own);
        others.fold(0.0, |sum, other| sum + scale(other) * self.at(row, other, lane))
    }
}

#[test]
fn dots_of_all_pairs() {
    let mut dice = Dice(6);
    let shapes = [(2, 1, 1), (3, 2, 0), (16, 3, 4), (17, 5, 17), (27, 16, 1), (70, 2, 35)];
    for (rows, (count, dim, of_first)) in
        [0, 1, 33].into_iter().flat_map(|rows| shapes.map(|shape| (rows, shape)))
    {
        let first = Matrix::drawn((rows, of_first * dim), 1, &mut dice);
        let second = Matrix::drawn((rows, (count - of_first) * dim), 2, &mut dice);
        let vectors = Vectors { first, second, of_first, count, dim };
        let pairs = count * (count - 1) / 2;
        let mut output = Vec::new();
        for (row, later) in (0..rows).flat_map(|row| (0..count).map(move |later| (row, later))) {
            output.extend((0..later).map(|earlier| {
                let term = |d: usize| vectors.at(row, later, d) * vectors.at(row, earlier, d);
                (0..dim).map(term).fold(0.0, |sum, term| sum + term)
            }));
        }
        check("dense_dots", (&vec![f32::NAN; rows * pairs], &output), |to, schedule| {
            let [first, second] = vectors.args();
            let mut args = vec![first, second, Arg::FMut(to)];
            args.extend(vectors.numbers(rows));
            run("dense_dots", items((rows, pairs)), schedule, &mut args);
        });
        let d_output = dice.numbers(rows * pairs);
        let second_columns = (count - of_first) * dim;
        for (from, wanted, adds) in
            [(0, of_first * dim, false), (of_first, second_columns.div_ceil(2), true)]
        {
            let before = Matrix::drawn((rows, wanted), 1, &mut dice);
            let mut expected = before.clone();
            for (row, column) in (0..rows).flat_map(|row| (0..wanted).map(move |c| (row, c))) {
                let own = (from + column / dim, column % dim);
                let value = vectors.others(row, own, &d_output[row * pairs..][..pairs]);
                expected.put((row, column), value, adds);
            }
            check("dense_dots_backward", (&before.lanes, &expected.lanes), |to, schedule| {
                let [first, second] = vectors.args();
                let mut args = vec![first, second, Arg::F(&d_output), Arg::FMut(to)];
                args.extend(vectors.numbers(rows));
                args.extend([from, wanted, before.stride, usize::from(adds)].map(n));
                run("dense_dots_backward", items((rows, wanted)), schedule, &mut args);
            });
        }
    }
}
