//! Products, cross layers with a vector, normalizations, functions and softmax compared to plain
//! loops, with each sum in the order of `stepwell-nn`'s layers.

use super::support::matrix::{Matrix, check, items, n, places, shapes};
use super::support::{Arg, Dice, run};

/// The sum in 16 partial sums.
fn sum(terms: impl Iterator<Item = f32>) -> f32 {
    let mut parts = [0.0; 16];
    terms.enumerate().for_each(|(lane, term)| parts[lane % 16] += term);
    parts.into_iter().fold(0.0, |sum, part| sum + part)
}

#[test]
fn products_lane_by_lane() {
    let mut dice = Dice(21);
    for shape in shapes() {
        let (rows, columns) = shape;
        let left = Matrix::drawn(shape, 2, &mut dice);
        for (right_columns, adds) in [(columns, false), (1, true), (1, false), (columns, true)] {
            let right = Matrix::drawn((rows, right_columns), 1, &mut dice);
            let before = Matrix::drawn(shape, 3, &mut dice);
            let mut expected = before.clone();
            for (row, column) in places(shape) {
                let factor = right.at(row, if right_columns == 1 { 0 } else { column });
                expected.put((row, column), left.at(row, column) * factor, adds);
            }
            check("dense_multiply", (&before.lanes, &expected.lanes), |to, schedule| {
                let mut args = vec![Arg::F(&left.lanes), Arg::F(&right.lanes), Arg::FMut(to)];
                args.extend([rows, columns, left.stride, right.stride].map(n));
                args.extend([right_columns, before.stride, usize::from(adds)].map(n));
                run("dense_multiply", items(shape), schedule, &mut args);
            });
        }
    }
}

#[test]
fn dots_of_rows() {
    let mut dice = Dice(22);
    for shape in shapes().into_iter().chain([(3, 15), (3, 16), (3, 17), (2, 48)]) {
        let (rows, columns) = shape;
        let left = Matrix::drawn(shape, 2, &mut dice);
        for (is_vector, adds) in [(false, false), (true, true)] {
            let mut right =
                Matrix::drawn((if is_vector { 1 } else { rows }, columns), 1, &mut dice);
            right.stride = if is_vector { 0 } else { right.stride };
            let before = Matrix::drawn((rows, 1), 3, &mut dice);
            let mut expected = before.clone();
            for row in 0..rows {
                let terms = (0..columns).map(|column| left.at(row, column) * right.at(row, column));
                expected.put((row, 0), sum(terms), adds);
            }
            check("dense_row_dots", (&before.lanes, &expected.lanes), |to, schedule| {
                let mut args = vec![Arg::F(&left.lanes), Arg::F(&right.lanes), Arg::FMut(to)];
                args.extend([rows, columns, left.stride, right.stride, before.stride].map(n));
                args.push(n(usize::from(adds)));
                run("dense_row_dots", rows as u64, schedule, &mut args);
            });
        }
    }
}

#[test]
fn vectors_of_length_1() {
    let mut dice = Dice(25);
    let squares: Vec<f32> = dice.numbers(40).iter().map(|x| x * x).chain([0.0]).collect();
    let of = |square: &f32| (1.0 / (f64::from(*square) + 1e-12).sqrt()) as f32;
    let factors: Vec<f32> = squares.iter().map(of).collect();
    check("dense_unit_factors", (&squares, &factors), |factors, schedule| {
        run("dense_unit_factors", 41, schedule, &mut [Arg::FMut(factors), n(41)]);
    });
    for shape in shapes().into_iter().filter(|(rows, _)| *rows <= 41) {
        let (rows, columns) = shape;
        let (output, d) = (dice.numbers(rows * columns), dice.numbers(rows * columns));
        let along = dice.numbers(rows);
        for (wanted, adds) in [(columns, false), (columns.div_ceil(2), true)] {
            let before = Matrix::drawn((rows, wanted), 3, &mut dice);
            let mut expected = before.clone();
            for (row, column) in places((rows, wanted)) {
                let at = row * columns + column;
                let value = factors[row] * (d[at] - along[row] * output[at]);
                expected.put((row, column), value, adds);
            }
            check("dense_unit_to_input", (&before.lanes, &expected.lanes), |to, schedule| {
                let mut args = [&output, &factors, &d, &along]
                    .map(|of| Arg::F(of))
                    .into_iter()
                    .collect::<Vec<_>>();
                args.push(Arg::FMut(to));
                args.extend([rows, columns, wanted, before.stride, usize::from(adds)].map(n));
                run("dense_unit_to_input", items((rows, wanted)), schedule, &mut args);
            });
        }
    }
}

#[test]
fn cross_layers_with_a_vector() {
    let mut dice = Dice(23);
    for shape in shapes() {
        let (rows, columns) = shape;
        let base = Matrix::drawn(shape, 1, &mut dice);
        let input = Matrix::drawn(shape, 2, &mut dice);
        let (bias, dots) = (dice.numbers(columns), dice.numbers(rows));
        let of = |(r, c): (usize, usize)| base.at(r, c) * dots[r] + bias[c] + input.at(r, c);
        let output: Vec<f32> = places(shape).map(of).collect();
        check("dense_cross_vector", (&vec![f32::NAN; output.len()], &output), |to, schedule| {
            let (base_lanes, input_lanes) = (Arg::F(&base.lanes), Arg::F(&input.lanes));
            let mut args =
                vec![base_lanes, Arg::F(&dots), Arg::F(&bias), input_lanes, Arg::FMut(to)];
            args.extend([rows, columns, base.stride, input.stride].map(n));
            run("dense_cross_vector", items(shape), schedule, &mut args);
        });
        let (d_output, weight) = (dice.numbers(rows * columns), dice.numbers(columns));
        for (wanted, adds) in [(columns, false), (columns.div_ceil(2), true)] {
            let before = Matrix::drawn((rows, wanted), 3, &mut dice);
            let mut expected = before.clone();
            for (row, column) in places((rows, wanted)) {
                let value = d_output[row * columns + column] + weight[column] * dots[row];
                expected.put((row, column), value, adds);
            }
            let name = "dense_cross_vector_to_input";
            check(name, (&before.lanes, &expected.lanes), |to, schedule| {
                let (d_output, weight) = (Arg::F(&d_output), Arg::F(&weight));
                let mut args = vec![d_output, weight, Arg::F(&dots), Arg::FMut(to)];
                args.extend([rows, columns, wanted, before.stride, usize::from(adds)].map(n));
                run(name, items((rows, wanted)), schedule, &mut args);
            });
        }
    }
}

/// A layer normalization of some rows.
struct Norm {
    rows: usize,
    groups: usize,
    columns: usize,
    input: Matrix,
    weight: Vec<f32>,
    bias: Vec<f32>,
    d_output: Vec<f32>,
}

impl Norm {
    fn drawn((rows, groups, columns): (usize, usize, usize), dice: &mut Dice) -> Self {
        let lanes = groups * columns;
        let input = Matrix::drawn((rows, lanes), 2, dice);
        let [weight, bias] = [lanes, lanes].map(|count| dice.numbers(count));
        let d_output = dice.numbers(rows * lanes);
        Self { rows, groups, columns, input, weight, bias, d_output }
    }

    fn lanes(&self) -> usize {
        self.groups * self.columns
    }

    fn shape(&self) -> [Arg<'static>; 4] {
        [self.rows, self.groups, self.columns, self.input.stride].map(n)
    }

    /// Mean and inverse deviation of each group.
    fn moments(&self) -> Vec<f32> {
        let mut moments = Vec::new();
        for (row, group) in places((self.rows, self.groups)) {
            let lane = |lane: usize| self.input.at(row, group * self.columns + lane);
            let lanes = || (0..self.columns).map(lane);
            let mean = sum(lanes()) / self.columns as f32;
            let variance = sum(lanes().map(|x| (x - mean) * (x - mean))) / self.columns as f32;
            moments.extend([mean, (1.0 / (f64::from(variance) + 1e-5).sqrt()) as f32]);
        }
        moments
    }

    /// An input lane, normalized.
    fn normalized(&self, moments: &[f32], (row, lane): (usize, usize)) -> f32 {
        let of_group = &moments[2 * (row * self.groups + lane / self.columns)..];
        (self.input.at(row, lane) - of_group[0]) * of_group[1]
    }

    fn g(&self, row: usize, lane: usize) -> f32 {
        self.d_output[row * self.lanes() + lane] * self.weight[lane]
    }

    /// Means of each group's gradient, alone and times the normalized input.
    fn slopes(&self, moments: &[f32]) -> Vec<f32> {
        let mut slopes = Vec::new();
        for (row, group) in places((self.rows, self.groups)) {
            let [mean, inverse] = [0, 1].map(|of| moments[2 * (row * self.groups + group) + of]);
            let lanes = || group * self.columns..(group + 1) * self.columns;
            let count = self.columns as f32;
            let deviation = |lane| self.g(row, lane) * (self.input.at(row, lane) - mean);
            slopes.push(sum(lanes().map(|lane| self.g(row, lane))) / count);
            slopes.push(sum(lanes().map(deviation)) * inverse / count);
        }
        slopes
    }

    fn check_forward(&self, moments: &[f32]) {
        let nothing = vec![f32::NAN; moments.len()];
        let groups = items((self.rows, self.groups));
        check("dense_norm_moments", (&nothing, moments), |to, schedule| {
            let mut args = vec![Arg::F(&self.input.lanes), Arg::FMut(to)];
            args.extend(self.shape());
            run("dense_norm_moments", groups, schedule, &mut args);
        });
        let shape = (self.rows, self.lanes());
        let lane = |(row, lane)| {
            self.weight[lane] * self.normalized(moments, (row, lane)) + self.bias[lane]
        };
        let output: Vec<f32> = places(shape).map(lane).collect();
        check("dense_norm", (&vec![f32::NAN; output.len()], &output), |to, schedule| {
            let (input, moments) = (Arg::F(&self.input.lanes), Arg::F(moments));
            let (weight, bias) = (Arg::F(&self.weight), Arg::F(&self.bias));
            let mut args = vec![input, moments, weight, bias, Arg::FMut(to)];
            args.extend(self.shape());
            run("dense_norm", items(shape), schedule, &mut args);
        });
    }

    fn check_backward(&self, moments: &[f32], dice: &mut Dice) {
        let slopes = self.slopes(moments);
        let groups = items((self.rows, self.groups));
        let of_input = || {
            let (input, weight) = (Arg::F(&self.input.lanes), Arg::F(&self.weight));
            vec![input, Arg::F(moments), weight, Arg::F(&self.d_output)]
        };
        check("dense_norm_slopes", (&vec![f32::NAN; slopes.len()], &slopes), |to, schedule| {
            let mut args = of_input();
            args.push(Arg::FMut(to));
            args.extend(self.shape());
            run("dense_norm_slopes", groups, schedule, &mut args);
        });
        for (wanted, adds) in [(self.lanes(), false), (self.lanes().div_ceil(2), true)] {
            let before = Matrix::drawn((self.rows, wanted), 3, dice);
            let mut expected = before.clone();
            for (row, lane) in places((self.rows, wanted)) {
                let group = 2 * (row * self.groups + lane / self.columns);
                let z = self.normalized(moments, (row, lane));
                let inner = self.g(row, lane) - slopes[group] - z * slopes[group + 1];
                expected.put((row, lane), moments[group + 1] * inner, adds);
            }
            check("dense_norm_to_input", (&before.lanes, &expected.lanes), |to, schedule| {
                let mut args = of_input();
                args.extend([Arg::F(&slopes), Arg::FMut(to)]);
                args.extend(self.shape());
                args.extend([wanted, before.stride, usize::from(adds)].map(n));
                run("dense_norm_to_input", items((self.rows, wanted)), schedule, &mut args);
            });
        }
        let shape = (self.rows, self.lanes());
        let terms = self.d_output.iter().zip(places(shape));
        let to_weight: Vec<f32> =
            terms.map(|(dy, place)| dy * self.normalized(moments, place)).collect();
        check("dense_norm_to_weight", (&self.d_output, &to_weight), |gradient, schedule| {
            let input = Arg::F(&self.input.lanes);
            let mut args = vec![input, Arg::F(moments), Arg::FMut(gradient)];
            args.extend(self.shape());
            run("dense_norm_to_weight", items(shape), schedule, &mut args);
        });
    }
}

#[test]
fn layer_normalizations() {
    let mut dice = Dice(24);
    for (rows, columns) in shapes().into_iter().chain([(3, 16), (3, 17)]) {
        for groups in [1, 3] {
            let norm = Norm::drawn((rows, groups, columns), &mut dice);
            let moments = norm.moments();
            norm.check_forward(&moments);
            norm.check_backward(&moments, &mut dice);
        }
    }
}

/// The exponential of `stepwell-nn`.
fn exp(x: f64) -> f64 {
    let x = if x > 700.0 { 700.0 } else { x };
    let x = if x < -700.0 { -700.0 } else { x };
    let rounded = x * std::f64::consts::LOG2_E + 6_755_399_441_055_744.0;
    let k = rounded - 6_755_399_441_055_744.0;
    let r = (x - k * 6.931_471_803_691_238e-1) - k * 1.908_214_929_270_587_7e-10;
    let factorial = |of: u64| (1..=of).product::<u64>() as f64;
    let first = 1.0 / factorial(13);
    let of_r = (0..13).rev().fold(first, |sum, power| sum * r + 1.0 / factorial(power));
    of_r * f64::from_bits(rounded.to_bits().wrapping_add(1023) << 52)
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + exp(-x))
}

fn tanh(x: f64) -> f64 {
    1.0 - 2.0 / (1.0 + exp(2.0 * x))
}

const SCALE: f64 = std::f64::consts::FRAC_2_SQRT_PI * std::f64::consts::FRAC_1_SQRT_2;
const CUBE: f64 = 0.044_715;

/// Function number `number` with slope `a`.
fn function(number: usize, x: f32, a: f32) -> f32 {
    let wide = f64::from(x);
    match number {
        0 => {
            if x <= 0.0 {
                0.0
            } else {
                x
            }
        }
        1 => sigmoid(wide) as f32,
        2 => tanh(wide) as f32,
        3 => {
            let t = tanh(SCALE * (wide + CUBE * (wide * wide * wide)));
            (0.5 * wide * (1.0 + t)) as f32
        }
        4 => (wide * sigmoid(wide)) as f32,
        _ => {
            if x > 0.0 {
                x
            } else {
                a * x
            }
        }
    }
}

/// The gradient of a function's input from that of its output and what the function reads.
fn gradient(number: usize, (dy, value): (f32, f32), a: f32) -> f32 {
    let wide = f64::from(value);
    match number {
        0 => {
            if value <= 0.0 {
                0.0
            } else {
                dy
            }
        }
        1 => dy * (wide * (1.0 - wide)) as f32,
        2 => dy * (1.0 - wide * wide) as f32,
        3 => {
            let t = tanh(SCALE * (wide + CUBE * (wide * wide * wide)));
            let of_tangent = (1.0 - t * t) * (SCALE * (1.0 + 3.0 * CUBE * (wide * wide)));
            dy * (0.5 * (1.0 + t) + 0.5 * wide * of_tangent) as f32
        }
        4 => {
            let s = sigmoid(wide);
            dy * (s + wide * (s * (1.0 - s))) as f32
        }
        _ => {
            if value > 0.0 {
                dy
            } else {
                a * dy
            }
        }
    }
}

#[test]
fn functions() {
    let mut dice = Dice(25);
    for (shape, of) in shapes().into_iter().flat_map(|shape| (0..6).map(move |of| (shape, of))) {
        let (rows, columns) = shape;
        let input = Matrix::drawn(shape, 2, &mut dice);
        let slopes = dice.numbers(columns);
        let d_output = dice.numbers(rows * columns);
        let lane = |(row, column)| function(of, input.at(row, column), slopes[column]);
        let output: Vec<f32> = places(shape).map(lane).collect();
        let start = || [of, rows, columns, input.stride].map(n);
        check("dense_function", (&vec![f32::NAN; output.len()], &output), |to, schedule| {
            let mut args = vec![Arg::F(&input.lanes), Arg::F(&slopes), Arg::FMut(to)];
            args.extend(start());
            run("dense_function", items(shape), schedule, &mut args);
        });
        for (wanted, adds) in [(columns, false), (columns.div_ceil(2), true)] {
            let before = Matrix::drawn((rows, wanted), 3, &mut dice);
            let mut expected = before.clone();
            for (row, column) in places((rows, wanted)) {
                let pair = (d_output[row * columns + column], input.at(row, column));
                expected.put((row, column), gradient(of, pair, slopes[column]), adds);
            }
            let name = "dense_function_to_input";
            check(name, (&before.lanes, &expected.lanes), |to, schedule| {
                let (values, slopes) = (Arg::F(&input.lanes), Arg::F(&slopes));
                let mut args = vec![values, slopes, Arg::F(&d_output), Arg::FMut(to)];
                args.extend(start());
                args.extend([wanted, before.stride, usize::from(adds)].map(n));
                run(name, items((rows, wanted)), schedule, &mut args);
            });
        }
        let terms = d_output.iter().zip(places(shape)).map(|(dy, (row, column))| {
            let x = input.at(row, column);
            if x > 0.0 { 0.0 } else { x * dy }
        });
        let terms: Vec<f32> = terms.collect();
        check("dense_function_to_slopes", (&d_output, &terms), |gradient, schedule| {
            let mut args = vec![Arg::F(&input.lanes), Arg::FMut(gradient)];
            args.extend([rows, columns, input.stride].map(n));
            run("dense_function_to_slopes", items(shape), schedule, &mut args);
        });
    }
}

#[test]
fn softmax_of_rows() {
    let mut dice = Dice(26);
    for shape in shapes() {
        let (rows, columns) = shape;
        let logits = Matrix::drawn(shape, 2, &mut dice);
        let mut softmax = Vec::new();
        for row in 0..rows {
            let of_row = || (0..columns).map(|column| f64::from(logits.at(row, column)));
            let most = of_row().fold(f64::NEG_INFINITY, f64::max);
            let all = of_row().fold(0.0, |sum, logit| sum + exp(logit - most));
            softmax.extend(of_row().map(|logit| (exp(logit - most) / all) as f32));
        }
        check("dense_softmax", (&vec![f32::NAN; softmax.len()], &softmax), |to, schedule| {
            let mut args = vec![Arg::F(&logits.lanes), Arg::FMut(to)];
            args.extend([rows, columns, logits.stride].map(n));
            run("dense_softmax", rows as u64, schedule, &mut args);
        });
        let d_softmax = dice.numbers(rows * columns);
        for (wanted, adds) in [(columns, false), (columns.div_ceil(2), true)] {
            let before = Matrix::drawn((rows, wanted), 3, &mut dice);
            let mut expected = before.clone();
            for (row, column) in places((rows, wanted)) {
                let pairs =
                    (row * columns..(row + 1) * columns).map(|at| (softmax[at], d_softmax[at]));
                let mean = pairs.fold(0.0, |sum, (p, dp)| sum + p * dp);
                let at = row * columns + column;
                expected.put((row, column), softmax[at] * (d_softmax[at] - mean), adds);
            }
            let name = "dense_softmax_backward";
            check(name, (&before.lanes, &expected.lanes), |to, schedule| {
                let mut args = vec![Arg::F(&softmax), Arg::F(&d_softmax), Arg::FMut(to)];
                args.extend([rows, columns, wanted, before.stride, usize::from(adds)].map(n));
                run(name, rows as u64, schedule, &mut args);
            });
        }
    }
}
