//! Learning rates that fall at plateaus, and the mean of dense parameters.

#![expect(clippy::unwrap_used, reason = "a failed test panics")]

use crate::common::{in_memory, resume, run, saved_in, stopping, tiny};
use stepwell_engine::Checkpoint;
use stepwell_settings::{ModelKind, OptimConfig, ScheduleKind};
use stepwell_train::{Config, Metrics, Report, train};

const KIND: ModelKind = ModelKind::DeepFm;

/// Rates at which the job soon overfits, and evaluations every third step.
fn overfitting(mut config: Config) -> Config {
    config.data.epochs = 3;
    (config.optim.rows.lr, config.optim.dense.lr) = (Some(0.2), Some(0.01));
    config.train.evaluate_every = 3;
    config
}

fn with_plateaus(config: Config) -> Config {
    let mut config = overfitting(config);
    let OptimConfig { rows, dense } = &mut config.optim;
    (rows.schedule, rows.plateau_patience) = (ScheduleKind::Plateau, 1);
    (dense.schedule, dense.plateau_patience) = (ScheduleKind::Plateau, 2);
    (rows.decay_factor, dense.decay_factor) = (Some(0.5), Some(0.25));
    config
}

fn with_mean(config: Config, decay: f64) -> Config {
    let mut config = overfitting(config);
    config.optim.dense.ema = Some(decay);
    config
}

fn evaluations(report: &Report) -> Vec<(u64, Metrics)> {
    report.evaluations.iter().map(|one| (one.step, one.metrics.clone())).collect()
}

/// The model and its figures are those of `with` in memory, whatever the tiers, the ranks, and the
/// mini-batch after which the run is stopped and resumed.
fn is_exact(with: fn(Config) -> Config) {
    let oracle = run(&with(in_memory(KIND)));
    for (ranks, lookahead) in [(1, 2), (2, 0), (3, 2)] {
        let mut config = with(tiny(KIND, lookahead));
        config.ranks.count = ranks;
        let report = run(&config);
        assert_eq!(report.model_digest, oracle.model_digest, "{ranks} ranks");
        assert_eq!(evaluations(&report), evaluations(&oracle), "{ranks} ranks");
    }
    for after in [9, 16, 25, 40] {
        let directory = tempfile::tempdir().unwrap();
        let config = saved_in(&with(tiny(KIND, 2)), directory.path());
        let first = train(&config, &stopping(after, false)).unwrap();
        assert!(first.interrupted, "after {after}");
        let second = resume(&config);
        assert_eq!(second.model_digest, oracle.model_digest, "after {after}");
        let all = [evaluations(&first), evaluations(&second)].concat();
        assert_eq!(all, evaluations(&oracle), "after {after}");
    }
}

#[test]
fn rates_fall_at_exactly_the_first_plateau() {
    let (constant, falling) =
        (run(&overfitting(in_memory(KIND))), run(&with_plateaus(in_memory(KIND))));
    let (constant, falling) = (evaluations(&constant), evaluations(&falling));
    let loss = |at: usize| constant[at].1.logloss.unwrap();
    let best = |at: usize| (0..at).map(loss).fold(f64::INFINITY, f64::min);
    // The rate of rows falls after one evaluation that is no better.
    let fall = (1..constant.len()).find(|at| loss(*at) >= best(*at)).unwrap();
    assert!(fall + 1 < constant.len());
    assert_eq!(falling[..=fall], constant[..=fall]);
    assert_ne!(falling[fall + 1], constant[fall + 1]);
}

#[test]
fn plateaus_are_exact() {
    is_exact(with_plateaus);
}

#[test]
fn means_are_exact() {
    is_exact(|config| {
        let mut config = with_mean(config, 0.9);
        config.model.batch_norm = true;
        config
    });
}

/// The last checkpoint's mean follows from the parameters of all checkpoints.
#[test]
fn evaluations_use_the_mean_and_training_the_parameters() {
    let plain = run(&overfitting(in_memory(KIND)));
    let directory = tempfile::tempdir().unwrap();
    let mut config = saved_in(&with_mean(in_memory(KIND), 0.9), directory.path());
    (config.checkpoint.every, config.checkpoint.keep) = (1, 1000);
    config.checkpoint.initial = true;
    let report = run(&config);
    assert_eq!(report.progressive_by_epoch, plain.progressive_by_epoch);
    assert_ne!(report.eval, plain.eval);
    let vector = |step: u64, name: &str| -> Vec<f32> {
        let path = directory.path().join(format!("step-{step:012}"));
        let sections = Checkpoint::open(&path).unwrap().dense.sections.clone();
        sections.into_iter().find(|(known, _)| known == name).unwrap().1
    };
    let mut mean: Vec<f64> = vector(0, "parameters").into_iter().map(f64::from).collect();
    for step in 1..=report.steps {
        let parameters = vector(step, "parameters");
        let lanes = mean.iter_mut().zip(parameters);
        lanes.for_each(|(mean, value)| *mean = 0.9 * *mean + 0.1 * f64::from(value));
    }
    let kept = vector(report.steps, "ema");
    assert_eq!(kept.len(), mean.len());
    for (kept, mean) in kept.iter().zip(mean) {
        assert!((f64::from(*kept) - mean).abs() < 1e-5, "{kept} {mean}");
    }
    // A mean that forgets everything is the last parameters.
    let forgetful = run(&with_mean(in_memory(KIND), 0.0));
    assert_eq!(evaluations(&forgetful), evaluations(&plain));
}
