//! The model depends on seed, settings and data alone, not on how many ranks trained it.

#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

mod common;

use std::sync::Arc;

use common::{in_memory, run, surroundings, tiny};
use stepwell_base::ByteCount;
use stepwell_base::stage::FullSpeed;
use stepwell_engine::Placement;
use stepwell_fabric::Network;
use stepwell_settings::{ModelKind, RanksConfig};
use stepwell_train::{Config, Exchanged, Machine, Report, Surroundings, train};

/// What does not depend on ranks.
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

#[test]
fn any_number_of_ranks_trains_the_same_model() {
    let config = in_memory(ModelKind::DeepFm);
    let oracle = run(&config);
    for ranks in 1..=8 {
        let report = with_ranks(&config, ranks, 1 + ranks % 2);
        assert_same(&report, &oracle, &format!("{ranks} ranks"));
        assert_eq!(report.by_rank.len(), if ranks == 1 { 0 } else { ranks });
    }
}

#[test]
fn what_ranks_exchange_is_counted() {
    let config = in_memory(ModelKind::DeepFm);
    assert_eq!(run(&config).ranks, None, "one rank has no others");
    for ranks in [2, 4] {
        let report = with_ranks(&config, ranks, 1);
        let all: Vec<Exchanged> = report.by_rank.iter().filter_map(|rank| rank.ranks).collect();
        assert_eq!((all.len(), report.ranks), (ranks, Some(all[0])));
        let weights = config.model.dim as u64 + 1;
        for of_rank in &all {
            assert!(of_rank.keys_asked > 0 && of_rank.dense_parameters > 0, "{of_rank:?}");
            assert_eq!(of_rank.weights_asked, weights * of_rank.keys_asked);
            // Weights, what was said and dense sums; with mini-batches that are evaluated fewer.
            assert!(of_rank.messages_sent > 3 * report.steps * (ranks as u64 - 1), "{of_rank:?}");
        }
        // A key to its owner and its weights back, whatever else.
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
    // Weights, what is said of them and dense sums follow one another.
    assert!(slow.train_seconds > 3e-4 * slow.steps as f64, "{}", slow.train_seconds);
}

#[test]
fn ranks_with_tiny_tiers_train_the_same_model() {
    let oracle = run(&in_memory(ModelKind::WideDeep));
    for (ranks, lookahead) in [(2, 0), (2, 8), (3, 2), (5, 1), (8, 2)] {
        let mut config = tiny(ModelKind::WideDeep, lookahead);
        config.tiers.dram = ByteCount((240 << 10) / ranks as u64);
        config.data.batch = if lookahead == 2 { 64 } else { 256 };
        let report = with_ranks(&config, ranks, 1);
        assert_same(&report, &oracle, &format!("{ranks} ranks, lookahead {lookahead}"));
        let evictions = report.by_rank.iter().map(|rank| rank.tiers.host.evictions);
        assert!(evictions.sum::<u64>() > 0, "{ranks} ranks");
    }
}

#[test]
fn every_model_is_the_same() {
    for kind in ModelKind::ALL {
        let config = in_memory(kind);
        assert_same(&with_ranks(&config, 3, 1), &run(&config), &format!("{kind:?}"));
    }
}

/// Trains on, from the last checkpoint.
fn go_on(config: &Config) -> Report {
    let around = surroundings(Arc::new(FullSpeed));
    train(config, &Surroundings { placement: Placement::Resume, ..around }).unwrap()
}

/// A run that goes on from what another wrote, with other ranks and other tiers.
#[test]
fn ranks_go_on_from_what_others_kept() {
    for (name, life) in [("rows for ever", false), ("rows that come and go, read late", true)] {
        let with_life = |mut config: Config| {
            if life {
                config.life.admit_after = 2;
                config.life.expire_after = 30;
                config.staleness = 2;
            }
            config.data.epochs = 2;
            config
        };
        let oracle = run(&with_life(in_memory(ModelKind::DeepFm)));
        for (first, then) in [(1, 4), (3, 2), (2, 5), (8, 1)] {
            let saved = tempfile::tempdir().unwrap();
            let mut config = with_life(tiny(ModelKind::DeepFm, 2));
            config.checkpoint.dir = Some(saved.path().to_owned());
            config.tiers.dram = ByteCount((320 << 10) / first as u64);
            config.data.epochs = 1;
            with_ranks(&config, first, 1);
            config.data.epochs = 2;
            config.tiers.dram = ByteCount((320 << 10) / then as u64);
            (config.ranks.count, config.threads) = (then, 2);
            let report = go_on(&config);
            let name = format!("{name}: {first} ranks, then {then}");
            assert_eq!(report.model_digest, oracle.model_digest, "{name}");
            assert_eq!((report.rows, report.steps), (oracle.rows, oracle.steps), "{name}");
            assert_eq!(report.eval, oracle.eval, "{name}");
        }
    }
}
