//! The model depends only on seed, settings and data, not on the number of ranks that trained it.

#![expect(clippy::unwrap_used, reason = "a failed test panics")]

use std::sync::Arc;

use crate::common::{in_memory, run, surroundings, tiny};
use stepwell_base::ByteCount;
use stepwell_base::stage::FullSpeed;
use stepwell_engine::Placement;
use stepwell_fabric::Network;
use stepwell_optim::Storage;
use stepwell_settings::{ExchangeKind, ModelKind, RanksConfig, RowOptimizerKind, ScheduleKind};
use stepwell_train::{Config, Exchanged, Machine, Report, Surroundings, train};

/// Compares the figures that do not depend on ranks.
fn assert_same(report: &Report, oracle: &Report, name: &str) {
    assert_eq!(report.rows, oracle.rows, "{name}");
    assert_eq!(report.steps, oracle.steps, "{name}");
    assert_eq!(report.examples, oracle.examples, "{name}");
    assert_eq!(report.progressive, oracle.progressive, "{name}");
    assert_eq!(report.eval, oracle.eval, "{name}");
    assert_eq!(report.best_possible, oracle.best_possible, "{name}");
    assert_eq!(report.model_digest, oracle.model_digest, "{name}");
}

fn with_ranks(config: &Config, ranks: usize, threads: usize) -> Report {
    let ranks = RanksConfig { count: ranks, ..config.ranks };
    run(&Config { ranks, threads, ..config.clone() })
}

/// `config` with rows lent for batches of `mini_batches` mini-batches.
fn lending(config: &Config, mini_batches: usize) -> Config {
    let mut config = config.clone();
    config.ranks.exchange = ExchangeKind::WorkingSet;
    config.data.batch = mini_batches * config.data.mini_batch;
    config
}

/// Traffic of each rank.
fn exchanged(report: &Report) -> Vec<Exchanged> {
    report.by_rank.iter().filter_map(|rank| rank.ranks).collect()
}

/// Number of rows that ranks lent each other.
fn lent(report: &Report) -> u64 {
    exchanged(report).iter().map(|rank| rank.rows_borrowed).sum()
}

#[test]
fn any_number_of_ranks_trains_the_same_model() {
    let config = in_memory(ModelKind::DeepFm);
    let oracle = run(&config);
    for ranks in 1..=8 {
        for threads in [1, 2] {
            let report = with_ranks(&config, ranks, threads);
            assert_same(&report, &oracle, &format!("{ranks} ranks"));
            assert_eq!(report.by_rank.len(), if ranks == 1 { 0 } else { ranks });
            assert_eq!(lent(&report), 0, "{ranks} ranks");
            let report = with_ranks(&lending(&config, 16), ranks, threads);
            assert_same(&report, &oracle, &format!("{ranks} ranks that lend"));
            assert_eq!(lent(&report) > 0, ranks > 1, "{ranks} ranks that lend");
        }
    }
}

/// The length of loans and the rows' parts do not change the model either.
#[test]
fn rows_that_are_lent_are_what_they_would_be() {
    for (storage, kind) in [
        (Storage::F32, RowOptimizerKind::RowWiseAdagrad),
        (Storage::F16, RowOptimizerKind::Adagrad),
        (Storage::Bf16, RowOptimizerKind::Adam),
    ] {
        let mut config = in_memory(ModelKind::DeepFm);
        (config.rows.storage, config.optim.rows.kind) = (storage, kind);
        config.optim.rows.l2 = Some(0.01);
        (config.optim.rows.schedule, config.optim.rows.decay_steps) =
            (ScheduleKind::InverseSqrt, Some(3));
        config.data.epochs = 2;
        let oracle = run(&config);
        for (ranks, mini_batches) in [(2, 2), (3, 5), (2, 100), (4, 1)] {
            let report = with_ranks(&lending(&config, mini_batches), ranks, 2);
            let name = format!("{storage:?}, {ranks} ranks, {mini_batches} mini-batches a batch");
            assert_same(&report, &oracle, &name);
            assert!(lent(&report) > 0 || mini_batches < 5, "{name}");
        }
    }
}

/// Rows that only one rank needs are sent once and returned once, for any number of mini-batches.
#[test]
fn rows_of_one_rank_alone_are_lent_and_cost_less() {
    const MINI: usize = 64;
    // Each half of a mini-batch has separate ids, the same ones in every mini-batch.
    let line = |example: usize| {
        let (half, id) = (example % MINI / (MINI / 2), example % 16);
        let ids: Vec<String> = (0..26).map(|slot| format!("{half}-{}", id * 26 + slot)).collect();
        let dense = ["1"; 13].join("\t");
        format!("{}\t{dense}\t{}\n", example % 3 % 2, ids.join("\t"))
    };
    let home = tempfile::tempdir().unwrap();
    let data = home.path().join("data.tsv");
    std::fs::write(&data, (0..MINI * 32).map(line).collect::<String>()).unwrap();
    let mut config = in_memory(ModelKind::Lr);
    config.data.paths = vec![data.display().to_string()];
    config.data.eval_fraction = 0.0;
    let oracle = run(&config);
    let sent = |report: &Report| exchanged(report).iter().map(|of| of.bytes_sent).sum::<u64>();
    let owner = with_ranks(&config, 2, 1);
    assert_same(&owner, &oracle, "by owners");
    // For `lr`, most bytes of a row are its key, which is sent in any case.
    for (mini_batches, share) in [(1, 1.0), (4, 0.95), (32, 0.75)] {
        let report = with_ranks(&lending(&config, mini_batches), 2, 1);
        assert_same(&report, &oracle, "lent");
        let over = sent(&report) as f64 / sent(&owner) as f64;
        assert!(over <= share, "{mini_batches} mini-batches a batch: {over:.3}");
    }
}

#[test]
fn what_ranks_exchange_is_counted() {
    let config = in_memory(ModelKind::DeepFm);
    assert_eq!(run(&config).ranks, None, "one rank has no others");
    for ranks in [2, 4] {
        let report = with_ranks(&config, ranks, 1);
        let all = exchanged(&report);
        assert_eq!((all.len(), report.ranks), (ranks, Some(all[0])));
        let weights = config.model.dim as u64 + 1;
        for of_rank in &all {
            assert!(of_rank.keys_asked > 0 && of_rank.dense_parameters > 0, "{of_rank:?}");
            assert_eq!(of_rank.weights_asked, weights * of_rank.keys_asked);
            // Weights, gradients and dense sums; fewer for evaluated mini-batches.
            assert!(of_rank.messages_sent > 3 * report.steps * (ranks as u64 - 1), "{of_rank:?}");
        }
        // At least a key to its owner and its weights back.
        let least = |of_rank: &Exchanged| of_rank.keys_asked * 8 + of_rank.weights_asked * 4;
        let sent: u64 = all.iter().map(|of_rank| of_rank.bytes_sent).sum();
        assert!(sent > all.iter().map(least).sum(), "{all:?}");
    }
}

#[test]
fn a_slow_network_trains_the_same_model() {
    let config = in_memory(ModelKind::Lr);
    let network = Some(Network { bytes_per_second: 1e8, latency_seconds: 1e-4 });
    let machine = Machine { network, ..Machine::default() };
    let around = Surroundings { machine, ..surroundings(Arc::new(FullSpeed)) };
    let ranks = RanksConfig { count: 3, ..config.ranks };
    let slow = train(&Config { ranks, ..config.clone() }, &around).unwrap();
    assert_same(&slow, &run(&config), "slow");
    // Weights, gradients and dense sums follow one another.
    assert!(slow.train_seconds > 3e-4 * slow.steps as f64, "{}", slow.train_seconds);
}

#[test]
fn ranks_with_tiny_tiers_train_the_same_model() {
    let oracle = run(&in_memory(ModelKind::WideDeep));
    for (ranks, lookahead) in [(2, 0), (2, 8), (3, 2), (5, 1), (8, 2)] {
        let mut config = tiny(ModelKind::WideDeep, lookahead);
        config.tiers.dram = Some(ByteCount((240 << 10) / ranks as u64));
        config.data.batch = if lookahead == 2 { 64 } else { 256 };
        for (lends, config) in [(false, config.clone()), (true, lending(&config, 8))] {
            let report = with_ranks(&config, ranks, 1);
            let name = format!("{ranks} ranks, lookahead {lookahead}, lent: {lends}");
            assert_same(&report, &oracle, &name);
            let evictions = report.by_rank.iter().map(|rank| rank.tiers.host.evictions);
            assert!(evictions.sum::<u64>() > 0, "{name}");
            assert_eq!(lent(&report) > 0, lends, "{name}");
        }
    }
}

#[test]
fn every_model_is_the_same() {
    for kind in ModelKind::OF_ANY_DATA {
        let config = in_memory(kind);
        let oracle = run(&config);
        assert_same(&with_ranks(&config, 3, 1), &oracle, &format!("{kind:?}"));
        let report = with_ranks(&lending(&config, 8), 3, 1);
        assert_same(&report, &oracle, &format!("{kind:?}, lent"));
    }
}

/// Resumes from the last checkpoint.
fn go_on(config: &Config) -> Report {
    let around = surroundings(Arc::new(FullSpeed));
    train(config, &Surroundings { placement: Placement::Resume, ..around }).unwrap()
}

/// A run that resumes another's checkpoint, with other ranks and other tiers.
#[test]
fn ranks_go_on_from_what_others_kept() {
    for (name, life, lends) in [
        ("rows for ever", false, false),
        ("rows for ever that are lent", false, true),
        ("rows that come and go, read late", true, false),
    ] {
        let with_life = |mut config: Config| {
            if life {
                config.rows.admit_after = 2;
                config.rows.expire_after = 15;
                config.pipeline.staleness = 2;
            }
            config.data.epochs = 2;
            config
        };
        let oracle = run(&with_life(in_memory(ModelKind::DeepFm)));
        for (first, then) in [(1, 4), (3, 2), (2, 5), (8, 1)] {
            let saved = tempfile::tempdir().unwrap();
            let mut config = with_life(tiny(ModelKind::DeepFm, 2));
            if lends {
                config = lending(&config, 6);
                config.checkpoint.every = 7;
            }
            config.checkpoint.dir = Some(saved.path().to_owned());
            config.tiers.dram = Some(ByteCount((320 << 10) / first as u64));
            config.data.epochs = 1;
            with_ranks(&config, first, 1);
            config.data.epochs = 2;
            config.tiers.dram = Some(ByteCount((320 << 10) / then as u64));
            (config.ranks.count, config.threads) = (then, 2);
            let report = go_on(&config);
            let name = format!("{name}: {first} ranks, then {then}");
            assert_eq!(report.model_digest, oracle.model_digest, "{name}");
            assert_eq!((report.rows, report.steps), (oracle.rows, oracle.steps), "{name}");
            assert_eq!(report.eval, oracle.eval, "{name}");
        }
    }
}
