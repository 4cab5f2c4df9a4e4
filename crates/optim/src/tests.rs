//! The rules compared to f64 references, published arithmetic and each other.

use stepwell_base::random::Stream;

use crate::{
    Adagrad, Adam, Decay, DenseOptimizer, DenseState, Lanes, OptimError, RowOptimizer, RowRule,
    Rule, Sgd, Storage, Stored,
};

const RULES: [Rule; 3] = [
    Rule::Sgd(Sgd { lr: 0.1 }),
    Rule::Adagrad(Adagrad { lr: 0.1, eps: 1e-10, initial: 0.0 }),
    Rule::Adam(Adam { lr: 0.1, beta1: 0.9, beta2: 0.999, eps: 1e-8 }),
];

/// Numbers in [-1, 1) without a generator crate.
fn numbers(seed: u64, count: usize) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 40) as f32 / (1u32 << 23) as f32 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

/// The lanes of one row in f64, following the textbook.
struct Reference {
    rule: Rule,
    decay: Decay,
    step: i32,
    lanes: Vec<[f64; 3]>,
}

impl Reference {
    fn new(rule: Rule, decay: Decay, weights: &[f32]) -> Self {
        let initial = if let Rule::Adagrad(a) = rule { a.initial } else { 0.0 };
        let lanes = weights.iter().map(|w| [f64::from(*w), initial, 0.0]).collect();
        Self { rule, decay, step: 0, lanes }
    }

    fn update(&mut self, gradient: &[f32]) {
        self.step += 1;
        for (lane, g) in self.lanes.iter_mut().zip(gradient) {
            let [w, a, b] = lane;
            *w -= self.rule.lr() * self.decay.weight_decay * *w;
            let g = f64::from(*g) + self.decay.l2 * *w;
            match self.rule {
                Rule::Sgd(s) => *w -= s.lr * g,
                Rule::Adagrad(s) => {
                    *a += g * g;
                    *w -= s.lr * g / (a.sqrt() + s.eps);
                }
                Rule::Adam(s) => {
                    *a = s.beta1 * *a + (1.0 - s.beta1) * g;
                    *b = s.beta2 * *b + (1.0 - s.beta2) * g * g;
                    let mean = *a / (1.0 - s.beta1.powi(self.step));
                    let square = *b / (1.0 - s.beta2.powi(self.step));
                    *w -= s.lr * mean / (square.sqrt() + s.eps);
                }
            }
        }
    }
}

#[test]
fn rows_follow_the_textbook() {
    let others = [
        Rule::Adagrad(Adagrad { lr: 0.05, eps: 1e-6, initial: 0.1 }),
        // Large enough to show on which side it is added.
        Rule::Adagrad(Adagrad { eps: 0.25, ..Adagrad::new(0.1) }),
        Rule::Adam(Adam { eps: 0.5, ..Adam::new(0.1) }),
    ];
    let decays = [[0.0, 0.0], [0.3, 0.0], [0.0, 0.2], [0.3, 0.2]];
    let decays = decays.map(|[l2, weight_decay]| Decay { l2, weight_decay });
    let rules = RULES.into_iter().chain(others);
    for (rule, decay) in rules.flat_map(|rule| decays.map(|decay| (rule, decay))) {
        let optimizer = RowOptimizer::new(rule).unwrap().with_decay(decay).unwrap();
        for width in [0, 1, 2, 7, 8, 16, 17, 33] {
            let mut weights = numbers(width as u64, width);
            let mut state = vec![f32::NAN; optimizer.state_lanes(Lanes { dim: width, wide: 0 })];
            optimizer.init_state(&mut state);
            let mut reference = Reference::new(rule, decay, &weights);
            for step in 0..50 {
                let gradient = numbers(1000 + step, width);
                optimizer.update(&mut weights, &mut state, &gradient);
                reference.update(&gradient);
            }
            for (w, [expected, ..]) in weights.iter().zip(&reference.lanes) {
                let close = (f64::from(*w) - expected).abs() < 2e-5 * (1.0 + expected.abs());
                assert!(close, "{rule:?} {decay:?} width {width}: {w} {expected}");
            }
        }
    }
}

/// Row-wise Adagrad with f64 sums, in which the wide weight has its own.
#[test]
fn row_wise_rows_follow_the_textbook() {
    let rule = Adagrad { lr: 0.1, eps: 0.01, initial: 0.2 };
    for (l2, (dim, wide)) in [0.0, 0.3]
        .into_iter()
        .flat_map(|l2| [(1, 0), (0, 1), (3, 1), (16, 0), (16, 1), (37, 1)].map(|lanes| (l2, lanes)))
    {
        let lanes = Lanes { dim, wide };
        let optimizer = RowOptimizer::new(RowRule::RowWiseAdagrad(rule)).unwrap();
        let optimizer = optimizer.with_decay(Decay { l2, weight_decay: 0.0 }).unwrap();
        let mut weights = numbers(1, lanes.count());
        let mut state = vec![f32::NAN; optimizer.state_lanes(lanes)];
        assert_eq!(state.len(), dim.min(1) + wide);
        optimizer.init_state(&mut state);
        let (mut reference, mut sums) = (widened(&weights), vec![rule.initial; state.len()]);
        for step in 0..50 {
            let gradient = numbers(1000 + step, lanes.count());
            optimizer.update(&mut weights, &mut state, &gradient);
            let parts = [0..dim, dim..dim + wide].into_iter().filter(|part| !part.is_empty());
            for (part, sum) in parts.zip(&mut sums) {
                let of = |at: usize, w: &[f64]| f64::from(gradient[at]) + l2 * w[at];
                let g: Vec<f64> = part.clone().map(|at| of(at, &reference)).collect();
                *sum += g.iter().map(|g| g * g).sum::<f64>() / part.len() as f64;
                for (w, g) in reference[part].iter_mut().zip(g) {
                    *w -= rule.lr * g / (sum.sqrt() + rule.eps);
                }
            }
        }
        for (w, expected) in weights.iter().chain(&state).zip(reference.iter().chain(&sums)) {
            let close = (f64::from(*w) - expected).abs() < 2e-5 * (1.0 + expected.abs());
            assert!(close, "{lanes:?} {l2}: {w} {expected}");
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
        // s = 0.25: 1 - 0.1·0.5/0.5 = 0.9; s = 0.3125: + 0.1·0.25/0.559017.
        (RULES[1], [0.9, 0.944_721_36]),
        // Step 1 always moves by lr. Step 2: m = 0.02, m̂ = 0.02/0.19 = 0.105263;
        // v = 0.00031225, v̂ = v/0.001999 = 0.156203, √v̂ = 0.395225: 0.9 - 0.1·0.266337.
        (RULES[2], [0.9, 0.873_366_26]),
    ];
    for (rule, expected) in cases {
        let optimizer = RowOptimizer::new(rule).unwrap();
        let (mut weights, mut state) =
            ([1.0f32], vec![0.0; optimizer.state_lanes(Lanes { dim: 1, wide: 0 })]);
        optimizer.init_state(&mut state);
        for (gradient, expected) in [0.5, -0.25].into_iter().zip(expected) {
            optimizer.update(&mut weights, &mut state, &[gradient]);
            assert!((weights[0] - expected).abs() < 3e-7, "{} {weights:?}", rule.name());
        }
    }
}

#[test]
fn optimizers_are_equal_where_their_settings_are() {
    let rules =
        RULES.map(RowRule::from).into_iter().chain([RowRule::RowWiseAdagrad(Adagrad::new(0.1))]);
    let plain = rules.map(|rule| RowOptimizer::new(rule).unwrap());
    let decays = [[0.0, 0.0], [0.1, 0.0], [0.0, 0.1]];
    let all: Vec<_> = plain
        .flat_map(|optimizer| {
            decays
                .map(|[l2, weight_decay]| optimizer.with_decay(Decay { l2, weight_decay }).unwrap())
        })
        .collect();
    for (number, one) in all.iter().enumerate() {
        let equal = all.iter().map(|other| one == other);
        assert!(equal.enumerate().all(|(other, equal)| equal == (other == number)));
    }
}

#[test]
fn adam_counts_each_row_by_itself() {
    let optimizer = RowOptimizer::new(RULES[2]).unwrap();
    let (mut weights, mut state) =
        ([0.5f32; 3], vec![0.0; optimizer.state_lanes(Lanes { dim: 3, wide: 0 })]);
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
    let row_wise = RowRule::RowWiseAdagrad(Adagrad::new(0.1));
    let decays = [Decay::default(), Decay { l2: 0.1, weight_decay: 0.01 }];
    for (rule, decay) in (RULES.map(RowRule::from).into_iter().chain([row_wise]))
        .flat_map(|rule| decays.map(|decay| (rule, decay)))
    {
        let optimizer = RowOptimizer::new(rule).unwrap().with_decay(decay).unwrap();
        let mut row =
            (numbers(1, 37), vec![0.0; optimizer.state_lanes(Lanes { dim: 37, wide: 0 })]);
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
    for (rule, storage) in RULES.into_iter().flat_map(|r| Storage::ALL.map(|s| (r, s))) {
        let optimizer = RowOptimizer::new(rule).unwrap();
        for width in [0, 1, 2, 9, 17] {
            let mut weights = numbers(3, width);
            let mut lanes = vec![0.0; storage.lanes(width)];
            let mut room = vec![f32::NAN; width];
            storage.encode(&weights, &mut lanes, Stream::from_state(0));
            storage.view(&lanes, width).copy_to(&mut weights);
            let mut state = vec![0.0; optimizer.state_lanes(Lanes { dim: width, wide: 0 })];
            optimizer.init_state(&mut state);
            let mut state_apart = state.clone();
            for step in 1..20 {
                let (gradient, random) = (numbers(step, width), Stream::from_state(step));
                let stored = Stored { storage, lanes: &mut lanes, random, room: &mut room };
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
            let stored = Stored { storage, lanes: &mut lanes, random, room: &mut room };
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
        let mut row =
            (numbers(5, 103), vec![0.0; optimizer.state_lanes(Lanes { dim: 103, wide: 0 })]);
        for seed in 0..10 {
            optimizer.update(&mut row.0, &mut row.1, &numbers(100 + seed, 103));
        }
        assert_eq!(bits(&dense), bits(&row.0));
        let flat: Vec<f32> = state.vectors().flat_map(|(_, lanes)| lanes.to_vec()).collect();
        assert_eq!(bits(&flat), bits(&row.1[..flat.len()]));
    }
}

#[test]
fn state_can_be_read_back_and_split() {
    let (_, saved) = train_dense(RULES[2], 103, 3);
    let mut state = DenseState::new(&RULES[2], 103);
    for ((name, from), (again, to)) in saved.vectors().zip(state.vectors_mut()) {
        assert_eq!(name, again);
        to.copy_from_slice(from);
    }
    assert_eq!(state, saved);
    let mut optimizer = DenseOptimizer::resume(RULES[2], 3).unwrap();
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
    assert_eq!(RULES.map(|rule| rule.name()), ["sgd", "adagrad", "adam"]);
    let of_state: [&[&str]; 3] = [&[], &["sum"], &["exp_avg", "exp_avg_sq"]];
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
    ];
    for rule in bad {
        assert!(matches!(RowOptimizer::new(rule), Err(OptimError::Setting { .. })), "{rule:?}");
        assert!(DenseOptimizer::new(rule).is_err());
    }
    for bad in [-0.1, f64::NAN, f64::INFINITY] {
        let optimizer = RowOptimizer::new(RULES[0]).unwrap();
        assert!(optimizer.with_decay(Decay { l2: bad, weight_decay: 0.0 }).is_err());
        assert!(optimizer.with_decay(Decay { l2: 0.0, weight_decay: bad }).is_err());
        for rule in [
            Adagrad { initial: bad, ..Adagrad::new(0.1) },
            Adagrad { lr: bad, ..Adagrad::new(0.1) },
        ] {
            assert!(RowOptimizer::new(RowRule::RowWiseAdagrad(rule)).is_err());
        }
    }
    let message = RowOptimizer::new(Rule::sgd(-2.0)).unwrap_err().to_string();
    assert_eq!(message, "sgd: lr is -2: give a number above 0 (in f32, from 1e-45 on)");
}

#[test]
fn a_rate_of_zero_changes_only_the_state() {
    for rule in [Rule::sgd(0.1), Rule::adagrad(0.1), Rule::adam(0.1)] {
        let optimizer = RowOptimizer::new(rule).unwrap();
        let (mut weights, mut state) =
            ([1.0, -2.0], vec![0.0; optimizer.state_lanes(Lanes { dim: 2, wide: 0 })]);
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
