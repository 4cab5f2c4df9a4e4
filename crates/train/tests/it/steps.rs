//! Steps without the pipeline: the same bits with any number of threads, and unsuitable input is
//! refused before anything changes.

use std::sync::Arc;

use stepwell_base::Key;
use stepwell_base::clock::SystemClock;
use stepwell_base::random::Stream;
use stepwell_engine::Bags;
use stepwell_settings::ModelKind;
use stepwell_train::{Config, Error, StepInput, Steps};

const SLOTS: usize = 26;
const DENSE: usize = 13;
const MINI_BATCH: usize = 400;

fn steps(kind: ModelKind, threads: usize) -> Result<Steps, Error> {
    let mut config = Config { threads, ..Config::default() };
    config.model.kind = kind;
    config.data.mini_batch = MINI_BATCH;
    Steps::new(&config, 20_000, Arc::new(SystemClock::new()))
}

/// Input with up to two keys per slot, some of them frequent.
fn examples(random: &mut Stream, count: usize) -> StepInput {
    let mut bags = Bags::default();
    for _ in 0..count * SLOTS {
        for _ in 0..random.next_u64() % 3 {
            let below = [10, 1000, 10_000][(random.next_u64() % 3) as usize];
            bags.keys.push(Key(random.next_u64() % below));
        }
        bags.ends.push(bags.keys.len() as u32);
    }
    StepInput {
        labels: (0..count).map(|number| (number % 4 / 3) as f32).collect(),
        dense: (0..count * DENSE).map(|_| random.next_symmetric(1.0)).collect(),
        bags,
    }
}

/// Losses reveal every bit of rows and parameters that earlier steps changed.
#[test]
fn threads_do_not_show() {
    for kind in [ModelKind::Lr, ModelKind::WideDeep] {
        let losses = [1, 2, 3].map(|threads| {
            let (mut steps, mut random) =
                (steps(kind, threads).unwrap(), Stream::named(1, b"steps"));
            let mut loss = |count| steps.step(examples(&mut random, count)).unwrap().0.to_bits();
            [MINI_BATCH, MINI_BATCH, 7, 1, MINI_BATCH - 1, MINI_BATCH].map(&mut loss)
        });
        assert_eq!(losses[0], losses[1], "{}", kind.name());
        assert_eq!(losses[0], losses[2], "{}", kind.name());
    }
}

#[test]
fn what_does_not_fit_is_refused_and_changes_nothing() {
    let (mut steps, mut random) = (steps(ModelKind::Lr, 1).unwrap(), Stream::named(2, b"steps"));
    let fits = examples(&mut random, 5);
    let too_many = examples(&mut random, MINI_BATCH + 1);
    let dense = StepInput { dense: vec![0.0; 5], ..fits.clone() };
    let mut bags = fits.clone();
    bags.bags.ends.pop();
    let mut keys = fits.clone();
    keys.bags.keys.push(Key(1));
    for (wrong, named) in [
        (StepInput::default(), "a step of 0 examples"),
        (too_many, "a step of 401 examples"),
        (dense, "5 dense features of 5 examples"),
        (bags, "129 bags of 5 examples"),
        (keys, "the ends of bags"),
    ] {
        let error = steps.step(wrong).unwrap_err().to_string();
        assert!(error.contains(named), "{error}");
    }
    steps.step(fits).unwrap();
}
