//! Training on a part of the negatives: the same part however the model is trained, and scores that
//! are corrected for it.

use stepwell_settings::{ModelKind, RanksConfig};
use stepwell_train::{Config, Report, train};

use crate::common::{in_memory, resume, run, saved_in, stopping, tiny};

/// Two epochs of about 600 of 1260 examples.
fn of(mut config: Config) -> Config {
    config.data.epochs = 2;
    config.data.negative_rate = 0.3;
    config
}

fn assert_same(report: &Report, oracle: &Report, name: &str) {
    assert_eq!(report.steps, oracle.steps, "{name}");
    assert_eq!(report.progressive, oracle.progressive, "{name}");
    assert_eq!(report.eval_by_epoch, oracle.eval_by_epoch, "{name}");
    assert_eq!(report.model_digest, oracle.model_digest, "{name}");
}

#[test]
fn the_same_negatives_are_left_out_however_a_model_is_trained() {
    let oracle = run(&of(in_memory(ModelKind::Lr)));
    let all = run(&Config { data: in_memory(ModelKind::Lr).data, ..in_memory(ModelKind::Lr) });
    let positives = all.progressive.positive_rate * all.progressive.examples as f64;
    let [first, second] = &oracle.progressive_by_epoch[..] else { panic!("two epochs") };
    for epoch in [first, second] {
        // All positives, and about three in ten negatives: within four standard deviations.
        let found = epoch.positive_rate * epoch.examples as f64;
        assert!((found - positives).abs() < 1e-6, "{found} {positives}");
        let (negatives, kept) =
            (all.progressive.examples as f64 - positives, epoch.examples as f64 - positives);
        let off = (kept - 0.3 * negatives).abs() / (0.21 * negatives).sqrt();
        assert!(off < 4.0, "{kept} of {negatives}");
    }
    assert_ne!(first.examples, second.examples, "each epoch leaves out others");
    assert_eq!(oracle.eval.examples, all.eval.examples);
    assert_same(&run(&of(tiny(ModelKind::Lr, 2))), &oracle, "tiny tiers");
    for ranks in [2, 3] {
        let mut config = of(tiny(ModelKind::Lr, 1));
        config.ranks = RanksConfig { count: ranks, ..config.ranks };
        assert_same(&run(&config), &oracle, &format!("{ranks} ranks"));
    }
    let mut config = of(in_memory(ModelKind::Lr));
    config.train.evaluate_every = 3;
    let found = run(&config);
    assert!(found.evaluations.len() > 2);
    assert_same(&found, &oracle, "evaluations within epochs");
    config.data.shuffle = 200;
    let shuffled = run(&config);
    assert_eq!(shuffled.progressive.examples, oracle.progressive.examples);
    assert_ne!(shuffled.model_digest, oracle.model_digest);
}

#[test]
fn a_run_that_was_stopped_leaves_out_what_it_would_have() {
    for shuffle in [0, 200] {
        let with = |mut config: Config| {
            config.data.shuffle = shuffle;
            of(config)
        };
        let oracle = run(&with(in_memory(ModelKind::Lr)));
        let of_epoch = oracle.progressive_by_epoch[0].examples.div_ceil(64);
        for after in [1, of_epoch - 1, of_epoch, of_epoch + 5] {
            let directory = tempfile::tempdir().unwrap();
            let config = saved_in(&with(tiny(ModelKind::Lr, 2)), directory.path());
            let stopped = train(&config, &stopping(after, false)).unwrap();
            assert!(stopped.interrupted && stopped.steps <= after);
            let resumed = resume(&config);
            assert_eq!(resumed.model_digest, oracle.model_digest, "{shuffle}: after {after}");
            assert_eq!(resumed.eval, oracle.eval, "{shuffle}: after {after}");
        }
    }
}
