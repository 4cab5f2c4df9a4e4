//! Losses, sums over blocks and dense optimizers, with the same bits as the processor's code.

use super::support::batch::{regularization, rules};
use super::support::{Arg, Dice, SCHEDULES, bits, run, sizes};
use stepwell_kernels::host::Schedule;
use stepwell_kernels::{RULE_ADAGRAD, RULE_ADAM, RULE_MOMENTUM, RULE_SGD};
use stepwell_optim::{DenseOptimizer, DenseState, StepNumbers, average, gain, square_sum_of};

/// Prediction, loss and slope, as in `stepwell-nn`.
fn outcome(kind: u32, logit: f64, label: f64) -> [f64; 3] {
    if kind == 1 {
        let error = logit - label;
        return [logit, error * error, 2.0 * error];
    }
    let e = libm::exp(-logit.abs());
    let p = if logit < 0.0 { e / (1.0 + e) } else { 1.0 / (1.0 + e) };
    let positive_part = if logit < 0.0 { 0.0 } else { logit };
    [p, positive_part - logit * label + libm::log1p(e), p - label]
}

/// Slope of a log loss with emphasis, as in `stepwell-nn`: weight of positives, smoothing, gamma.
fn emphasized(of: &[f64], logit: f64, label: f64) -> f64 {
    let positives = of[0] * label;
    let all = positives + (1.0 - label);
    let target = positives * (1.0 - of[1]) + all * (0.5 * of[1]);
    let e = libm::exp(-logit.abs());
    let (large, small) = (1.0 / (1.0 + e), e / (1.0 + e));
    let (p, other) = if logit < 0.0 { (small, large) } else { (large, small) };
    if of[2] == 0.0 {
        return all * p - target;
    }
    let rest = libm::log1p(e);
    let of_positive = (if logit < 0.0 { -logit } else { 0.0 }) + rest;
    let of_negative = (if logit < 0.0 { 0.0 } else { logit }) + rest;
    let up = libm::exp(-(of[2] * of_negative)) * (of[2] * p * of_positive + other);
    let down = libm::exp(-(of[2] * of_positive)) * (of[2] * other * of_negative + p);
    (all - target) * down - target * up
}

fn doubles(values: &[f64]) -> Vec<u64> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// Logits of all sizes: where exp and log1p switch code paths, and far beyond.
fn logits(count: usize, dice: &mut Dice) -> Vec<f32> {
    let known = [0.0, -0.0, 1e-9, 0.346, 0.347, 0.88, 1.03, 1.05, 36.8, 708.5, 744.9, 745.2, 1e30];
    let logit = |number: usize| {
        let sign = if dice.below(2) == 0 { 1.0 } else { -1.0 };
        let size = match dice.below(3) {
            0 => known[number % known.len()],
            1 => dice.number() * 10.0,
            _ => (dice.number() * 6.6).exp(),
        };
        sign * size
    };
    (0..count).map(logit).collect()
}

/// Two blocks of examples, the second half empty, and how they are scored.
struct Scored {
    slot_rows: usize,
    rows_of: [u32; 2],
    kinds: Vec<u32>,
    emphases: Vec<f64>,
    logits: Vec<f32>,
    targets: Vec<f32>,
    weights: Vec<f32>,
}

/// Expected or actual results.
#[derive(Debug, PartialEq)]
struct Found {
    terms: Vec<u64>,
    d_logits: Vec<u32>,
    sums: Vec<u64>,
}

/// Number of examples of the whole mini-batch.
const EXAMPLES: u32 = 1000;

impl Scored {
    fn rows(&self) -> usize {
        2 * self.slot_rows
    }

    fn by_hand(&self) -> Found {
        let labels = self.kinds.len();
        let (mut terms, mut d_logits, mut sums) = (Vec::new(), Vec::new(), vec![0.0; 6]);
        for row in 0..self.rows() {
            let weight = self.weights.get(row).map_or(1.0, |weight| f64::from(*weight));
            let block = row / self.slot_rows;
            let counts = row % self.slot_rows < self.rows_of[block] as usize;
            let mut prediction = 0.0;
            for (label, kind) in self.kinds.iter().enumerate() {
                let at = row * labels + label;
                let [logit, target] = [self.logits[at], self.targets[at]].map(f64::from);
                let [p, loss, slope] = outcome(*kind, logit, target);
                let emphases = &self.emphases[3 * label..3 * label + 3];
                let slope = if *kind == 1 { slope } else { emphasized(emphases, logit, target) };
                terms.push(weight * loss);
                d_logits.push((weight * slope / f64::from(EXAMPLES)) as f32);
                if label == 0 {
                    prediction = weight * f64::from(p as f32);
                }
                sums[3 * block] += if counts { weight * loss } else { 0.0 };
            }
            terms.push(prediction);
            if counts {
                sums[3 * block + 1] += prediction;
                sums[3 * block + 2] += weight;
            }
        }
        Found { terms: doubles(&terms), d_logits: bits(&d_logits), sums: doubles(&sums) }
    }

    fn by_kernels(&self, schedule: Schedule) -> Found {
        let labels = self.kinds.len();
        let mut d_logits = vec![f32::NAN; self.logits.len()];
        let mut terms = vec![f64::NAN; self.rows() * (labels + 1)];
        let mut sums = vec![f64::NAN; 6];
        let flag = u32::from(!self.weights.is_empty());
        let args = &mut [
            Arg::F(&self.logits),
            Arg::F(&self.targets),
            Arg::F(&self.weights),
            Arg::W(&self.kinds),
            Arg::D(&self.emphases),
            Arg::FMut(&mut d_logits),
            Arg::DMut(&mut terms),
            Arg::U32(self.rows() as u32),
            Arg::U32(labels as u32),
            Arg::U32(flag),
            Arg::U32(EXAMPLES),
        ];
        run("dense_losses", self.logits.len() as u64, schedule, args);
        let args = &mut [
            Arg::D(&terms),
            Arg::F(&self.weights),
            Arg::DMut(&mut sums),
            Arg::W(&self.rows_of),
            Arg::U32(2),
            Arg::U32(self.slot_rows as u32),
            Arg::U32(labels as u32),
            Arg::U32(flag),
        ];
        run("dense_loss_sums", 6, schedule, args);
        Found { terms: doubles(&terms), d_logits: bits(&d_logits), sums: doubles(&sums) }
    }
}

#[test]
fn losses_have_the_bits_of_the_processor() {
    let mut dice = Dice(1);
    for slot_rows in sizes().into_iter().filter(|rows| *rows > 0) {
        let plain = [1.0, 0.0, 0.0];
        let three = [[5.0, 0.1, 0.0], plain, [0.5, 0.0, 2.0]].concat();
        for (kinds, emphases, has_weights) in [
            (vec![0], plain.to_vec(), false),
            (vec![0, 1, 0], three, true),
            (vec![0], vec![2.5, 0.2, 0.5], true),
            (vec![1], plain.to_vec(), true),
        ] {
            let (rows, labels) = (2 * slot_rows, kinds.len());
            let target = |number: usize| [0.0, 1.0, 0.3][number % 3];
            let scored = Scored {
                slot_rows,
                rows_of: [slot_rows as u32, slot_rows as u32 / 2],
                kinds,
                emphases,
                logits: logits(rows * labels, &mut dice),
                targets: (0..rows * labels).map(target).collect(),
                weights: dice.numbers(if has_weights { rows } else { 0 }),
            };
            let expected = scored.by_hand();
            for schedule in SCHEDULES {
                assert_eq!(scored.by_kernels(schedule), expected, "{rows} rows");
            }
        }
    }
}

#[test]
fn what_is_no_number_stays_none() {
    let (logits, mut d_logits, mut terms) = ([f32::NAN, -f32::NAN], [0.0; 2], [0.0; 4]);
    let args = &mut [
        Arg::F(&logits),
        Arg::F(&[0.0, 1.0]),
        Arg::F(&[]),
        Arg::W(&[0]),
        Arg::D(&[3.0, 0.1, 2.0]),
        Arg::FMut(&mut d_logits),
        Arg::DMut(&mut terms),
        Arg::U32(2),
        Arg::U32(1),
        Arg::U32(0),
        Arg::U32(2),
    ];
    run("dense_losses", 2, SCHEDULES[0], args);
    assert!(d_logits.iter().all(|value| value.is_nan()) && terms.iter().all(|of| of.is_nan()));
}

/// The tree of `stepwell-nn`: the left branch has the largest power of two below the count.
fn tree(values: &[f32]) -> f32 {
    match values {
        [] => 0.0,
        [value] => *value,
        _ => {
            let (left, right) = values.split_at(values.len().next_power_of_two() / 2);
            tree(left) + tree(right)
        }
    }
}

#[test]
fn blocks_are_summed_by_the_tree() {
    let mut dice = Dice(2);
    for lanes in sizes() {
        for count in [0, 1, 2, 3, 5, 7, 8, 13, 16, 33] {
            let apart = lanes + 3;
            let vectors = dice.numbers(count * apart);
            let of_lane = |lane: usize| {
                let values: Vec<f32> = (0..count).map(|of| vectors[of * apart + lane]).collect();
                tree(&values)
            };
            let expected: Vec<f32> = (0..lanes).map(of_lane).collect();
            for schedule in SCHEDULES {
                let mut sum = vec![f32::NAN; lanes];
                let args = &mut [
                    Arg::F(&vectors),
                    Arg::FMut(&mut sum),
                    Arg::U64(lanes as u64),
                    Arg::U64(apart as u64),
                    Arg::U32(count as u32),
                ];
                run("dense_sum", lanes as u64, schedule, args);
                assert_eq!(bits(&sum), bits(&expected), "{count} blocks of {lanes} lanes");
            }
        }
    }
}

#[test]
fn optimizers_have_the_bits_of_the_processor() {
    let numbers = [RULE_SGD, RULE_ADAGRAD, RULE_ADAM, RULE_MOMENTUM];
    for (rule, number) in rules().into_iter().zip(numbers) {
        let plain = DenseOptimizer::new(rule).unwrap();
        for optimizer in [plain, plain.regularized(regularization()).unwrap()] {
            for (count, schedule) in sizes().into_iter().flat_map(|n| SCHEDULES.map(|s| (n, s))) {
                step(optimizer, number, count, |args| {
                    run("dense_update", count as u64, schedule, args);
                });
            }
        }
    }
}

/// Lanes whose squares the processor sums in one part.
const PART: usize = 16 << 10;

#[test]
fn norms_are_bounded_as_by_the_processor() {
    let mut dice = Dice(5);
    for count in [1, 15, 16, 100, PART, PART + 1, 2 * PART + 77] {
        let gradient = dice.numbers(count);
        let square_sum: f64 = gradient.chunks(PART).map(|of| f64::from(square_sum_of(of))).sum();
        let norm = square_sum.sqrt();
        for bound in [norm / 3.0, norm, norm * 1.5] {
            let scale = if norm > bound { (bound / norm) as f32 } else { 1.0 };
            let expected: Vec<f32> = gradient.iter().map(|value| scale * value).collect();
            for schedule in SCHEDULES {
                let parts = count.div_ceil(PART);
                let (mut sums, mut factor) = (vec![f32::NAN; parts * 16], [f32::NAN]);
                let mut clipped = gradient.clone();
                let numbers = [count, parts].map(|number| number as u32);
                let args = &mut [Arg::F(&gradient), Arg::FMut(&mut sums), Arg::U32(numbers[0])];
                run("dense_squares", sums_of(parts), schedule, args);
                let args = &mut [Arg::FMut(&mut sums), Arg::U32(numbers[1])];
                run("dense_square_sums", parts as u64, schedule, args);
                let (sums, factor_to) = (Arg::F(&sums), Arg::FMut(&mut factor));
                let args = &mut [sums, factor_to, Arg::U32(numbers[1]), Arg::F64(bound)];
                run("dense_clip_factor", 1, schedule, args);
                let args = &mut [Arg::FMut(&mut clipped), Arg::F(&factor), Arg::U32(numbers[0])];
                run("dense_clip", count as u64, schedule, args);
                assert_eq!(bits(&clipped), bits(&expected), "{count} lanes, at most {bound}");
            }
        }
    }
}

fn sums_of(parts: usize) -> u64 {
    16 * parts as u64
}

#[test]
fn means_follow_their_values() {
    let mut dice = Dice(6);
    for count in sizes() {
        let (before, values) = (dice.numbers(count), dice.numbers(count));
        let mut expected = before.clone();
        average(&mut expected, &values, 0.97);
        for schedule in SCHEDULES {
            let mut mean = before.clone();
            let (gain, number) = (Arg::F32(gain(0.97)), Arg::U32(count as u32));
            let args = &mut [Arg::FMut(&mut mean), Arg::F(&values), number, gain];
            run("dense_average", count as u64, schedule, args);
            assert_eq!(bits(&mean), bits(&expected), "{count} lanes");
        }
    }
}

/// Steps of `optimizer`, launched and by the processor's own code.
fn step(mut optimizer: DenseOptimizer, number: u32, count: usize, launch: impl Fn(&mut [Arg<'_>])) {
    let mut dice = Dice(count as u64);
    let rule = *optimizer.rule();
    let mut expected = dice.numbers(count);
    let mut expected_state = DenseState::new(&rule, count);
    let flat = |state: &DenseState| -> Vec<f32> {
        state.vectors().flat_map(|(_, values)| values.to_vec()).collect()
    };
    let (mut parameters, mut state) = (expected.clone(), flat(&expected_state));
    for _ in 0..3 {
        let gradient = dice.numbers(count);
        let step = optimizer.begin_step();
        step.apply(&mut expected, expected_state.whole(), &gradient);
        let numbers = step.numbers();
        let StepNumbers { gain1, beta2, gain2, rate, correction2_root, eps, .. } = numbers;
        let mut args = vec![
            Arg::FMut(&mut parameters),
            Arg::FMut(&mut state),
            Arg::F(&gradient),
            Arg::U32(count as u32),
            Arg::U32(number),
        ];
        args.extend([gain1, beta2, gain2, rate, correction2_root, eps].map(Arg::F32));
        args.push(Arg::U32(numbers.is_regularized.into()));
        args.extend([numbers.l2, numbers.keep].map(Arg::F32));
        launch(&mut args);
        assert_eq!(bits(&parameters), bits(&expected), "{rule:?}, {count} parameters");
        assert_eq!(bits(&state), bits(&flat(&expected_state)), "{rule:?}, {count} parameters");
    }
}
