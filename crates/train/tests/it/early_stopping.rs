//! Evaluations within epochs, and training that ends when they no longer improve.

#![expect(clippy::unwrap_used, reason = "a failed test panics")]

use std::sync::Arc;

use crate::common::{in_memory, resume, run, saved_in, stopping, surroundings, tiny};
use stepwell_base::stage::FullSpeed;
use stepwell_engine::Checkpoint;
use stepwell_settings::{BestKind, ExchangeKind, ModelKind};
use stepwell_train::{Config, Metrics, Report, Surroundings, train};

const KIND: ModelKind = ModelKind::DeepFm;
/// Steps of an epoch of the small job.
const STEPS: u64 = 20;

/// The job for several epochs, with rates at which it soon overfits.
fn overfitting(mut config: Config, every: u64) -> Config {
    config.data.epochs = 4;
    (config.optim.rows.lr, config.optim.dense.lr) = (Some(0.2), Some(0.01));
    config.train.evaluate_every = every;
    config
}

fn with_patience(mut config: Config, patience: u64) -> Config {
    config.train.patience = patience;
    config
}

/// Step and figures of each evaluation.
fn evaluations(report: &Report) -> Vec<(u64, Metrics)> {
    report.evaluations.iter().map(|one| (one.step, one.metrics.clone())).collect()
}

fn metric(by: BestKind, metrics: &Metrics) -> f64 {
    match by {
        BestKind::Auc => -metrics.auc.unwrap(),
        _ => metrics.logloss.unwrap(),
    }
}

/// The step at which training should end, and that of the best evaluation before.
fn end(evaluations: &[(u64, Metrics)], by: BestKind, patience: usize) -> (u64, u64) {
    let (mut best, mut since) = (0, 0);
    for (at, (step, metrics)) in evaluations.iter().enumerate() {
        if at == 0 || metric(by, metrics) < metric(by, &evaluations[best].1) {
            (best, since) = (at, 0);
        } else {
            since += 1;
        }
        if since == patience {
            return (*step, evaluations[best].0);
        }
    }
    panic!("it never ends early")
}

#[test]
fn evaluations_within_epochs_change_no_bit() {
    let (plain, config) = (overfitting(in_memory(KIND), 0), overfitting(in_memory(KIND), 3));
    let (plain, oracle) = (run(&plain), run(&config));
    assert_eq!(oracle.model_digest, plain.model_digest);
    assert_eq!(oracle.progressive_by_epoch, plain.progressive_by_epoch);
    assert_eq!(oracle.eval_by_epoch, plain.eval_by_epoch);
    let steps: Vec<u64> = oracle.evaluations.iter().map(|one| one.step).collect();
    let within = (1..=4 * STEPS).filter(|step| step % 3 == 0 || step % STEPS == 0);
    assert_eq!(steps, within.collect::<Vec<_>>());
    let after: Vec<Metrics> = evaluations(&oracle)
        .into_iter()
        .filter(|(step, _)| step % STEPS == 0)
        .map(|(_, of)| of)
        .collect();
    assert_eq!(after, plain.eval_by_epoch);
    // An evaluation within the first epoch is that of a run that ends there.
    let directory = tempfile::tempdir().unwrap();
    let first = saved_in(&overfitting(in_memory(KIND), 0), directory.path());
    train(&first, &stopping(6, false)).unwrap();
    let checkpoint = Checkpoint::open(directory.path()).unwrap();
    let around = Surroundings { digest: false, ..surroundings(Arc::new(FullSpeed)) };
    let ended = stepwell_train::evaluate(&first, &around, &checkpoint).unwrap();
    assert_eq!(ended.eval, evaluations(&oracle)[1].1);
}

#[test]
fn tiers_ranks_and_windows_do_not_show_in_evaluations() {
    let oracle = run(&overfitting(in_memory(KIND), 3));
    for (lookahead, mini_batches, ranks) in [(0, 1, 1), (2, 8, 1), (2, 4, 3), (0, 1, 2)] {
        let mut config = overfitting(tiny(KIND, lookahead), 3);
        (config.data.batch, config.ranks.count) = (64 * mini_batches, ranks);
        config.ranks.exchange =
            if mini_batches > 1 { ExchangeKind::WorkingSet } else { ExchangeKind::Owner };
        let report = run(&config);
        let name = format!("{ranks} ranks, batches of {mini_batches}");
        assert_eq!(report.model_digest, oracle.model_digest, "{name}");
        assert_eq!(evaluations(&report), evaluations(&oracle), "{name}");
    }
    let shuffled = |mut config: Config| {
        config.data.shuffle = 200;
        run(&overfitting(config, 3))
    };
    let (oracle, report) = (shuffled(in_memory(KIND)), shuffled(tiny(KIND, 2)));
    assert_eq!(report.model_digest, oracle.model_digest);
    assert_eq!(evaluations(&report), evaluations(&oracle));
}

#[test]
fn training_ends_when_evaluations_no_longer_improve() {
    let whole = run(&overfitting(in_memory(KIND), 3));
    for (by, patience) in [(BestKind::None, 2), (BestKind::Auc, 3), (BestKind::Logloss, 1)] {
        let (last, best) = end(&evaluations(&whole), by, patience as usize);
        assert!(last < 4 * STEPS, "by {by:?}");
        for ranks in [1, 3] {
            let directory = tempfile::tempdir().unwrap();
            let mut config = with_patience(overfitting(tiny(KIND, 2), 3), patience);
            config.checkpoint.best = by;
            config.ranks.count = ranks;
            let config = saved_in(&config, directory.path());
            let report = run(&config);
            let name = format!("by {by:?}, {ranks} ranks");
            let early = report.stopped_early.clone().unwrap();
            assert_eq!((early.step, early.best_step), (last, best), "{name}");
            assert_eq!(early.evaluations, patience, "{name}");
            assert_eq!(report.steps, last, "{name}");
            assert!(!report.interrupted && report.model_digest.is_some(), "{name}");
            let before = evaluations(&whole).into_iter().filter(|(step, _)| *step <= last);
            assert_eq!(evaluations(&report), before.collect::<Vec<_>>(), "{name}");
            assert_eq!(Some(&report.eval), evaluations(&report).last().map(|(_, of)| of));
            // The last checkpoint has this model, and says that its run is over.
            let checkpoint = Checkpoint::open(directory.path()).unwrap();
            assert_eq!(checkpoint.step, last, "{name}");
            assert!(checkpoint.ended, "{name}");
            drop(checkpoint);
            let again = resume(&config);
            assert_eq!((again.steps, again.examples), (last, 0), "{name}");
            assert_eq!(again.stopped_early, report.stopped_early, "{name}");
            assert_eq!(again.model_digest, report.model_digest, "{name}");
            // With more patience, the rest of the data is trained.
            let longer = Config {
                train: stepwell_settings::TrainConfig { patience: 0, ..config.train },
                ..config.clone()
            };
            let rest = resume(&longer);
            assert_eq!(rest.model_digest, whole.model_digest, "{name}");
            assert_eq!(rest.stopped_early, None, "{name}");
        }
    }
}

#[test]
fn a_resumed_run_ends_after_the_same_evaluation() {
    let config = with_patience(overfitting(in_memory(KIND), 3), 2);
    let oracle = run(&config);
    let last = oracle.stopped_early.clone().unwrap().step;
    let tiny = with_patience(overfitting(tiny(KIND, 2), 3), 2);
    for after in 1.. {
        let directory = tempfile::tempdir().unwrap();
        let mut config = saved_in(&tiny, directory.path());
        config.checkpoint.every = 3;
        let first = train(&config, &stopping(after, false)).unwrap();
        if first.stopped_early.is_some() {
            assert!(first.steps == last && after > last);
            break;
        }
        assert!(first.interrupted && first.steps <= last, "after {after}");
        let second = resume(&config);
        assert_eq!(second.stopped_early, oracle.stopped_early, "after {after}");
        assert_eq!(second.model_digest, oracle.model_digest, "after {after}");
        // Each evaluation is complete in one of the two.
        let all = [evaluations(&first), evaluations(&second)].concat();
        assert_eq!(all, evaluations(&oracle), "after {after}");
    }
}
