//! Dropout: the same lanes are dropped whatever the tiers, ranks, batches and interruptions, and
//! none when examples are only scored.

use crate::common::{in_memory, resume, run, saved_in, stopping, tiny};
use stepwell_settings::ModelKind;
use stepwell_train::{Config, train};

fn with_dropout(mut config: Config) -> Config {
    (config.model.dropout, config.data.epochs) = (0.3, 2);
    config
}

#[test]
fn dropout_is_exact() {
    for kind in [ModelKind::DeepFm, ModelKind::Ple] {
        let oracle = run(&with_dropout(in_memory(kind)));
        let mut plain = in_memory(kind);
        plain.data.epochs = 2;
        assert_ne!(run(&plain).model_digest, oracle.model_digest);
        for (lookahead, ranks, batch) in [(0, 1, 1), (2, 1, 4), (1, 3, 1)] {
            let mut config = with_dropout(tiny(kind, lookahead));
            (config.ranks.count, config.data.batch) = (ranks, batch * 64);
            let report = run(&config);
            let name = format!("{ranks} ranks, lookahead {lookahead}");
            assert_eq!(report.model_digest, oracle.model_digest, "{name}");
            assert_eq!(report.eval, oracle.eval, "{name}");
        }
        let directory = tempfile::tempdir().unwrap();
        let config = saved_in(&with_dropout(tiny(kind, 2)), directory.path());
        assert!(train(&config, &stopping(13, false)).unwrap().interrupted);
        assert_eq!(resume(&config).model_digest, oracle.model_digest);
    }
}

#[test]
fn nothing_is_dropped_when_examples_are_scored() {
    let [plain, dropping] = [0.0, 0.5].map(|dropout| {
        let mut config = in_memory(ModelKind::WideDeep);
        config.model.dropout = dropout;
        // The model stays as it begins.
        (config.optim.rows.lr, config.optim.dense.lr) = (Some(1e-30), Some(1e-30));
        run(&config)
    });
    assert_eq!(dropping.eval.logloss, plain.eval.logloss);
    assert_ne!(dropping.progressive.logloss, plain.progressive.logloss);
}
