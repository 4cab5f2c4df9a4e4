//! Attention to sequences compared to plain loops, with each sum in the order of `stepwell-nn`'s
//! layers. Exponentials have bits of their own, so what follows from them is compared within
//! rounding.

use super::support::matrix::{Matrix, check, n, places};
use super::support::{Arg, Dice, SCHEDULES, bits, run};
use stepwell_kernels::host::Schedule;

const SLOT_ROWS: usize = 6;
const ROWS_OF: [u32; 3] = [6, 0, 4];
const ROWS: usize = ROWS_OF.len() * SLOT_ROWS;
const STEPS: usize = 5;
/// Places of steps for each block.
const PLACES: usize = SLOT_ROWS * STEPS;
const LENGTHS: [f32; 7] = [3.0, 0.0, 5.0, 1.9, -2.0, 1e9, f32::NAN];

fn steps_of(length: f32) -> usize {
    if length < STEPS as f32 { length.max(0.0) as usize } else { STEPS }
}

/// The sum in 16 partial sums.
fn sum(terms: impl Iterator<Item = f32>) -> f32 {
    let mut parts = [0.0; 16];
    terms.enumerate().for_each(|(lane, term)| parts[lane % 16] += term);
    parts.into_iter().fold(0.0, |sum, part| sum + part)
}

fn near(found: &[f32], expected: &[f32], what: &str) {
    for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
        let bound = 1e-5 * (1.0 + expected.abs());
        assert!((found - expected).abs() < bound, "{what}, {at}: {found} {expected}");
    }
}

/// Examples with sequences of unequal length; a target or query has `columns` columns.
struct Sequences {
    dim: usize,
    target: Matrix,
    vectors: Matrix,
    lengths: Matrix,
}

impl Sequences {
    fn drawn(dim: usize, columns: usize) -> Self {
        let mut dice = Dice(dim as u64);
        let mut small = |columns: usize, gap: usize| {
            let mut made = Matrix::drawn((ROWS, columns), gap, &mut dice);
            made.lanes.iter_mut().for_each(|lane| *lane = lane.clamp(-1.5, 1.5));
            made
        };
        let (target, vectors) = (small(columns, 1), small(STEPS * dim, 2));
        let mut lengths = small(1, 3);
        for row in 0..ROWS {
            lengths.lanes[row * lengths.stride] = LENGTHS[row % 7];
        }
        Self { dim, target, vectors, lengths }
    }

    /// Steps of a row, whether or not it is an example.
    fn steps(&self, row: usize) -> usize {
        steps_of(self.lengths.at(row, 0))
    }

    fn vector(&self, row: usize, step: usize) -> &[f32] {
        &self.vectors.lanes[row * self.vectors.stride + step * self.dim..][..self.dim]
    }

    /// Places of the first steps in their blocks, and the number of steps of each block.
    fn firsts(&self) -> (Vec<u32>, Vec<u32>) {
        let (mut firsts, mut counts) = (Vec::new(), Vec::new());
        for (block, rows) in ROWS_OF.iter().enumerate() {
            let mut count = 0;
            for row in 0..SLOT_ROWS {
                firsts.push(count);
                let is_example = (row as u32) < *rows;
                count += if is_example { self.steps(block * SLOT_ROWS + row) as u32 } else { 0 };
            }
            counts.push(count);
        }
        (firsts, counts)
    }

    /// Row, step and packed place of each step that counts, in order.
    fn counted(&self) -> Vec<(usize, usize, usize)> {
        let (firsts, _) = self.firsts();
        let examples = (0..ROWS).filter(|row| is_example(*row));
        let all = examples.flat_map(|row| (0..self.steps(row)).map(move |step| (row, step)));
        let at =
            |(row, step): (usize, usize)| row / SLOT_ROWS * PLACES + firsts[row] as usize + step;
        all.map(|place| (place.0, place.1, at(place))).collect()
    }

    /// Number of rows, rows of a slot, and further numbers.
    fn numbers<const N: usize>(&self, more: [usize; N]) -> Vec<Arg<'static>> {
        [ROWS, SLOT_ROWS].into_iter().chain(more).map(n).collect()
    }
}

fn is_example(row: usize) -> bool {
    ((row % SLOT_ROWS) as u32) < ROWS_OF[row / SLOT_ROWS]
}

#[test]
fn steps_are_packed_with_their_features() {
    for dim in [1, 3, 17] {
        let of = Sequences::drawn(dim, dim);
        let (firsts, counts) = of.firsts();
        for schedule in SCHEDULES {
            let (mut found, mut found_counts) = (vec![9; ROWS], vec![9; ROWS_OF.len()]);
            let mut args = vec![Arg::F(&of.lengths.lanes), Arg::W(&ROWS_OF)];
            args.extend([Arg::WMut(&mut found), Arg::WMut(&mut found_counts)]);
            args.extend([ROWS_OF.len(), SLOT_ROWS, of.lengths.stride, STEPS].map(n));
            run("dense_attention_places", ROWS_OF.len() as u64, schedule, &mut args);
            assert_eq!((&found, &found_counts), (&firsts, &counts));
        }
        let before = vec![0.0; ROWS_OF.len() * PLACES * 2 * dim];
        let mut features = before.clone();
        for (row, step, at) in of.counted() {
            for lane in 0..dim {
                let s = of.vector(row, step)[lane];
                features[at * 2 * dim + lane] = s;
                features[at * 2 * dim + dim + lane] = of.target.at(row, lane) * s;
            }
        }
        check("dense_attention_features", (&before, &features), |features, schedule| {
            let inputs = [&of.target, &of.vectors, &of.lengths];
            let mut args: Vec<_> = inputs.map(|of| Arg::F(&of.lanes)).into();
            args.extend([Arg::W(&firsts), Arg::W(&ROWS_OF), Arg::FMut(features)]);
            args.extend(of.numbers([dim, STEPS]));
            args.extend(inputs.map(|of| n(of.stride)));
            run("dense_attention_features", (ROWS * STEPS) as u64, schedule, &mut args);
        });
    }
}

#[test]
fn weights_are_added_up_and_their_gradients_divided() {
    let mut dice = Dice(4);
    for (hidden, dim) in [(1, 1), (3, 2), (17, 5)] {
        let weight = dice.numbers(hidden * 4 * dim);
        let (mut a, mut b) = (vec![0.0; hidden * dim], vec![0.0; hidden * 2 * dim]);
        for (row, lane) in places((hidden, dim)) {
            let of = |part: usize| weight[row * 4 * dim + part * dim + lane];
            a[row * dim + lane] = of(0) + of(2);
            b[row * 2 * dim + lane] = of(1) - of(2);
            b[row * 2 * dim + dim + lane] = of(3);
        }
        for schedule in SCHEDULES {
            let (mut found_a, mut found_b) = (vec![f32::NAN; a.len()], vec![f32::NAN; b.len()]);
            let mut args = vec![Arg::F(&weight), Arg::FMut(&mut found_a), Arg::FMut(&mut found_b)];
            args.extend([n(hidden), n(dim)]);
            run("dense_attention_weights", (hidden * dim) as u64, schedule, &mut args);
            assert_eq!((bits(&found_a), bits(&found_b)), (bits(&a), bits(&b)));
        }
        let (blocks, apart) = (3, hidden * 4 * dim + 2);
        let (d_a, d_b) = (dice.numbers(blocks * a.len()), dice.numbers(blocks * b.len()));
        let before = vec![7.0; blocks * apart];
        let mut gradients = before.clone();
        for (block, (row, lane)) in
            (0..blocks).flat_map(|block| places((hidden, dim)).map(move |place| (block, place)))
        {
            let of_a = d_a[(block * hidden + row) * dim + lane];
            let of_b = |part: usize| d_b[(block * hidden + row) * 2 * dim + part * dim + lane];
            let all = [of_a, of_b(0), of_a - of_b(0), of_b(1)];
            for (part, value) in all.into_iter().enumerate() {
                gradients[block * apart + row * 4 * dim + part * dim + lane] = value;
            }
        }
        check("dense_attention_divide", (&before, &gradients), |gradients, schedule| {
            let mut args = vec![Arg::F(&d_a), Arg::F(&d_b), Arg::FMut(gradients)];
            args.extend([n(blocks), n(hidden), n(dim), Arg::U64(apart as u64)]);
            run("dense_attention_divide", (blocks * hidden * dim) as u64, schedule, &mut args);
        });
    }
}

#[test]
fn steps_are_weighted_and_added_up() {
    for (dim, hidden) in [(1, 1), (3, 7), (17, 18)] {
        let of = Sequences::drawn(dim, dim);
        let (firsts, _) = of.firsts();
        let mut dice = Dice(5);
        let small = |count: usize, dice: &mut Dice| -> Vec<f32> {
            dice.numbers(count).iter().map(|lane| lane.clamp(-2.0, 2.0)).collect()
        };
        let all = ROWS_OF.len() * PLACES;
        let products = small(all * hidden, &mut dice);
        let (of_targets, weight) = (small(ROWS * hidden, &mut dice), small(hidden + 1, &mut dice));
        let launch = |schedule| {
            let (mut lanes, mut parts) = (products.clone(), vec![0.0; all]);
            let mut args = vec![Arg::FMut(&mut lanes), Arg::F(&of_targets), Arg::F(&weight)];
            args.extend([Arg::F(&of.lengths.lanes), Arg::W(&firsts), Arg::W(&ROWS_OF)]);
            args.push(Arg::FMut(&mut parts));
            args.extend(of.numbers([hidden, STEPS, of.lengths.stride]));
            run("dense_attention_hidden", (ROWS * STEPS) as u64, schedule, &mut args);
            (lanes, parts)
        };
        let (lanes, parts) = launch(SCHEDULES[0]);
        for schedule in SCHEDULES {
            assert_eq!(launch(schedule), (lanes.clone(), parts.clone()));
        }
        let (mut expected, mut expected_parts) = (products.clone(), vec![0.0; all]);
        for (row, _, at) in of.counted() {
            let h = &mut expected[at * hidden..(at + 1) * hidden];
            for (lane, u) in h.iter_mut().zip(&of_targets[row * hidden..]) {
                *lane = 1.0 / (1.0 + (-(*lane + u)).exp());
            }
            let terms = h.iter().zip(&weight).map(|(h, w)| h * w);
            expected_parts[at] = sum(terms) + weight[hidden];
        }
        near(&lanes, &expected, "hidden");
        near(&parts, &expected_parts, "parts");
        let mut output = vec![0.0; ROWS * dim];
        for (row, step, at) in of.counted() {
            let lanes = output[row * dim..].iter_mut().zip(of.vector(row, step));
            lanes.for_each(|(y, s)| *y += parts[at] * s);
        }
        check("dense_attention_sum", (&vec![f32::NAN; ROWS * dim], &output), |output, schedule| {
            let mut args = vec![Arg::F(&of.vectors.lanes), Arg::F(&parts)];
            args.extend([Arg::F(&of.lengths.lanes), Arg::W(&firsts), Arg::W(&ROWS_OF)]);
            args.push(Arg::FMut(output));
            args.extend(of.numbers([dim, STEPS, of.vectors.stride, of.lengths.stride]));
            run("dense_attention_sum", (ROWS * dim) as u64, schedule, &mut args);
        });
    }
}

#[test]
fn gradients_of_hidden_sums_targets_and_weights() {
    for (dim, hidden) in [(1, 1), (3, 7), (17, 18)] {
        let of = Sequences::drawn(dim, dim);
        let (firsts, counts) = of.firsts();
        let mut dice = Dice(6);
        let all = ROWS_OF.len() * PLACES;
        let (lanes, weight) = (dice.numbers(all * hidden), dice.numbers(hidden));
        let d_output = dice.numbers(ROWS * dim);
        let (mut d_parts, mut d_hidden) = (vec![0.0; all], vec![0.0; all * hidden]);
        let mut d_of_targets = vec![0.0; ROWS * hidden];
        for (row, step, at) in of.counted() {
            let terms = d_output[row * dim..].iter().zip(of.vector(row, step));
            d_parts[at] = sum(terms.map(|(dy, s)| dy * s));
            for lane in 0..hidden {
                let h = lanes[at * hidden + lane];
                d_hidden[at * hidden + lane] = d_parts[at] * weight[lane] * h * (1.0 - h);
                d_of_targets[row * hidden + lane] += d_hidden[at * hidden + lane];
            }
        }
        for schedule in SCHEDULES {
            let (mut parts, mut sums) = (vec![0.0; all], vec![0.0; all * hidden]);
            let inputs = [&of.vectors.lanes, &lanes, &weight, &d_output, &of.lengths.lanes];
            let mut args: Vec<_> = inputs.map(|of| Arg::F(of)).into();
            args.extend([Arg::W(&firsts), Arg::W(&ROWS_OF)]);
            args.extend([Arg::FMut(&mut parts), Arg::FMut(&mut sums)]);
            args.extend(of.numbers([dim, hidden, STEPS, of.vectors.stride, of.lengths.stride]));
            run("dense_attention_backward", (ROWS * STEPS) as u64, schedule, &mut args);
            assert_eq!((bits(&parts), bits(&sums)), (bits(&d_parts), bits(&d_hidden)));
        }
        let none = vec![f32::NAN; ROWS * hidden];
        check("dense_attention_to_targets", (&none, &d_of_targets), |to, schedule| {
            let mut args = vec![Arg::F(&d_hidden), Arg::F(&of.lengths.lanes)];
            args.extend([Arg::W(&firsts), Arg::W(&ROWS_OF), Arg::FMut(to)]);
            args.extend(of.numbers([hidden, STEPS, of.lengths.stride]));
            run("dense_attention_to_targets", (ROWS * hidden) as u64, schedule, &mut args);
        });
        let apart = hidden + 4;
        let before = vec![5.0; ROWS_OF.len() * apart];
        let mut gradients = before.clone();
        for (block, count) in counts.iter().enumerate() {
            gradients[block * apart..][..=hidden].fill(0.0);
            for at in (block * PLACES..).take(*count as usize) {
                for lane in 0..hidden {
                    gradients[block * apart + lane] += d_parts[at] * lanes[at * hidden + lane];
                }
                gradients[block * apart + hidden] += d_parts[at];
            }
        }
        check("dense_attention_to_weight", (&before, &gradients), |gradients, schedule| {
            let mut args = vec![Arg::F(&lanes), Arg::F(&d_parts), Arg::W(&counts)];
            args.push(Arg::FMut(gradients));
            args.extend([n(ROWS_OF.len()), n(PLACES), n(hidden), Arg::U64(apart as u64)]);
            let items = ROWS_OF.len() * (hidden + 1);
            run("dense_attention_to_weight", items as u64, schedule, &mut args);
        });
    }
}

#[test]
fn gradients_of_targets_and_vectors() {
    for dim in [1, 3, 17] {
        let of = Sequences::drawn(dim, dim);
        let (firsts, _) = of.firsts();
        let mut dice = Dice(7);
        let all = ROWS_OF.len() * PLACES;
        let (d_features, parts) = (dice.numbers(all * 2 * dim), dice.numbers(all));
        let d_output = dice.numbers(ROWS * dim);
        let mut d_targets = vec![0.0; ROWS * dim];
        for (row, step, at) in of.counted() {
            for lane in 0..dim {
                let d = d_features[at * 2 * dim + dim + lane];
                d_targets[row * dim + lane] += d * of.vector(row, step)[lane];
            }
        }
        let none = vec![f32::NAN; ROWS * dim];
        check("dense_attention_to_target", (&none, &d_targets), |to, schedule| {
            let mut args = vec![Arg::F(&of.vectors.lanes), Arg::F(&d_features)];
            args.extend([Arg::F(&of.lengths.lanes), Arg::W(&firsts), Arg::W(&ROWS_OF)]);
            args.push(Arg::FMut(to));
            args.extend(of.numbers([dim, STEPS, of.vectors.stride, of.lengths.stride]));
            run("dense_attention_to_target", (ROWS * dim) as u64, schedule, &mut args);
        });
        for (wanted, adds) in [(STEPS * dim, false), (3 * dim - dim / 2, true)] {
            let before = Matrix::drawn((ROWS, wanted), 2, &mut dice);
            let mut expected = before.clone();
            for (row, column) in places((ROWS, wanted)) {
                expected.put((row, column), 0.0, adds);
            }
            for (row, step, at) in of.counted() {
                for lane in (0..dim).filter(|lane| step * dim + lane < wanted) {
                    let fp = d_features[at * 2 * dim + dim + lane];
                    let d = d_features[at * 2 * dim + lane]
                        + fp * of.target.at(row, lane)
                        + parts[at] * d_output[row * dim + lane];
                    expected.put((row, step * dim + lane), d, true);
                }
            }
            check(
                "dense_attention_to_vectors",
                (&before.lanes, &expected.lanes),
                |to, schedule| {
                    let mut args =
                        vec![Arg::F(&of.target.lanes), Arg::F(&parts), Arg::F(&d_features)];
                    args.extend([Arg::F(&d_output), Arg::F(&of.lengths.lanes)]);
                    args.extend([Arg::W(&firsts), Arg::W(&ROWS_OF), Arg::FMut(to)]);
                    let strides = [of.target.stride, of.lengths.stride];
                    let [target, lengths] = strides;
                    let adds = usize::from(adds);
                    let more = [dim, STEPS, target, lengths, wanted, before.stride, adds];
                    args.extend(of.numbers(more));
                    run("dense_attention_to_vectors", (ROWS * wanted) as u64, schedule, &mut args);
                },
            );
        }
    }
}

/// Attention of several heads, and what its kernels should compute from the weights of steps.
struct Heads {
    heads: usize,
    of: Sequences,
    scale: f32,
    d_output: Vec<f32>,
    parts: Vec<f32>,
    means: Vec<f32>,
    d_scores: Vec<f32>,
    d_queries: Vec<f32>,
    d_vectors: Vec<f32>,
}

impl Heads {
    fn drawn(heads: usize, dim: usize) -> Self {
        let of_head = ROWS * heads;
        let mut made = Self {
            heads,
            of: Sequences::drawn(dim, heads * dim),
            scale: (1.0 / (dim as f64).sqrt()) as f32,
            d_output: Dice(8).numbers(of_head * dim),
            parts: vec![0.0; of_head * STEPS],
            means: vec![0.0; of_head * dim],
            d_scores: vec![0.0; of_head * STEPS],
            d_queries: vec![0.0; of_head * dim],
            d_vectors: vec![0.0; ROWS * STEPS * dim],
        };
        made.parts = made.forward(SCHEDULES[0]).0;
        for (row, head) in places((ROWS, heads)) {
            made.fill(row, head);
        }
        made
    }

    /// Weights of steps and output, launched.
    fn forward(&self, schedule: Schedule) -> (Vec<f32>, Vec<f32>) {
        let (mut parts, mut output) =
            (vec![0.0; self.parts.len()], vec![f32::NAN; self.means.len()]);
        let inputs = [&self.of.target, &self.of.vectors, &self.of.lengths];
        let mut args: Vec<_> = inputs.map(|of| Arg::F(&of.lanes)).into();
        args.extend([Arg::FMut(&mut parts), Arg::FMut(&mut output)]);
        args.extend([ROWS, self.heads, self.of.dim, STEPS].map(n));
        args.extend(inputs.map(|of| n(of.stride)));
        args.push(Arg::F32(self.scale));
        run("dense_heads", (ROWS * self.heads) as u64, schedule, &mut args);
        (parts, output)
    }

    fn query(&self, row: usize, head: usize) -> Vec<f32> {
        (0..self.of.dim).map(|lane| self.of.target.at(row, head * self.of.dim + lane)).collect()
    }

    /// The softmax of a head's dot products, from exponentials of the standard library.
    fn softmax(&self, row: usize, head: usize) -> Vec<f32> {
        let query = self.query(row, head);
        let score = |step| {
            sum(query.iter().zip(self.of.vector(row, step)).map(|(q, s)| q * s)) * self.scale
        };
        let all: Vec<f32> = (0..self.of.steps(row)).map(|step| score(step).exp()).collect();
        let total: f32 = all.iter().sum();
        all.iter().map(|weight| weight / total).collect()
    }

    /// Computes the mean and the gradients of a head.
    fn fill(&mut self, row: usize, head: usize) {
        let (dim, of_head, query) = (self.of.dim, row * self.heads + head, self.query(row, head));
        let dy = self.d_output[of_head * dim..][..dim].to_vec();
        let at = of_head * STEPS;
        let mut mean = 0.0;
        for step in 0..self.of.steps(row) {
            let (p, vector) = (self.parts[at + step], self.of.vector(row, step));
            let d = sum(dy.iter().zip(vector).map(|(dy, s)| dy * s));
            self.d_scores[at + step] = d;
            mean += p * d;
            let means = self.means[of_head * dim..].iter_mut().zip(vector);
            means.for_each(|(mean, s)| *mean += p * s);
        }
        for step in 0..self.of.steps(row) {
            let p = self.parts[at + step];
            let dz = p * (self.d_scores[at + step] - mean) * self.scale;
            self.d_scores[at + step] = dz;
            for lane in 0..dim {
                self.d_queries[of_head * dim + lane] += dz * self.of.vector(row, step)[lane];
                self.d_vectors[(row * STEPS + step) * dim + lane] +=
                    p * dy[lane] + dz * query[lane];
            }
        }
    }
}

#[test]
fn heads_average_vectors() {
    for (heads, dim) in [(1, 1), (2, 3), (3, 17)] {
        let of = Heads::drawn(heads, dim);
        for schedule in SCHEDULES {
            let (parts, output) = of.forward(schedule);
            assert_eq!((bits(&parts), bits(&output)), (bits(&of.parts), bits(&of.means)));
        }
        for (row, head) in places((ROWS, heads)) {
            let parts = &of.parts[(row * heads + head) * STEPS..];
            near(&parts[..of.of.steps(row)], &of.softmax(row, head), "weights of steps");
        }
    }
}

#[test]
fn gradients_of_heads() {
    for (heads, dim) in [(1, 1), (2, 3), (3, 17)] {
        let Heads { of, scale, d_output, parts, d_scores, d_queries, d_vectors, .. } =
            Heads::drawn(heads, dim);
        for schedule in SCHEDULES {
            let (mut scores, mut queries) =
                (vec![0.0; d_scores.len()], vec![f32::NAN; d_queries.len()]);
            let mut args = vec![Arg::F(&of.vectors.lanes), Arg::F(&of.lengths.lanes)];
            args.extend([Arg::F(&parts), Arg::F(&d_output)]);
            args.extend([Arg::FMut(&mut scores), Arg::FMut(&mut queries)]);
            args.extend([ROWS, heads, dim, STEPS, of.vectors.stride, of.lengths.stride].map(n));
            args.push(Arg::F32(scale));
            run("dense_heads_backward", (ROWS * heads) as u64, schedule, &mut args);
            assert_eq!((bits(&scores), bits(&queries)), (bits(&d_scores), bits(&d_queries)));
        }
        let none = vec![f32::NAN; d_vectors.len()];
        check("dense_heads_to_vectors", (&none, &d_vectors), |to, schedule| {
            let mut args = vec![Arg::F(&of.target.lanes), Arg::F(&of.lengths.lanes)];
            args.extend([Arg::F(&parts), Arg::F(&d_scores), Arg::F(&d_output), Arg::FMut(to)]);
            args.extend([ROWS, heads, dim, STEPS, of.target.stride, of.lengths.stride].map(n));
            args.extend([STEPS * dim, STEPS * dim, 0].map(n));
            run("dense_heads_to_vectors", (ROWS * STEPS * dim) as u64, schedule, &mut args);
        });
    }
}
