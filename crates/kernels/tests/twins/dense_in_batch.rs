//! The softmax within a block compared to plain loops.

use super::support::matrix::{Matrix, check, n};
use super::support::{Arg, Dice, SCHEDULES, run};
use std::ops::Range;
use stepwell_kernels::host::Schedule;

const SLOT_ROWS: usize = 20;
const ROWS_OF: [u32; 4] = [20, 1, 0, 17];
const ROWS: usize = ROWS_OF.len() * SLOT_ROWS;
const BINS: usize = 1 << 16;

/// Rows of examples, with the rows of their block.
fn examples() -> impl Iterator<Item = (usize, Range<usize>)> {
    ROWS_OF.iter().enumerate().flat_map(|(block, rows)| {
        let first = block * SLOT_ROWS;
        let end = first + *rows as usize;
        (first..end).map(move |row| (row, first..end))
    })
}

/// Vectors of items, of which many are equal.
fn items(dice: &mut Dice) -> Matrix {
    let mut items = Matrix::drawn((ROWS, 3), 2, dice);
    for row in 0..ROWS {
        let from = row - dice.below(1 + row.min(3));
        let lanes = from * items.stride..from * items.stride + 3;
        items.lanes.copy_within(lanes, row * items.stride);
    }
    items
}

/// Kept lanes of each example before scores are computed, with corrections of 0.
fn numbers(items: &Matrix) -> Vec<f32> {
    let mut kept = vec![0.0; 3 * ROWS];
    for (row, block) in examples() {
        let own = |row: usize| &items.lanes[row * items.stride..][..3];
        let first = block.clone().find(|other| own(*other) == own(row)).unwrap_or(row);
        kept[3 * row] = (first - block.start) as f32;
    }
    kept
}

/// Sets what is kept of rows without examples to zero.
fn of_examples(kept: &mut [f32]) {
    for row in (0..ROWS).filter(|row| (row % SLOT_ROWS) as u32 >= ROWS_OF[row / SLOT_ROWS]) {
        kept[3 * row..3 * row + 3].fill(0.0);
    }
}

#[test]
fn items_are_numbered_counted_and_corrected() {
    let mut dice = Dice(1);
    let items = items(&mut dice);
    let none = vec![f32::NAN; 3 * ROWS];
    check("dense_number_items", (&none, &numbers(&items)), |kept, schedule| {
        let mut args = vec![Arg::F(&items.lanes), Arg::W(&ROWS_OF), Arg::FMut(kept)];
        args.extend([ROWS, SLOT_ROWS, 3, items.stride].map(n));
        run("dense_number_items", ROWS as u64, schedule, &mut args);
        of_examples(kept);
    });
    // Bins 0 to 4, a broken number, and lanes that have none.
    let mut bins = Matrix::drawn((ROWS, 1), 1, &mut dice);
    for row in 0..ROWS {
        let of = [0.0, 1.0, 2.5, 3.0, 65_535.0, -1.0, 65_536.0, f32::NAN];
        bins.lanes[row * bins.stride] = of[dice.below(8)];
    }
    let bin = |row: usize| {
        let lane = bins.lanes[row * bins.stride];
        (lane >= 0.0 && lane < BINS as f32).then_some(lane as usize)
    };
    let state: Vec<f32> = (0..BINS).map(|number| (number % 1000) as f32 * 7.0).collect();
    let before: Vec<f32> = dice.numbers(3 * ROWS);
    let mut expected = before.clone();
    for row in 0..ROWS {
        if let Some(bin) = bin(row) {
            expected[3 * row + 2] = libm::log1p(f64::from(state[bin])) as f32;
        }
    }
    check("dense_item_corrections", (&before, &expected), |kept, schedule| {
        let (bins_of, state) = (Arg::F(&bins.lanes), Arg::F(&state));
        let args = &mut [bins_of, state, Arg::FMut(kept), n(ROWS), n(bins.stride)];
        run("dense_item_corrections", ROWS as u64, schedule, args);
    });
    let apart = BINS + 5;
    let before = vec![0.0; ROWS_OF.len() * apart];
    let mut counts = before.clone();
    for (row, _) in examples() {
        if let Some(bin) = bin(row) {
            counts[row / SLOT_ROWS * apart + bin] += 1.0;
        }
    }
    check("dense_count_items", (&before, &counts), |counts, schedule| {
        let mut args = vec![Arg::F(&bins.lanes), Arg::W(&ROWS_OF), Arg::FMut(counts)];
        args.extend([ROWS, SLOT_ROWS, bins.stride].map(n));
        args.push(Arg::U64(apart as u64));
        run("dense_count_items", ROWS as u64, schedule, &mut args);
    });
    let sums: Vec<f32> = state.iter().zip(&counts).map(|(a, b)| a + b).collect();
    check("dense_add_counts", (&state, &sums), |state, schedule| {
        let args = &mut [Arg::FMut(state), Arg::F(&counts), n(BINS)];
        run("dense_add_counts", BINS as u64, schedule, args);
    });
}

/// Scores, what is kept and logits after the forward pass, in one order.
struct Forward {
    scores: Vec<f32>,
    kept: Vec<f32>,
    output: Vec<f32>,
}

fn forward(products: &[f32], kept: &[f32], schedule: Schedule) -> Forward {
    let (scores, kept, output) = (products.to_vec(), kept.to_vec(), vec![f32::NAN; ROWS]);
    let mut made = Forward { scores, kept, output };
    let mut args = vec![Arg::FMut(&mut made.scores), Arg::W(&ROWS_OF)];
    args.extend([Arg::FMut(&mut made.kept), Arg::FMut(&mut made.output)]);
    args.extend([n(ROWS), n(SLOT_ROWS), Arg::F32(2.5)]);
    run("dense_in_batch", ROWS as u64, schedule, &mut args);
    made
}

/// Exponentials have bits of their own, so results are compared to f64 within rounding.
#[test]
fn examples_are_scored_among_the_others() {
    let mut dice = Dice(2);
    let items = items(&mut dice);
    let mut kept = numbers(&items);
    for row in 0..ROWS {
        kept[3 * row + 2] = dice.number().abs();
    }
    let (products, d_output) = (dice.numbers(ROWS * SLOT_ROWS), dice.numbers(ROWS));
    let made = forward(&products, &kept, SCHEDULES[0]);
    for schedule in SCHEDULES {
        let again = forward(&products, &kept, schedule);
        assert_eq!(again.scores, made.scores);
        assert_eq!((again.kept, again.output), (made.kept.clone(), made.output.clone()));
    }
    let gradients = backward(&made, &d_output, SCHEDULES[0]);
    for schedule in SCHEDULES {
        assert_eq!(backward(&made, &d_output, schedule), gradients);
    }
    for (row, block) in examples() {
        let score = |other: usize| {
            let product = f64::from(products[row * SLOT_ROWS + other - block.start]);
            2.5 * product - f64::from(kept[3 * other + 2])
        };
        let is_other = |other: &usize| kept[3 * other] != kept[3 * row];
        let others: Vec<usize> = block.clone().filter(is_other).collect();
        let sum: f64 = others.iter().map(|other| score(*other).exp()).sum();
        let logit = if others.is_empty() { 104.0 } else { score(row) - sum.ln() };
        let bound = 1e-4 * (1.0 + logit.abs());
        assert!((f64::from(made.output[row]) - logit).abs() < bound, "row {row}");
        let d = f64::from(d_output[row]) * 2.5;
        for other in block.clone() {
            let share = if is_other(&other) { score(other).exp() / sum } else { 0.0 };
            let own = if others.is_empty() { 0.0 } else { d };
            let expected = if other == row { own } else { -d * share };
            let found = f64::from(gradients[row * SLOT_ROWS + other - block.start]);
            let bound = 1e-4 * (1.0 + expected.abs());
            assert!((found - expected).abs() < bound, "row {row}, {other}: {found} {expected}");
        }
    }
}

fn backward(of: &Forward, d_output: &[f32], schedule: Schedule) -> Vec<f32> {
    let mut scores = of.scores.clone();
    let mut args = vec![Arg::FMut(&mut scores), Arg::W(&ROWS_OF), Arg::F(&of.kept)];
    args.extend([Arg::F(d_output), n(ROWS), n(SLOT_ROWS), Arg::F32(2.5)]);
    run("dense_in_batch_backward", ROWS as u64, schedule, &mut args);
    scores
}

#[test]
fn pairs_alone_are_scored_in_evaluations() {
    let mut dice = Dice(3);
    for columns in [1, 15, 16, 17, 40] {
        let [users, items] = [1, 2].map(|gap| Matrix::drawn((ROWS, columns), gap, &mut dice));
        let score = |row: usize| {
            let mut parts = [0.0f32; 16];
            let of = |lane: usize| users.at(row, lane) * items.at(row, lane);
            (0..columns).for_each(|lane| parts[lane % 16] += of(lane));
            0.5 * parts.into_iter().fold(0.0, |sum, part| sum + part)
        };
        let expected: Vec<f32> = (0..ROWS).map(score).collect();
        check("dense_pair_scores", (&vec![f32::NAN; ROWS], &expected), |output, schedule| {
            let mut args = vec![Arg::F(&users.lanes), Arg::F(&items.lanes), Arg::FMut(output)];
            args.extend([ROWS, columns, users.stride, items.stride].map(n));
            args.push(Arg::F32(0.5));
            run("dense_pair_scores", ROWS as u64, schedule, &mut args);
        });
    }
}
