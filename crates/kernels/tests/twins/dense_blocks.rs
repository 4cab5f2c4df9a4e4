//! Normalization over the examples of a block, and Dice, compared to plain loops, with each sum in
//! the order of examples.

use super::support::matrix::{Matrix, check, items, n, places};
use super::support::{Arg, Dice, SCHEDULES, run};
use stepwell_kernels::host::Schedule;

const EPSILON: f64 = 1e-5;
const SLOT_ROWS: usize = 7;
/// Examples of each block.
const ROWS_OF: [u32; 4] = [7, 1, 0, 5];
/// Lanes between blocks in addition to those of a block.
const GAP: usize = 3;

/// Four blocks of examples in slots.
struct Case {
    columns: usize,
    input: Matrix,
    d_output: Vec<f32>, // (rows, columns)
    moments: Vec<f32>,  // (blocks, 2, columns)
}

impl Case {
    fn all() -> Vec<Self> {
        [1, 3, 16, 40].map(|columns| Self::drawn(columns, &mut Dice(columns as u64))).into()
    }

    fn drawn(columns: usize, dice: &mut Dice) -> Self {
        let rows = ROWS_OF.len() * SLOT_ROWS;
        let mut case = Self {
            columns,
            input: Matrix::drawn((rows, columns), 2, dice),
            d_output: dice.numbers(rows * columns),
            moments: vec![0.0; ROWS_OF.len() * 2 * columns],
        };
        for (block, column) in places((ROWS_OF.len(), columns)) {
            let count = ROWS_OF[block].max(1) as f32;
            let mean = case.sum(block, |row| case.x(row, column)) / count;
            let variance = case.squares((block, column), mean) / count;
            case.moments[(2 * block) * columns + column] = mean;
            case.moments[(2 * block + 1) * columns + column] =
                (1.0 / (f64::from(variance) + EPSILON).sqrt()) as f32;
        }
        case
    }

    fn shape(&self) -> (usize, usize) {
        (ROWS_OF.len() * SLOT_ROWS, self.columns)
    }

    fn x(&self, row: usize, column: usize) -> f32 {
        self.input.at(row, column)
    }

    fn dy(&self, row: usize, column: usize) -> f32 {
        self.d_output[row * self.columns + column]
    }

    /// Sum over the rows of a block.
    fn sum(&self, block: usize, term: impl Fn(usize) -> f32) -> f32 {
        (0..ROWS_OF[block] as usize).fold(0.0, |sum, row| sum + term(block * SLOT_ROWS + row))
    }

    fn squares(&self, (block, column): (usize, usize), mean: f32) -> f32 {
        self.sum(block, |row| (self.x(row, column) - mean) * (self.x(row, column) - mean))
    }

    /// Mean and inverse deviation of a column in the block of `row`.
    fn moments_of(&self, block: usize, column: usize) -> (f32, f32) {
        let of = |moment: usize| self.moments[(2 * block + moment) * self.columns + column];
        (of(0), of(1))
    }

    /// Blocks, rows of a slot, columns and stride.
    fn by_block(&self) -> [Arg<'static>; 4] {
        [ROWS_OF.len(), SLOT_ROWS, self.columns, self.input.stride].map(n)
    }

    /// Rows, rows of a slot, columns and stride.
    fn by_row(&self) -> [Arg<'static>; 4] {
        [self.shape().0, SLOT_ROWS, self.columns, self.input.stride].map(n)
    }

    /// Whether the results of a row are determined.
    fn is_example(row: usize) -> bool {
        ((row % SLOT_ROWS) as u32) < ROWS_OF[row / SLOT_ROWS]
    }

    /// `values` with zeros in rows that are no examples.
    fn of_examples(&self, values: &[f32]) -> Vec<f32> {
        let of = |(at, value): (usize, &f32)| {
            if Self::is_example(at / self.columns) { *value } else { 0.0 }
        };
        values.iter().enumerate().map(of).collect()
    }
}

fn of_blocks() -> u64 {
    ROWS_OF.len() as u64
}

#[test]
fn moments_and_statistics_of_blocks() {
    for case in Case::all() {
        let columns = case.columns;
        let apart = 2 + 2 * columns + GAP;
        let before = vec![9.0; ROWS_OF.len() * apart];
        let mut statistics = before.clone();
        for (block, rows) in ROWS_OF.into_iter().enumerate() {
            let of = &mut statistics[block * apart..(block + 1) * apart];
            of[0] = rows as f32;
            of[1] = rows.saturating_sub(1) as f32;
            for column in 0..columns {
                let mean = case.moments_of(block, column).0;
                of[2 + column] = mean * rows as f32;
                of[2 + columns + column] = case.squares((block, column), mean);
            }
        }
        let launch = |moments: &mut [f32], statistics: &mut [f32], schedule| {
            let mut args = vec![Arg::F(&case.input.lanes), Arg::W(&ROWS_OF)];
            args.extend([Arg::FMut(moments), Arg::FMut(statistics)]);
            args.extend(case.by_block());
            args.extend([Arg::U64(apart as u64), Arg::F64(EPSILON)]);
            run("dense_batch_moments", of_blocks() * columns as u64, schedule, &mut args);
        };
        let none = vec![f32::NAN; case.moments.len()];
        check("moments", (&none, &case.moments), |moments, schedule| {
            launch(moments, &mut before.clone(), schedule);
        });
        check("statistics", (&before, &statistics), |statistics, schedule| {
            launch(&mut none.clone(), statistics, schedule);
        });
    }
}

#[test]
fn states_follow_statistics_and_are_read() {
    let mut dice = Dice(3);
    for columns in [1, 5, 33] {
        let state: Vec<f32> = dice.numbers(2 * columns).iter().map(|x| x.abs()).collect();
        for counts in [[8.0, 7.0], [1.0, 0.0], [0.0, 0.0]] {
            let statistics = [&counts[..], &dice.numbers(2 * columns)].concat();
            let moved = |(lane, value): (usize, &f32)| {
                let count = counts[usize::from(lane >= columns)];
                let to = statistics[2 + lane] / count;
                if count > 0.0 { value + 0.1f32 * (to - value) } else { *value }
            };
            let expected: Vec<f32> = state.iter().enumerate().map(moved).collect();
            check("dense_batch_norm_advance", (&state, &expected), |state, schedule| {
                let (state, statistics) = (Arg::FMut(state), Arg::F(&statistics));
                let args = &mut [state, statistics, n(columns), Arg::F32(0.1)];
                run("dense_batch_norm_advance", 2 * columns as u64, schedule, args);
            });
        }
        let inverse = |variance: &f32| (1.0 / (f64::from(*variance) + EPSILON).sqrt()) as f32;
        let inverse: Vec<f32> = state[columns..].iter().map(inverse).collect();
        let expected = [&state[..columns], &inverse].concat().repeat(3);
        let none = vec![f32::NAN; expected.len()];
        check("dense_batch_moments_of_state", (&none, &expected), |moments, schedule| {
            let (state, moments) = (Arg::F(&state), Arg::FMut(moments));
            let args = &mut [state, moments, n(3), n(columns), Arg::F64(EPSILON)];
            run("dense_batch_moments_of_state", 3 * columns as u64, schedule, args);
        });
    }
}

#[test]
fn normalization_and_its_gradients() {
    for case in Case::all() {
        let (shape, columns) = (case.shape(), case.columns);
        let mut dice = Dice(7);
        let (scale, shift) = (dice.numbers(columns), dice.numbers(columns));
        let of = |(row, column)| {
            let (mean, inverse) = case.moments_of(row / SLOT_ROWS, column);
            scale[column] * inverse * (case.x(row, column) - mean) + shift[column]
        };
        let expected: Vec<f32> = places(shape).map(of).collect();
        let none = vec![f32::NAN; expected.len()];
        check("dense_batch_norm", (&none, &expected), |output, schedule| {
            let mut args = vec![Arg::F(&case.input.lanes), Arg::F(&case.moments)];
            args.extend([Arg::F(&scale), Arg::F(&shift), Arg::FMut(output)]);
            args.extend(case.by_row());
            run("dense_batch_norm", items(shape), schedule, &mut args);
        });
        let apart = 2 * columns + GAP;
        let before = vec![9.0; ROWS_OF.len() * apart];
        let mut gradients = before.clone();
        for (block, column) in places((ROWS_OF.len(), columns)) {
            let (mean, inverse) = case.moments_of(block, column);
            let of = |row| case.dy(row, column) * (case.x(row, column) - mean);
            let to = &mut gradients[block * apart..];
            to[column] = case.sum(block, of) * inverse;
            to[columns + column] = case.sum(block, |row| case.dy(row, column));
        }
        check("dense_batch_norm_sums", (&before, &gradients), |gradients, schedule| {
            let mut args = vec![Arg::F(&case.input.lanes), Arg::F(&case.moments)];
            args.extend([Arg::F(&case.d_output), Arg::W(&ROWS_OF), Arg::FMut(gradients)]);
            args.extend(case.by_block());
            args.push(Arg::U64(apart as u64));
            run("dense_batch_norm_sums", of_blocks() * columns as u64, schedule, &mut args);
        });
        for adds in [false, true] {
            let before = dice.numbers(shape.0 * columns);
            let of = |(row, column): (usize, usize)| {
                let block = row / SLOT_ROWS;
                let (mean, inverse) = case.moments_of(block, column);
                let (count, of) = (ROWS_OF[block] as f32, &gradients[block * apart..]);
                let slope = of[column] / count * inverse;
                let offset = of[columns + column] / count;
                let deviation = case.x(row, column) - mean;
                let centered = case.dy(row, column) - offset - deviation * slope;
                let d = scale[column] * inverse * centered;
                if adds { before[row * columns + column] + d } else { d }
            };
            let expected: Vec<f32> = places(shape).map(of).collect();
            let expected = case.of_examples(&expected);
            check("dense_batch_norm_to_input", (&before, &expected), |d_input, schedule| {
                let mut args = vec![Arg::F(&case.input.lanes), Arg::F(&case.moments)];
                args.extend([Arg::F(&scale), Arg::F(&case.d_output), Arg::F(&gradients)]);
                args.extend([Arg::W(&ROWS_OF), Arg::FMut(d_input)]);
                args.extend(case.by_row());
                args.push(Arg::U64(apart as u64));
                args.extend([columns, columns, usize::from(adds)].map(n));
                run("dense_batch_norm_to_input", items(shape), schedule, &mut args);
                d_input.copy_from_slice(&case.of_examples(d_input));
            });
        }
    }
}

/// A case with slopes, and what the forward pass keeps.
struct DiceCase {
    case: Case,
    slopes: Vec<f32>,
    kept: Vec<f32>, // (rows, columns)
}

impl DiceCase {
    fn all() -> impl Iterator<Item = Self> {
        Case::all().into_iter().map(|case| {
            let slopes = Dice(8).numbers(case.columns);
            let none = vec![f32::NAN; case.d_output.len()];
            let mut made = Self { case, slopes, kept: none.clone() };
            let mut kept = none.clone();
            made.forward(&mut none.clone(), &mut kept, SCHEDULES[0]);
            made.kept = kept;
            made
        })
    }

    fn forward(&self, output: &mut [f32], kept: &mut [f32], schedule: Schedule) {
        let case = &self.case;
        let mut args = vec![Arg::F(&case.input.lanes), Arg::F(&case.moments)];
        args.extend([Arg::F(&self.slopes), Arg::FMut(output), Arg::FMut(kept)]);
        args.extend(case.by_row());
        run("dense_dice", items(case.shape()), schedule, &mut args);
    }

    fn normal(&self, row: usize, column: usize) -> f32 {
        let (mean, inverse) = self.case.moments_of(row / SLOT_ROWS, column);
        (self.case.x(row, column) - mean) * inverse
    }

    fn p(&self, row: usize, column: usize) -> f32 {
        self.kept[row * self.case.columns + column]
    }

    /// Gradient of a normalized value.
    fn d_normal(&self, row: usize, column: usize) -> f32 {
        let (p, a) = (self.p(row, column), self.slopes[column]);
        self.case.dy(row, column) * self.case.x(row, column) * (1.0 - a) * (p * (1.0 - p))
    }

    /// For each block the sums of gradients of normalized values, alone and times these.
    fn sums(&self) -> Vec<f32> {
        let columns = self.case.columns;
        let mut sums = vec![0.0; ROWS_OF.len() * 2 * columns];
        for (block, column) in places((ROWS_OF.len(), columns)) {
            let at = 2 * block * columns + column;
            sums[at] = self.case.sum(block, |row| self.d_normal(row, column));
            let square = |row| self.d_normal(row, column) * self.normal(row, column);
            sums[at + columns] = self.case.sum(block, square);
        }
        sums
    }

    /// Arguments of both kernels of the backward pass.
    fn args(&self) -> Vec<Arg<'_>> {
        let Self { case, slopes, kept } = self;
        let all = [&case.input.lanes, &case.moments, slopes, kept, &case.d_output];
        all.map(|of| Arg::F(of)).into_iter().collect()
    }
}

#[test]
fn dice_of_values() {
    for of in DiceCase::all() {
        let (shape, case) = (of.case.shape(), &of.case);
        // The logistic function has tests of its own.
        for (row, column) in places(shape).filter(|(row, _)| Case::is_example(*row)) {
            let p = 1.0 / (1.0 + (-f64::from(of.normal(row, column))).exp());
            assert!((f64::from(of.p(row, column)) - p).abs() < 1e-7);
        }
        let output = |(row, column)| {
            let a = of.slopes[column];
            case.x(row, column) * (a + (1.0 - a) * of.p(row, column))
        };
        let expected: Vec<f32> = places(shape).map(output).collect();
        let none = vec![f32::NAN; expected.len()];
        check("dense_dice: kept", (&none, &of.kept), |kept, schedule| {
            of.forward(&mut none.clone(), kept, schedule);
        });
        check("dense_dice: output", (&none, &expected), |output, schedule| {
            of.forward(output, &mut none.clone(), schedule);
        });
    }
}

#[test]
fn sums_of_dice_over_blocks() {
    for of in DiceCase::all() {
        let (case, columns) = (&of.case, of.case.columns);
        let apart = columns + GAP;
        let before = vec![9.0; ROWS_OF.len() * apart];
        let (mut gradients, sums) = (before.clone(), of.sums());
        for (block, column) in places((ROWS_OF.len(), columns)) {
            let of_slope =
                |row| case.dy(row, column) * case.x(row, column) * (1.0 - of.p(row, column));
            gradients[block * apart + column] = case.sum(block, of_slope);
        }
        let launch = |gradients: &mut [f32], sums: &mut [f32], schedule| {
            let mut args = of.args();
            args.extend([Arg::W(&ROWS_OF), Arg::FMut(gradients), Arg::FMut(sums)]);
            args.extend(case.by_block());
            args.push(Arg::U64(apart as u64));
            run("dense_dice_sums", of_blocks() * columns as u64, schedule, &mut args);
        };
        let no_sums = vec![f32::NAN; sums.len()];
        check("dense_dice_sums: gradients", (&before, &gradients), |gradients, schedule| {
            launch(gradients, &mut no_sums.clone(), schedule);
        });
        check("dense_dice_sums: sums", (&no_sums, &sums), |sums, schedule| {
            launch(&mut before.clone(), sums, schedule);
        });
    }
}

#[test]
fn gradients_of_the_input_of_dice() {
    for of in DiceCase::all() {
        let (case, columns, sums) = (&of.case, of.case.columns, of.sums());
        let d = |(row, column): (usize, usize)| {
            let block = row / SLOT_ROWS;
            let (a, count) = (of.slopes[column], ROWS_OF[block] as f32);
            let at = 2 * block * columns + column;
            let centered = of.d_normal(row, column)
                - sums[at] / count
                - of.normal(row, column) * (sums[at + columns] / count);
            let inverse = case.moments_of(block, column).1;
            case.dy(row, column) * (a + (1.0 - a) * of.p(row, column)) + inverse * centered
        };
        let expected: Vec<f32> = places(case.shape()).map(d).collect();
        let expected = case.of_examples(&expected);
        let none = vec![f32::NAN; expected.len()];
        check("dense_dice_to_input", (&none, &expected), |d_input, schedule| {
            let mut args = of.args();
            args.extend([Arg::F(&sums), Arg::W(&ROWS_OF), Arg::FMut(d_input)]);
            args.extend(case.by_row());
            args.extend([columns, columns, 0].map(n));
            run("dense_dice_to_input", items(case.shape()), schedule, &mut args);
            d_input.copy_from_slice(&case.of_examples(d_input));
        });
    }
}
