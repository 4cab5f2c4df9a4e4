//! Ranks that are out of step: no gradient lost, no bound broken, one model at every mark.

#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]
#![expect(clippy::print_stdout, reason = "a test says what it met")]

mod common;

use common::{in_memory, run, tiny};
use stepwell_settings::{ModelKind, OptimizerKind, RowsKind};
use stepwell_sync::Kind;
use stepwell_train::{ApartReport, Config, Report};

fn with(config: &Config, ranks: usize, (dense, rows): (Kind, RowsKind), staleness: u64) -> Config {
    let mut config = config.clone();
    config.ranks.count = ranks;
    (config.sync.dense, config.sync.rows, config.sync.staleness) = (dense, rows, staleness);
    config
}

/// How each rank was out of step.
fn apart(report: &Report) -> Vec<ApartReport> {
    report.by_rank.iter().filter_map(|rank| rank.ranks?.apart).collect()
}

/// Without staleness, and with the blocking sum, every step is what it is in step.
#[test]
fn bounded_rows_that_lack_nothing_give_the_model_of_one_rank() {
    for kind in [ModelKind::DeepFm, ModelKind::Lr] {
        for rule in [OptimizerKind::Adagrad, OptimizerKind::Adam, OptimizerKind::Sgd] {
            let mut config = in_memory(kind);
            (config.rows.kind, config.dense.kind) = (rule, rule);
            config.data.epochs = 2;
            let oracle = run(&config);
            for ranks in [2, 4, 8] {
                let report = run(&with(&config, ranks, (Kind::Bsp, RowsKind::Bounded), 0));
                let name = format!("{kind:?}, {rule:?}, {ranks} ranks");
                assert_eq!(report.model_digest, oracle.model_digest, "{name}");
                assert_eq!(report.progressive_by_epoch, oracle.progressive_by_epoch, "{name}");
                assert_eq!(report.eval_by_epoch, oracle.eval_by_epoch, "{name}");
                assert!(apart(&report).iter().all(|rank| rank.staleness_max == 0), "{name}");
            }
        }
    }
}

/// Every protocol trains every step of every epoch, through tiers that hold a few hundred rows.
#[test]
fn every_protocol_trains_all_steps_and_keeps_the_bound() {
    for dense in Kind::ALL {
        for (rows, staleness) in [(RowsKind::Bounded, 2), (RowsKind::Async, 0)] {
            let mut config = tiny(ModelKind::DeepFm, 4);
            config.data.epochs = 2;
            let alone = run(&config);
            let report = run(&with(&config, 3, (dense, rows), staleness));
            let name = format!("{dense}, {rows:?}");
            println!("{name}: {:?} {:?}", report.eval, apart(&report));
            assert_eq!((report.steps, report.examples), (alone.steps, alone.examples), "{name}");
            assert_eq!(report.rows, alone.rows, "{name}: rows exist from their first use");
            assert_eq!(report.eval_by_epoch.len(), 2, "{name}");
            let (loss, of_one) = (report.eval.logloss.unwrap(), alone.eval.logloss.unwrap());
            assert!((loss - of_one).abs() < 0.03, "{name}: {loss}, alone {of_one}");
            let ranks = apart(&report);
            assert_eq!(ranks.len(), 3, "{name}");
            let bound = if rows == RowsKind::Bounded { staleness } else { 5 };
            assert!(ranks.iter().all(|rank| rank.staleness_max <= bound), "{name}: {ranks:?}");
            let given: Vec<u64> = ranks.iter().map(|rank| rank.gradients).collect();
            let server = if dense.has_server() { 0 } else { report.steps };
            assert_eq!(given, [server, report.steps, report.steps], "{name}");
        }
    }
}
