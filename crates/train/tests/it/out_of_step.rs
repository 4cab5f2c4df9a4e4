//! Ranks that are out of step: no gradient is lost, no bound broken, and there is one model at
//! every mark.

#![expect(clippy::unwrap_used, reason = "a failed test panics")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::common::{in_memory, run, surroundings, tiny};
use stepwell_base::stage::FullSpeed;
use stepwell_base::stop::StopRequest;
use stepwell_engine::Placement;
use stepwell_optim::Storage;
use stepwell_settings::{DenseKind, ModelKind, OptimizerKind, RowsKind};
use stepwell_sync::Kind;
use stepwell_train::{
    Config, Late, Machine, Observer, OutOfStepReport, Report, Snapshot, Surroundings, train,
};

const RNA: DenseKind = DenseKind::Protocol(Kind::Rna);

fn with(
    config: &Config,
    ranks: usize,
    (dense, rows): (DenseKind, RowsKind),
    staleness: u64,
) -> Config {
    let mut config = config.clone();
    config.ranks.count = ranks;
    (config.sync.dense, config.sync.rows, config.sync.staleness) = (dense, rows, staleness);
    config
}

/// How far each rank was out of step.
fn apart(report: &Report) -> Vec<OutOfStepReport> {
    report.by_rank.iter().filter_map(|rank| rank.ranks?.apart).collect()
}

/// Without staleness, and with the blocking sum, every step has the result that it has in step.
#[test]
fn bounded_rows_that_lack_nothing_give_the_model_of_one_rank() {
    for (kind, rules) in [
        (ModelKind::DeepFm, &[OptimizerKind::Adagrad, OptimizerKind::Adam][..]),
        (ModelKind::Lr, &[OptimizerKind::Sgd]),
    ] {
        for rule in rules.iter().copied() {
            let mut config = in_memory(kind);
            (config.optim.rows.kind, config.optim.dense.kind) = (rule.into(), rule);
            config.data.epochs = 2;
            let oracle = run(&config);
            for ranks in [2, 4, 8] {
                let report = run(&with(&config, ranks, (DenseKind::BSP, RowsKind::Bounded), 0));
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
    let mut config = tiny(ModelKind::DeepFm, 4);
    config.data.epochs = 2;
    let alone = run(&config);
    for dense in DenseKind::ALL {
        for (rows, staleness) in [(RowsKind::Bounded, 2), (RowsKind::Async, 0)] {
            let report = run(&with(&config, 3, (dense, rows), staleness));
            let name = format!("{dense}, {rows:?}");
            println!("{name}: {:?} {:?}", report.eval, apart(&report));
            assert_eq!((report.steps, report.examples), (alone.steps, alone.examples), "{name}");
            assert_eq!(report.rows, alone.rows, "{name}: rows exist from their first use");
            assert_eq!(report.eval_by_epoch.len(), 2, "{name}");
            let (loss, of_one) = (report.eval.logloss.unwrap(), alone.eval.logloss.unwrap());
            assert!((loss - of_one).abs() < 0.1, "{name}: {loss}, alone {of_one}");
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

/// Row storage, life and the order of examples do not matter.
#[test]
fn whatever_a_model_has_is_there_out_of_step_too() {
    type Change = fn(&mut Config);
    let changes: [(&str, Change); 7] = [
        ("rows that come and go", |config| {
            (config.rows.admit_after, config.rows.expire_after) = (2, 12);
        }),
        ("rows with a history", |config| config.rows.history = true),
        ("rows in 16 bits", |config| config.rows.storage = Storage::Bf16),
        ("examples in another order", |config| config.data.shuffle = 500),
        ("two streams", |config| config.data.streams = 2),
        ("batches", |config| config.data.batch = 4 * config.data.mini_batch),
        ("checkpoints", |config| config.checkpoint.every = 7),
    ];
    for (name, change) in changes {
        let saved = tempfile::tempdir().unwrap();
        let of = |mut config: Config, dense: DenseKind| {
            change(&mut config);
            if config.checkpoint.every > 0 {
                config.checkpoint.dir = Some(saved.path().join(dense.name()));
            }
            let staleness = if dense == DenseKind::BSP { 0 } else { 3 };
            with(&config, 4, (dense, RowsKind::Bounded), staleness)
        };
        let mut alone = in_memory(ModelKind::DeepFm);
        change(&mut alone);
        let oracle = run(&alone);
        let report = run(&of(tiny(ModelKind::DeepFm, 2), DenseKind::BSP));
        assert_eq!(report.model_digest, oracle.model_digest, "{name}");
        assert_eq!((report.rows, report.steps), (oracle.rows, oracle.steps), "{name}");
        assert_eq!(report.eval, oracle.eval, "{name}");
        for dense in [RNA, DenseKind::Geeps] {
            let report = run(&of(tiny(ModelKind::DeepFm, 2), dense));
            assert_eq!(report.steps, oracle.steps, "{name}");
        }
    }
}

fn go_on(config: &Config) -> Report {
    let around = surroundings(Arc::new(FullSpeed));
    train(config, &Surroundings { placement: Placement::Resume, ..around }).unwrap()
}

/// Asks for a stop after a number of mini-batches.
struct Stopper(StopRequest, u64, AtomicU64);

impl Observer for Stopper {
    fn progress(&self, _snapshot: &Snapshot) {
        if self.2.fetch_add(1, Ordering::Relaxed) + 1 == self.1 {
            self.0.make();
        }
    }
}

#[test]
fn a_run_that_was_asked_to_stop_goes_on_and_loses_no_step() {
    let mut oracle = in_memory(ModelKind::DeepFm);
    oracle.data.epochs = 2;
    let oracle = run(&oracle);
    for (dense, rows, staleness) in [
        (DenseKind::BSP, RowsKind::Bounded, 0),
        (RNA, RowsKind::Bounded, 3),
        (Kind::RdmaWild.into(), RowsKind::Async, 0),
        (Kind::AdPsgd.into(), RowsKind::Bounded, 1),
        (DenseKind::Geeps, RowsKind::Bounded, 0),
        (DenseKind::Geeps, RowsKind::Bounded, 2),
        (DenseKind::Geeps, RowsKind::Async, 0),
    ] {
        for after in [9, 21] {
            let saved = tempfile::tempdir().unwrap();
            let mut config = with(&tiny(ModelKind::DeepFm, 2), 4, (dense, rows), staleness);
            config.data.epochs = 2;
            config.checkpoint.dir = Some(saved.path().to_owned());
            let stop = StopRequest::new();
            let observer = Arc::new(Stopper(stop.clone(), after, AtomicU64::new(0)));
            let around = Surroundings { observer, stop, ..surroundings(Arc::new(FullSpeed)) };
            let report = train(&config, &around).unwrap();
            let name = format!("{dense}, {rows:?}, after {after}");
            assert!(report.interrupted, "{name}");
            let most = after + config.ahead_max() + 1 + if after < 20 { 1 } else { 0 };
            assert!((after.min(20)..=most).contains(&report.steps), "{name}: {}", report.steps);
            let report = go_on(&config);
            assert_eq!(report.steps, oracle.steps, "{name}");
            if dense == DenseKind::BSP {
                assert_eq!(report.model_digest, oracle.model_digest, "{name}");
            }
        }
    }
}

/// Stage `learn` then never gets anything to compute, and ends nevertheless.
#[test]
fn a_run_with_nothing_left_to_train_ends_and_reports_on_all_ranks() {
    let saved = tempfile::tempdir().unwrap();
    for dense in [RNA, DenseKind::Geeps] {
        let mut config = with(&in_memory(ModelKind::Lr), 2, (dense, RowsKind::Bounded), 1);
        config.checkpoint.dir = Some(saved.path().join(dense.name()));
        let (trained, again) = (run(&config), go_on(&config));
        assert_eq!((again.steps, again.examples), (trained.steps, 0), "{dense}");
        assert_eq!(again.model_digest, trained.model_digest, "{dense}");
        let gradients: Vec<u64> = apart(&again).iter().map(|rank| rank.gradients).collect();
        assert_eq!(gradients, [0, 0], "{dense}");
    }
}

/// Data that ends partway: earlier training is saved, and all ranks report the reason.
#[test]
fn data_that_cannot_be_read_ends_all_ranks_with_its_line() {
    let home = tempfile::tempdir().unwrap();
    let data = home.path().join("data.tsv");
    let line = |example: usize| {
        let ids: Vec<String> = (0..26).map(|slot| format!("{}", example * 26 + slot)).collect();
        format!("{}\t{}\t{}\n", example % 2, ["1"; 13].join("\t"), ids.join("\t"))
    };
    let mut lines: Vec<String> = (0..1000).map(line).collect();
    lines[700] = "1\tnonsense\n".to_owned();
    std::fs::write(&data, lines.concat()).unwrap();
    for dense in [DenseKind::BSP, RNA, Kind::SyncDsgd.into(), DenseKind::Geeps] {
        let mut config = in_memory(ModelKind::DeepFm);
        config.data.paths = vec![data.display().to_string()];
        config.data.eval_fraction = 0.0;
        config.checkpoint.dir = Some(home.path().join(dense.name()));
        let config = with(&config, 3, (dense, RowsKind::Bounded), 2);
        let error = train(&config, &surroundings(Arc::new(FullSpeed))).unwrap_err().to_string();
        assert!(error.contains("data.tsv: line 701, column 2"), "{dense}: {error}");
    }
}

/// Late ranks, so that some have nothing left to compute while others continue: before a
/// checkpoint, and at the end of a batch's window.
#[test]
fn nobody_waits_for_a_rank_that_has_nothing_to_compute() {
    for dense in DenseKind::ALL {
        for (rows, mini_batches, every) in [(RowsKind::Bounded, 1, 4), (RowsKind::Async, 10, 0)] {
            let saved = tempfile::tempdir().unwrap();
            let mut config = with(&tiny(ModelKind::Lr, 10), 4, (dense, rows), 12);
            config.tiers.dram = Some(stepwell_base::ByteCount(16 << 20));
            config.data.batch = mini_batches * config.data.mini_batch;
            config.checkpoint.every = every;
            config.checkpoint.dir = (every > 0).then(|| saved.path().to_owned());
            let late = Some(Late { seconds_max: 0.008, seed: 3 });
            let around = surroundings(Arc::new(FullSpeed));
            let around = Surroundings { machine: Machine { late, ..around.machine }, ..around };
            let report = train(&config, &around).unwrap();
            assert_eq!(report.steps, 20, "{dense}, {rows:?}");
        }
    }
}

/// Many short steps and checkpoints: a rank that cannot continue before the others reports it, even
/// if nothing else happens on it.
#[test]
fn a_rank_that_is_refused_a_gradient_says_so() {
    let epochs = if std::env::var_os("STEPWELL_LONG").is_some() { 10 } else { 3 };
    for dense in [Kind::EagerMajority.into(), RNA, DenseKind::Geeps] {
        let saved = tempfile::tempdir().unwrap();
        let mut config = with(&tiny(ModelKind::Lr, 8), 2, (dense, RowsKind::Bounded), 8);
        config.tiers.dram = Some(stepwell_base::ByteCount(16 << 20));
        (config.data.mini_batch, config.threads, config.data.epochs) = (8, 1, epochs);
        config.checkpoint.every = 20;
        config.checkpoint.dir = Some(saved.path().to_owned());
        assert_eq!(run(&config).steps, epochs * 158, "{dense}");
    }
}

fn late(config: &Config, seed: u64) -> Report {
    let around = surroundings(Arc::new(FullSpeed));
    let late = Some(Late { seconds_max: 0.004, seed });
    let around = Surroundings { machine: Machine { late, ..around.machine }, ..around };
    train(config, &around).unwrap()
}

/// Without staleness, the dense part in tables is that of workers one after another: its bits
/// depend on the number of ranks, and on nothing that differs between two runs.
#[test]
fn tables_without_staleness_give_one_model_whoever_is_late() {
    for rule in [OptimizerKind::Adam, OptimizerKind::Sgd] {
        for ranks in if std::env::var_os("STEPWELL_LONG").is_some() { 2..=4 } else { 3..=3 } {
            let of = |mut config: Config, threads| {
                (config.optim.dense.kind, config.threads, config.data.epochs) = (rule, threads, 2);
                with(&config, ranks, (DenseKind::Geeps, RowsKind::Bounded), 0)
            };
            let name = format!("{rule:?}, {ranks} ranks");
            let first = run(&of(in_memory(ModelKind::DeepFm), 1));
            assert!(apart(&first).iter().all(|rank| rank.age_max == 0), "{name}");
            for (config, threads, seed) in [
                (in_memory(ModelKind::DeepFm), 2, 1),
                (tiny(ModelKind::DeepFm, 2), 1, 2),
                (tiny(ModelKind::DeepFm, 2), 2, 3),
            ] {
                let report = late(&of(config, threads), seed);
                assert_eq!(report.model_digest, first.model_digest, "{name}, seed {seed}");
                assert_eq!(report.eval_by_epoch, first.eval_by_epoch, "{name}, seed {seed}");
            }
            // Without optimizer state, a mark changes nothing.
            if rule == OptimizerKind::Sgd {
                let saved = tempfile::tempdir().unwrap();
                let mut config = of(tiny(ModelKind::DeepFm, 2), 1);
                (config.checkpoint.every, config.data.epochs) = (7, 1);
                config.checkpoint.dir = Some(saved.path().to_owned());
                run(&config);
                config.data.epochs = 2;
                assert_eq!(go_on(&config).model_digest, first.model_digest, "{name}");
            }
        }
    }
}

/// Reads of tables lack as many clocks as allowed, and no more, and no gradient is lost.
#[test]
fn tables_miss_no_more_than_staleness_lets_them() {
    let mut missed = 0;
    for staleness in [1, 3] {
        let config = tiny(ModelKind::Lr, 4);
        let report = late(&with(&config, 4, (DenseKind::Geeps, RowsKind::Bounded), staleness), 5);
        for rank in apart(&report) {
            assert_eq!((rank.gradients, rank.updates), (report.steps, report.steps), "{rank:?}");
            assert!(rank.age_max <= staleness && rank.dropped == 0, "{staleness}: {rank:?}");
            missed = missed.max(rank.age_max);
        }
    }
    assert!(missed > 0, "nobody was ever ahead");
}

/// A checkpoint of tables can be resumed with any number of ranks, and any protocol.
#[test]
fn what_tables_leave_any_ranks_go_on_from_and_the_other_way_round() {
    let saved = tempfile::tempdir().unwrap();
    let mut config = tiny(ModelKind::DeepFm, 4);
    config.checkpoint.dir = Some(saved.path().to_owned());
    let geeps = (DenseKind::Geeps, RowsKind::Bounded);
    let mut steps = run(&with(&config, 3, geeps, 2)).steps;
    for (ranks, by, staleness) in [
        (4, geeps, 0),
        (2, (RNA, RowsKind::Async), 0),
        (4, (DenseKind::Geeps, RowsKind::Async), 0),
        (1, geeps, 0),
        (2, (DenseKind::BSP, RowsKind::Exact), 0),
        (2, geeps, 8),
    ] {
        config.data.epochs += 1;
        let report = go_on(&with(&config, ranks, by, staleness));
        // For the epoch that the checkpoint ends, and for the next.
        assert_eq!(report.eval_by_epoch.len(), 2, "{ranks} ranks, {by:?}");
        steps += steps / (config.data.epochs - 1);
        assert_eq!(report.steps, steps, "{ranks} ranks, {by:?}");
        assert!(report.eval.logloss.unwrap() < 0.7, "{ranks} ranks, {by:?}: {:?}", report.eval);
    }
}
