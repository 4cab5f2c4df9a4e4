//! Rows that are admitted and expire, and stale reads, are exact too: tiers do not affect them.

use std::sync::LazyLock;

use crate::common::{in_memory, run, tiny};
use stepwell_base::ByteCount;
use stepwell_optim::Storage;
use stepwell_settings::{ModelKind, RowsConfig};
use stepwell_train::{Config, Report};

const KIND: ModelKind = ModelKind::DeepFm;
/// Two epochs of them are about 26 steps.
const EXAMPLES: u64 = 900;

/// The run in memory and runs through tiny tiers, all with `change`; they must agree.
fn agree(change: impl Fn(&mut Config)) -> Report {
    let with = |mut config: Config| {
        config.synth.examples = EXAMPLES;
        change(&mut config);
        run(&config)
    };
    let oracle = with(in_memory(KIND));
    for (lookahead, mini_batches, threads) in [(0, 1, 1), (2, 8, 2), (8, 1, 2)] {
        let mut config = tiny(KIND, lookahead);
        config.data.batch = config.data.mini_batch * mini_batches;
        config.threads = threads;
        let report = with(config);
        let name = format!("lookahead {lookahead}, batches of {mini_batches}");
        assert_eq!(report.model_digest, oracle.model_digest, "{name}");
        assert_eq!(report.rows, oracle.rows, "{name}");
        assert_eq!(report.eval_by_epoch, oracle.eval_by_epoch, "{name}");
        assert!(report.tiers.host.evictions > 0, "{name}");
    }
    for ranks in [2, 3, 8] {
        let mut config = tiny(KIND, 2);
        (config.ranks.count, config.threads) = (ranks, 1);
        config.tiers.dram = Some(ByteCount((240 << 10) / ranks as u64));
        let report = with(config);
        assert_eq!(report.model_digest, oracle.model_digest, "{ranks} ranks");
        assert_eq!(report.rows, oracle.rows, "{ranks} ranks");
        assert_eq!(report.eval_by_epoch, oracle.eval_by_epoch, "{ranks} ranks");
        assert!(report.by_rank.iter().any(|rank| rank.tiers.host.evictions > 0), "{ranks} ranks");
    }
    oracle
}

fn life(change: impl Fn(&mut RowsConfig)) -> Report {
    agree(|config| {
        // A second epoch, so that rows are used again after an evaluation.
        config.data.epochs = 2;
        change(&mut config.rows);
    })
}

/// The job without changes, whose rows stay.
fn forever() -> &'static Report {
    static REPORT: LazyLock<Report> = LazyLock::new(|| life(|_| {}));
    &REPORT
}

#[test]
fn a_history_changes_nothing() {
    let (without, with) = (forever(), life(|life| life.history = true));
    assert_eq!(without.model_digest, with.model_digest);
    assert_eq!(without.rows, with.rows);
}

#[test]
fn rows_that_are_admitted_late_are_fewer() {
    let all = forever().rows;
    let after = |times| life(|life| life.admit_after = times).rows;
    // In two epochs every id occurs twice.
    let (thrice, often) = (after(3), after(20));
    assert!(often < thrice && thrice < all, "{often:?} {thrice:?} {all:?}");
    // A sketch that is too small overcounts, but runs still agree.
    let crowded = life(|life| {
        life.admit_after = 20;
        life.sketch = "64".parse().unwrap();
    });
    assert!(crowded.rows > often);
}

#[test]
fn rows_that_are_admitted_by_chance_are_fewer_for_each_seed_anew() {
    let chance = |seed| {
        agree(|config| {
            config.seed = seed;
            config.rows.admit_probability = 0.1;
        })
    };
    let (one, two) = (chance(1), chance(2));
    assert!(one.rows < forever().rows);
    assert_ne!(one.model_digest, two.model_digest);
}

#[test]
fn rows_expire_and_begin_anew() {
    let all = forever();
    let expiring = |after| life(|life| life.expire_after = after);
    let (soon, middle, late) = (expiring(3), expiring(7), expiring(10));
    let never = expiring(1_000_000);
    assert!(soon.rows < late.rows && late.rows < all.rows, "{:?} {:?}", soon.rows, late.rows);
    assert_eq!(never.model_digest, all.model_digest);
    // Only rows of the last three steps.
    assert!(soon.rows < Some(3 * 64 * 26));
    let both = life(|life| {
        life.expire_after = 7;
        life.admit_after = 3;
    });
    assert!(both.rows < middle.rows);
}

#[test]
fn rows_of_16_bits_come_and_go_alike() {
    for storage in [Storage::F16, Storage::Bf16] {
        let with = |change: &dyn Fn(&mut Config)| {
            agree(|config| {
                (config.rows.storage, config.data.epochs) = (storage, 2);
                change(config);
            })
        };
        let all = with(&|_| {});
        assert_eq!(all.model_digest, with(&|config| config.rows.history = true).model_digest);
        let never = with(&|config| config.rows.expire_after = 1_000_000);
        assert_eq!(all.model_digest, never.model_digest);
        let fewer = with(&|config| {
            config.pipeline.staleness = 2;
            config.rows.expire_after = 5;
            config.rows.admit_after = 2;
        });
        assert!(fewer.rows < all.rows);
        with(&|config| config.rows.admit_probability = 0.3);
    }
}

#[test]
fn stale_reads_have_a_result_of_their_own() {
    let stale = |staleness| agree(|config| config.pipeline.staleness = staleness).model_digest;
    let digests = [stale(0), stale(1), stale(4)];
    let mut fresh = in_memory(KIND);
    fresh.synth.examples = EXAMPLES;
    assert_eq!(digests[0], run(&fresh).model_digest);
    assert!(digests[0] != digests[1] && digests[1] != digests[2]);
    agree(|config| {
        config.pipeline.staleness = 2;
        config.rows.expire_after = 5;
        config.rows.admit_after = 2;
    });
}
