//! The rules compared to f64 references, published arithmetic and each other.

use std::ops::Range;

use stepwell_base::random::Stream;

use crate::{
    Adagrad, Adam, DenseOptimizer, DenseState, Ftrl, Lanes, Momentum, OptimError, Regularization,
    RowOptimizer, RowRule, Rule, Sgd, Storage, Stored, square_sum_of,
};

const ADAGRAD: Adagrad = Adagrad { lr: 0.1, eps: 1e-10, initial: 0.0 };
const ADAM: Adam = Adam { lr: 0.1, beta1: 0.9, beta2: 0.999, eps: 1e-8 };
const FTRL: Ftrl = Ftrl { lr: 0.1, beta: 1.0, l1: 0.0, initial: 0.0 };
const RULES: [Rule; 4] = [
    Rule::Sgd(Sgd { lr: 0.1 }),
    Rule::Momentum(Momentum { lr: 0.1, momentum: 0.9 }),
    Rule::Adagrad(ADAGRAD),
    Rule::Adam(ADAM),
];

/// All rules of rows.
fn row_rules() -> Vec<RowRule> {
    let others = [
        RowRule::Ftrl(FTRL),
        RowRule::CfSgd(Sgd { lr: 0.1 }),
        RowRule::RowWiseAdagrad(ADAGRAD),
        RowRule::RowWiseAdam(ADAM),
    ];
    RULES.map(RowRule::from).into_iter().chain(others).collect()
}

/// Regularization that is not too strong for 50 steps.
fn regularizations() -> [Regularization; 7] {
    [
        [0.0, 0.0, 0.0, 0.0],
        [0.3, 0.0, 0.0, 0.0],
        [0.0, 0.2, 0.0, 0.0],
        [0.0, 0.0, 1.0, 0.0],
        [0.3, 0.2, 1.0, 0.0],
        [0.0, 0.0, 0.0, 0.5],
        [0.3, 0.2, 1.0, 0.5],
    ]
    .map(|[l2, weight_decay, clip_norm, max_norm]| Regularization {
        l2,
        weight_decay,
        clip_norm,
        max_norm,
    })
}

/// A row of weights with initial state.
fn row_of(optimizer: &RowOptimizer, lanes: Lanes) -> (Vec<f32>, Vec<f32>) {
    let mut state = vec![f32::NAN; optimizer.state_lanes(lanes)];
    optimizer.init_state(&mut state);
    (numbers(1, lanes.count()), state)
}

const fn plain(dim: usize) -> Lanes {
    Lanes { dim, wide: 0 }
}

/// Numbers in [-1, 1) without a generator crate.
fn numbers(seed: u64, count: usize) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 40) as f32 / (1u32 << 23) as f32 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

/// A row in f64, following the textbook.
struct Reference {
    rule: RowRule,
    regularization: Regularization,
    /// Ranges of weights that share the scalars of row-wise rules.
    parts: Vec<Range<usize>>,
    step: i32,
    /// Each weight with its state.
    lanes: Vec<[f64; 3]>,
}

impl Reference {
    fn new(optimizer: &RowOptimizer, weights: &[f32], lanes: Lanes) -> Self {
        let (rule, regularization) = (*optimizer.rule(), optimizer.regularization());
        let settings = rule.settings();
        let initial = settings.iter().find(|(name, _)| *name == "initial");
        let initial = initial.map_or(0.0, |(_, initial)| *initial);
        // The linear sum of FTRL is that of the weight.
        let linear = |w: f64| match rule {
            RowRule::Ftrl(s) if w != 0.0 => {
                let divisor = (s.beta + initial.sqrt()) / s.lr + regularization.l2;
                -(w * divisor + w.signum() * s.l1)
            }
            _ => 0.0,
        };
        let of_weight = |w: &f32| [f64::from(*w), initial, linear(f64::from(*w))];
        let parts = vec![0..lanes.dim, lanes.dim..lanes.count()];
        let lanes = weights.iter().map(of_weight).collect();
        Self { rule, regularization, parts, step: 0, lanes }
    }

    fn update(&mut self, gradient: &[f32]) {
        self.step += 1;
        let Regularization { l2, weight_decay, clip_norm, max_norm } = self.regularization;
        let gradient = widened(gradient);
        let norm = gradient.iter().map(|g| g * g).sum::<f64>().sqrt();
        let scale = if clip_norm > 0.0 && norm > clip_norm { clip_norm / norm } else { 1.0 };
        for part in self.parts.clone() {
            let keep = 1.0 - self.rule.lr() * weight_decay;
            self.shrink(part.clone(), keep);
            // FTRL has the penalty in closed form.
            let l2 = if matches!(self.rule, RowRule::Ftrl(_)) { 0.0 } else { l2 };
            let penalized = |at: usize| scale * gradient[at] + l2 * self.lanes[at][0];
            let of_part: Vec<f64> = part.clone().map(penalized).collect();
            let mean = of_part.iter().map(|g| g * g).sum::<f64>() / of_part.len() as f64;
            for (at, g) in part.zip(of_part) {
                self.update_lane(at, g, mean);
            }
        }
        let embedding = self.parts[0].clone();
        let norm = self.lanes[embedding.clone()].iter().map(|[w, ..]| w * w).sum::<f64>().sqrt();
        if max_norm > 0.0 && norm > max_norm {
            self.shrink(embedding, max_norm / norm);
        }
    }

    fn shrink(&mut self, part: Range<usize>, keep: f64) {
        for [w, n, z] in &mut self.lanes[part] {
            let lost = (1.0 - keep) * *w;
            *w -= lost;
            if let RowRule::Ftrl(s) = self.rule {
                *z += lost * ((s.beta + n.sqrt()) / s.lr + self.regularization.l2);
            }
        }
    }

    fn update_lane(&mut self, at: usize, g: f64, mean_square: f64) {
        let [w, a, b] = &mut self.lanes[at];
        match self.rule {
            RowRule::PerLane(Rule::Sgd(s)) => *w -= s.lr * g,
            RowRule::CfSgd(s) => *w -= s.lr / f64::from(self.step).sqrt() * g,
            RowRule::PerLane(Rule::Momentum(s)) => {
                *a = s.momentum * *a + g;
                *w -= s.lr * *a;
            }
            RowRule::PerLane(Rule::Adagrad(s)) => {
                *a += g * g;
                *w -= s.lr * g / (a.sqrt() + s.eps);
            }
            RowRule::RowWiseAdagrad(s) => {
                *a += mean_square;
                *w -= s.lr * g / (a.sqrt() + s.eps);
            }
            RowRule::PerLane(Rule::Adam(s)) => {
                *a = s.beta1 * *a + (1.0 - s.beta1) * g;
                *b = s.beta2 * *b + (1.0 - s.beta2) * g * g;
                *w -= adam_step(s, self.step, *a, *b);
            }
            RowRule::RowWiseAdam(s) => {
                *a = s.beta1 * *a + (1.0 - s.beta1) * g;
                *b = s.beta2 * *b + (1.0 - s.beta2) * mean_square;
                *w -= adam_step(s, self.step, *a, *b);
            }
            RowRule::Ftrl(s) => {
                let sigma = ((*a + g * g).sqrt() - a.sqrt()) / s.lr;
                *b += g - sigma * *w;
                *a += g * g;
                let divisor = (s.beta + a.sqrt()) / s.lr + self.regularization.l2;
                *w = if b.abs() <= s.l1 { 0.0 } else { -(*b - b.signum() * s.l1) / divisor };
            }
            RowRule::Frozen => {}
        }
    }
}

fn adam_step(adam: Adam, step: i32, mean: f64, square: f64) -> f64 {
    let mean = mean / (1.0 - adam.beta1.powi(step));
    let square = square / (1.0 - adam.beta2.powi(step));
    adam.lr * mean / (square.sqrt() + adam.eps)
}

#[test]
fn rows_follow_the_textbook() {
    let others = [
        Rule::Adagrad(Adagrad { lr: 0.05, eps: 1e-6, initial: 0.1 }).into(),
        // Large enough to show on which side it is added.
        Rule::Adagrad(Adagrad { eps: 0.25, ..ADAGRAD }).into(),
        Rule::Adam(Adam { eps: 0.5, ..ADAM }).into(),
        RowRule::RowWiseAdagrad(Adagrad { lr: 0.1, eps: 0.01, initial: 0.2 }),
        RowRule::RowWiseAdam(Adam { eps: 0.5, ..ADAM }),
        RowRule::Ftrl(Ftrl { lr: 0.3, beta: 0.5, l1: 0.0, initial: 0.1 }),
        RowRule::Ftrl(Ftrl { l1: 0.75, ..FTRL }),
    ];
    let rules = row_rules().into_iter().chain(others);
    for (rule, regularization) in rules.flat_map(|rule| regularizations().map(|of| (rule, of))) {
        let optimizer = RowOptimizer::new(rule).unwrap().regularized(regularization).unwrap();
        for (dim, wide) in
            [(0, 0), (1, 0), (0, 1), (2, 0), (3, 1), (8, 0), (16, 0), (16, 1), (17, 0), (37, 1)]
        {
            let lanes = Lanes { dim, wide };
            let (mut weights, mut state) = row_of(&optimizer, lanes);
            let mut reference = Reference::new(&optimizer, &weights, lanes);
            for step in 0..50 {
                let gradient = numbers(1000 + step, lanes.count());
                optimizer.update(&mut weights, &mut state, &gradient);
                optimizer.bound(&mut weights[..dim]);
                reference.update(&gradient);
            }
            for (w, [expected, ..]) in weights.iter().zip(&reference.lanes) {
                let close = (f64::from(*w) - expected).abs() < 3e-5 * (1.0 + expected.abs());
                assert!(close, "{rule:?} {regularization:?} {lanes:?}: {w} {expected}");
                assert_eq!(*w == 0.0, *expected == 0.0, "exact zeros of {rule:?}");
            }
        }
    }
}

#[test]
fn row_wise_state_is_one_lane_for_the_embedding_and_one_for_the_wide_weight() {
    let row_wise = [(RowRule::RowWiseAdagrad(ADAGRAD), 0), (RowRule::RowWiseAdam(ADAM), 1)];
    for ((rule, per_weight), (dim, wide)) in
        row_wise.iter().flat_map(|rule| [(0, 1), (1, 0), (16, 0), (16, 1)].map(|of| (rule, of)))
    {
        let optimizer = RowOptimizer::new(*rule).unwrap();
        let lanes = optimizer.state_lanes(Lanes { dim, wide });
        let counter = usize::from(rule.counts_steps());
        assert_eq!(lanes, per_weight * (dim + wide) + dim.min(1) + wide + counter, "{rule:?}");
    }
}

/// A gradient that stays within the bound of FTRL-Proximal leaves a weight at exactly zero.
#[test]
fn ftrl_has_exact_zeros() {
    let optimizer = RowOptimizer::new(RowRule::Ftrl(Ftrl { l1: 1.0, ..FTRL })).unwrap();
    let (mut weights, mut state) = ([0.0f32; 3], [0.0f32; 6]);
    for _ in 0..5 {
        optimizer.update(&mut weights, &mut state, &[0.1, -0.1, 1.0]);
    }
    assert_eq!(bits(&weights[..2]), [0, 0]);
    assert!(weights[2] < 0.0, "{weights:?}");
    let before = (weights, state);
    optimizer.with_lr(0.0).unwrap().update(&mut weights, &mut state, &[1.0; 3]);
    assert_eq!((weights, state), before, "a rate of 0");
}

/// Neither random initial weights nor a change of the rate make a weight of FTRL-Proximal jump.
#[test]
fn ftrl_moves_weights_only_by_gradients() {
    let mut optimizer = RowOptimizer::new(RowRule::Ftrl(Ftrl { l1: 0.01, ..FTRL })).unwrap();
    let (mut weights, mut state) = row_of(&optimizer, plain(20));
    for (step, lr) in [0.1, 0.05, 1e-3, 1e-30, 1e-44, 0.2].into_iter().enumerate() {
        optimizer = optimizer.with_lr(lr).unwrap();
        let before = weights.clone();
        optimizer.update(&mut weights, &mut state, &[0.0; 20]);
        for (before, after) in before.iter().zip(&weights) {
            assert!((before - after).abs() < 1e-6, "rate {lr}: {before} {after}");
        }
        let gradient = numbers(step as u64, 20);
        optimizer.update(&mut weights, &mut state, &gradient);
        for ((before, after), g) in before.iter().zip(&weights).zip(&gradient) {
            assert!((before - after).abs() <= lr as f32 * g.abs() + 1e-6, "{lr}: {before} {after}");
        }
    }
}

fn widened(lanes: &[f32]) -> Vec<f64> {
    lanes.iter().copied().map(f64::from).collect()
}

/// Widths of vectors must not show: the sum of squares has the same order in code for any of them.
#[test]
fn row_wise_sums_have_a_fixed_order() {
    let optimizer = RowOptimizer::new(RowRule::RowWiseAdagrad(Adagrad::new(0.1))).unwrap();
    for width in [1, 15, 16, 40] {
        let gradient = numbers(9, width);
        let (mut weights, mut sum) = (vec![0.0; width], [0.0f32]);
        optimizer.update(&mut weights, &mut sum, &gradient);
        let mut parts = [0.0f32; 16];
        for (lane, g) in gradient.iter().enumerate() {
            parts[lane % 16] += g * g;
        }
        for half in [8, 4, 2, 1] {
            (0..half).for_each(|lane| parts[lane] += parts[lane + half]);
        }
        assert_eq!(sum[0].to_bits(), (parts[0] / width as f32).to_bits());
    }
}

/// Two steps with gradients 0.5 and -0.25 from weight 1, computed by hand.
#[test]
fn two_steps_by_hand() {
    let cases = [
        // 1 - 0.1·0.5 = 0.95, then + 0.1·0.25.
        (RULES[0], [0.95, 0.975]),
        // v = 0.5, then 0.9·0.5 - 0.25 = 0.2: 0.95 - 0.1·0.2.
        (RULES[1], [0.95, 0.93]),
        // s = 0.25: 1 - 0.1·0.5/0.5 = 0.9; s = 0.3125: + 0.1·0.25/0.559017.
        (RULES[2], [0.9, 0.944_721_36]),
        // Step 1 always moves by lr. Step 2: m = 0.02, m̂ = 0.02/0.19 = 0.105263;
        // v = 0.00031225, v̂ = v/0.001999 = 0.156203, √v̂ = 0.395225: 0.9 - 0.1·0.266337.
        (RULES[3], [0.9, 0.873_366_26]),
    ];
    for (rule, expected) in cases {
        let optimizer = RowOptimizer::new(rule).unwrap();
        let (mut weights, mut state) = ([1.0f32], vec![0.0; optimizer.state_lanes(plain(1))]);
        optimizer.init_state(&mut state);
        for (gradient, expected) in [0.5, -0.25].into_iter().zip(expected) {
            optimizer.update(&mut weights, &mut state, &[gradient]);
            assert!((weights[0] - expected).abs() < 3e-7, "{} {weights:?}", rule.name());
        }
    }
}

#[test]
fn optimizers_are_equal_where_their_settings_are() {
    let rules = row_rules().into_iter().map(|rule| RowOptimizer::new(rule).unwrap());
    let all: Vec<_> = rules
        .flat_map(|optimizer| regularizations().map(|of| optimizer.regularized(of).unwrap()))
        .collect();
    for (number, one) in all.iter().enumerate() {
        let equal = all.iter().map(|other| one == other);
        assert!(equal.enumerate().all(|(other, equal)| equal == (other == number)));
    }
}

#[test]
fn adam_counts_each_row_by_itself() {
    let optimizer = RowOptimizer::new(RULES[3]).unwrap();
    let (mut weights, mut state) = ([0.5f32; 3], vec![0.0; optimizer.state_lanes(plain(3))]);
    for step in 1..=5 {
        optimizer.update(&mut weights, &mut state, &[0.1, -0.2, 0.0]);
        assert_eq!(state[6].to_bits(), step);
    }
    state[6] = f32::from_bits(u32::MAX);
    optimizer.update(&mut weights, &mut state, &[0.1, -0.2, 0.0]);
    assert_eq!(state[6].to_bits(), u32::MAX);
    assert!(weights.iter().all(|w| w.is_finite()));
}

#[test]
fn inlined_rows_have_the_same_bits() {
    for (rule, of) in row_rules().into_iter().flat_map(|rule| regularizations().map(|r| (rule, r)))
    {
        let optimizer = RowOptimizer::new(rule).unwrap().regularized(of).unwrap();
        let mut row = row_of(&optimizer, plain(37));
        let mut inline = row.clone();
        for step in 0..20 {
            let gradient = numbers(step, 37);
            optimizer.update(&mut row.0, &mut row.1, &gradient);
            optimizer.update_inline(&mut inline.0, &mut inline.1, &gradient);
        }
        assert_eq!(bits(&row.0), bits(&inline.0));
        assert_eq!(bits(&row.1), bits(&inline.1));
    }
}

#[test]
fn a_stored_row_is_read_updated_and_rounded() {
    for (rule, storage) in row_rules().into_iter().flat_map(|r| Storage::ALL.map(|s| (r, s))) {
        let optimizer = RowOptimizer::new(rule).unwrap();
        for width in [0, 1, 2, 9, 17] {
            let mut weights = numbers(3, width);
            let mut lanes = vec![0.0; storage.lanes(width)];
            let mut room = vec![f32::NAN; width];
            storage.encode(&weights, &mut lanes, Stream::from_state(0));
            storage.view(&lanes, width).copy_to(&mut weights);
            let mut state = vec![0.0; optimizer.state_lanes(plain(width))];
            optimizer.init_state(&mut state);
            let mut state_apart = state.clone();
            for step in 1..20 {
                let (gradient, random) = (numbers(step, width), Stream::from_state(step));
                let stored =
                    Stored { storage, dim: width, lanes: &mut lanes, random, room: &mut room };
                optimizer.update_stored(stored, &mut state, &gradient);
                optimizer.update(&mut weights, &mut state_apart, &gradient);
                storage.round(&mut weights, random);
                storage.view(&lanes, width).copy_to(&mut room);
                assert_eq!(bits(&room), bits(&weights), "{} {storage:?}", rule.name());
                assert_eq!(bits(&state), bits(&state_apart));
            }
        }
    }
}

/// Steps far smaller than the distance of two 16-bit numbers have no effect when rounding to the
/// nearest; with stochastic rounding, their mean effect is as large as in f32.
#[test]
fn small_steps_add_up() {
    let optimizer = RowOptimizer::new(Rule::sgd(1e-5)).unwrap();
    for storage in Storage::ALL {
        let width = 256;
        let mut lanes = vec![0.0; storage.lanes(width)];
        let mut room = vec![0.0; width];
        storage.encode(&vec![1.0; width], &mut lanes, Stream::from_state(0));
        for step in 1..=10_000 {
            let random = Stream::named(1, &u64::to_le_bytes(step));
            let stored = Stored { storage, dim: width, lanes: &mut lanes, random, room: &mut room };
            optimizer.update_stored(stored, &mut [], &vec![1.0; width]);
        }
        storage.view(&lanes, width).copy_to(&mut room);
        let mean = room.iter().map(|w| f64::from(*w)).sum::<f64>() / width as f64;
        assert!((mean - 0.9).abs() < 0.005, "{storage:?}: {mean}");
    }
}

fn bits(lanes: &[f32]) -> Vec<u32> {
    lanes.iter().map(|lane| lane.to_bits()).collect()
}

/// Trains dense parameters in parts of `size`.
fn train_dense(rule: Rule, size: usize, steps: u64) -> (Vec<f32>, DenseState) {
    let mut optimizer = DenseOptimizer::new(rule).unwrap();
    let mut parameters = numbers(5, 103);
    let mut state = DenseState::new(&rule, parameters.len());
    for seed in 0..steps {
        let gradient = numbers(100 + seed, parameters.len());
        let step = optimizer.begin_step();
        let pieces = parameters.chunks_mut(size).zip(gradient.chunks(size));
        for (part, (parameters, gradient)) in state.parts(size).zip(pieces) {
            step.apply(parameters, part, gradient);
        }
    }
    assert_eq!(optimizer.step(), steps);
    (parameters, state)
}

#[test]
fn dense_bits_do_not_depend_on_parts() {
    for rule in RULES {
        let (whole, whole_state) = train_dense(rule, 103, 30);
        for size in [1, 7, 8, 64, 1000] {
            let (parts, state) = train_dense(rule, size, 30);
            assert_eq!(bits(&whole), bits(&parts), "{} {size}", rule.name());
            assert_eq!(whole_state, state);
        }
    }
}

#[test]
fn dense_and_row_agree() {
    for rule in RULES {
        let (dense, state) = train_dense(rule, 103, 10);
        let optimizer = RowOptimizer::new(rule).unwrap();
        let mut row = (numbers(5, 103), vec![0.0; optimizer.state_lanes(plain(103))]);
        for seed in 0..10 {
            optimizer.update(&mut row.0, &mut row.1, &numbers(100 + seed, 103));
        }
        assert_eq!(bits(&dense), bits(&row.0));
        let flat: Vec<f32> = state.vectors().flat_map(|(_, lanes)| lanes.to_vec()).collect();
        assert_eq!(bits(&flat), bits(&row.1[..flat.len()]));
    }
}

/// The rows' arithmetic, with the norm of the whole gradient.
#[test]
fn dense_and_row_agree_with_regularization() {
    for (rule, of) in RULES.into_iter().flat_map(|rule| regularizations().map(|of| (rule, of))) {
        let mut dense = DenseOptimizer::new(rule).unwrap().regularized(of).unwrap();
        let optimizer = RowOptimizer::new(rule).unwrap().regularized(of).unwrap();
        let mut row = row_of(&optimizer, plain(37));
        let (mut parameters, mut state) = (row.0.clone(), DenseState::new(&rule, 37));
        for seed in 0..10 {
            let gradient = numbers(100 + seed, 37);
            let mut step = dense.begin_step();
            assert_eq!(step.clips(), of.clip_norm > 0.0);
            step.clip(f64::from(square_sum_of(&gradient)));
            step.apply(&mut parameters, state.whole(), &gradient);
            optimizer.update(&mut row.0, &mut row.1, &gradient);
        }
        for (dense, row) in parameters.iter().zip(&row.0) {
            assert!((dense - row).abs() < 1e-6, "{rule:?} {of:?}: {dense} {row}");
        }
        if of.clip_norm == 0.0 {
            assert_eq!(bits(&parameters), bits(&row.0));
        }
    }
}

#[test]
fn state_can_be_read_back_and_split() {
    let (_, saved) = train_dense(RULES[3], 103, 3);
    let mut state = DenseState::new(&RULES[3], 103);
    for ((name, from), (again, to)) in saved.vectors().zip(state.vectors_mut()) {
        assert_eq!(name, again);
        to.copy_from_slice(from);
    }
    assert_eq!(state, saved);
    let mut optimizer = DenseOptimizer::new(RULES[3]).unwrap().at_step(3);
    let step = optimizer.begin_step();
    let (mut parameters, gradient) = (numbers(5, 103), numbers(6, 103));
    let mut twin = (parameters.clone(), state.clone());
    let (left, right) = state.whole().split_at(40);
    step.apply(&mut parameters[..40], left, &gradient[..40]);
    step.apply(&mut parameters[40..], right, &gradient[40..]);
    step.apply(&mut twin.0, twin.1.whole(), &gradient);
    assert_eq!(bits(&parameters), bits(&twin.0));
}

#[test]
fn rules_and_their_state_are_called_as_checkpoints_say() {
    assert_eq!(RULES.map(|rule| rule.name()), ["sgd", "momentum", "adagrad", "adam"]);
    let of_state: [&[&str]; 4] = [&[], &["velocity"], &["sum"], &["exp_avg", "exp_avg_sq"]];
    for (rule, names) in RULES.iter().zip(of_state) {
        assert_eq!(rule.state_names(), names);
        let state = DenseState::new(rule, 3);
        assert!(state.vectors().map(|(name, _)| name).eq(names.iter().copied()));
        assert!(state.vectors().all(|(_, lanes)| lanes.len() == 3));
    }
}

#[test]
fn senseless_settings_are_refused() {
    let bad = [
        Rule::sgd(0.0),
        Rule::sgd(f64::NAN),
        Rule::adagrad(-1.0),
        Rule::Adagrad(Adagrad { initial: -1.0, ..Adagrad::new(0.1) }),
        Rule::Adagrad(Adagrad { eps: 0.0, ..Adagrad::new(0.1) }),
        Rule::adam(f64::INFINITY),
        Rule::Adam(Adam { beta1: 1.0, ..Adam::new(0.1) }),
        Rule::Adam(Adam { beta2: -0.1, ..Adam::new(0.1) }),
        Rule::Momentum(Momentum { lr: 0.0, momentum: 0.5 }),
        Rule::Momentum(Momentum { lr: 0.1, momentum: 1.0 }),
    ];
    for rule in bad {
        assert!(matches!(RowOptimizer::new(rule), Err(OptimError::Setting { .. })), "{rule:?}");
        assert!(DenseOptimizer::new(rule).is_err());
    }
    for bad in [-0.1, f64::NAN, f64::INFINITY] {
        let regularizations = [
            Regularization { l2: bad, ..Regularization::default() },
            Regularization { weight_decay: bad, ..Regularization::default() },
            Regularization { clip_norm: bad, ..Regularization::default() },
            Regularization { max_norm: bad, ..Regularization::default() },
        ];
        for of in regularizations {
            assert!(RowOptimizer::new(RULES[0]).unwrap().regularized(of).is_err());
            assert!(DenseOptimizer::new(RULES[0]).unwrap().regularized(of).is_err());
        }
        for rule in [
            RowRule::RowWiseAdagrad(Adagrad { initial: bad, ..ADAGRAD }),
            RowRule::RowWiseAdagrad(Adagrad { lr: bad, ..ADAGRAD }),
            RowRule::CfSgd(Sgd { lr: bad }),
            RowRule::RowWiseAdam(Adam { beta1: bad, ..ADAM }),
            RowRule::Ftrl(Ftrl { lr: bad, ..FTRL }),
            RowRule::Ftrl(Ftrl { beta: bad, ..FTRL }),
            RowRule::Ftrl(Ftrl { l1: bad, ..FTRL }),
            RowRule::Ftrl(Ftrl { initial: bad, ..FTRL }),
        ] {
            assert!(RowOptimizer::new(rule).is_err());
        }
    }
    let message = RowOptimizer::new(Rule::sgd(-2.0)).unwrap_err().to_string();
    assert_eq!(message, "sgd: lr is -2: give a number above 0 (in f32, from 1e-45 on)");
}

#[test]
fn a_rate_of_zero_changes_only_the_state() {
    for rule in RULES {
        let optimizer = RowOptimizer::new(rule).unwrap();
        let (mut weights, mut state) = ([1.0, -2.0], vec![0.0; optimizer.state_lanes(plain(2))]);
        optimizer.init_state(&mut state);
        let before = state.clone();
        optimizer.with_lr(0.0).unwrap().update(&mut weights, &mut state, &[0.5, 0.25]);
        assert_eq!(weights, [1.0, -2.0], "{rule:?}");
        assert_eq!(state == before, state.is_empty(), "{rule:?}");
        let same = optimizer.with_lr(0.0).unwrap().with_lr(0.1).unwrap();
        assert_eq!(same, optimizer);
        for lr in [-0.1, f64::NAN, f64::INFINITY] {
            assert!(optimizer.with_lr(lr).is_err(), "{lr}");
        }
    }
}
