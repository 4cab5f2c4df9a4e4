//! The central test: a run through tiny tiers gives, bit for bit, the model of a run with
//! everything in memory and no pipeline.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::common::{in_memory, run, surroundings, tiny};
use stepwell_base::ByteCount;
use stepwell_base::stage::{FullSpeed, Pace};
use stepwell_nn::{Precision, bf16_kernel};
use stepwell_optim::Storage;
use stepwell_settings::{ModelKind, OptimizerKind, RowOptimizerKind, ScheduleKind};
use stepwell_train::{Config, train};

/// Pauses that differ from poll to poll and from stage to stage.
struct Uneven {
    polls: AtomicU64,
    /// The slow stage; `None` slows all stages a little.
    slow: Option<&'static str>,
}

impl Pace for Uneven {
    fn pause(&self, name: &'static str) {
        let poll = self.polls.fetch_add(1, Ordering::Relaxed);
        let slow = self.slow.is_none_or(|slow| slow == name);
        if slow && poll.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 62 == 0 {
            std::thread::sleep(Duration::from_micros(300));
        }
    }
}

#[test]
fn tiny_tiers_change_nothing() {
    let with = |mut config: Config| {
        config.data.epochs = 2;
        run(&config)
    };
    let oracle = with(in_memory(ModelKind::DeepFm));
    assert_eq!(oracle.tiers.host.evictions, 0);
    assert_eq!(oracle.tiers.disk.rows_written, 0);
    let mut seen = BTreeMap::new();
    for lookahead in [0, 1, 2, 8] {
        for mini_batches in [1, 8] {
            let mut config = tiny(ModelKind::DeepFm, lookahead);
            config.data.batch = 64 * mini_batches;
            config.threads = 1 + lookahead % 2;
            let report = with(config);
            let name = format!("lookahead {lookahead}, batches of {mini_batches}");
            assert_eq!(report.model_digest, oracle.model_digest, "{name}");
            assert_eq!(report.rows, oracle.rows, "{name}");
            assert_eq!(report.eval, oracle.eval, "{name}");
            assert_eq!(report.progressive, oracle.progressive, "{name}");
            let (host, disk) = (&report.tiers.host, &report.tiers.disk);
            assert!(host.evictions > 0 && host.refilled > 0, "{name}: {host:?}");
            *seen.entry("forwarded").or_insert(0) += host.forwarded;
            *seen.entry("compactions").or_insert(0) += disk.compactions;
        }
    }
    assert!(seen.values().all(|count| *count > 0), "not every path was taken: {seen:?}");
}

#[test]
fn delays_in_every_stage_change_nothing() {
    let oracle = run(&in_memory(ModelKind::WideDeep));
    let stages = ["read", "parse", "batch", "plan", "pull", "train", "write"];
    for slow in stages.into_iter().map(Some).chain([None]) {
        let mut config = tiny(ModelKind::WideDeep, 2);
        config.data.batch = 128;
        let pace = Uneven { polls: AtomicU64::new(0), slow };
        let report = train(&config, &surroundings(Arc::new(pace))).unwrap();
        assert_eq!(report.model_digest, oracle.model_digest, "slow {slow:?}");
        assert!(report.tiers.host.evictions > 0);
    }
}

#[test]
fn every_optimizer_and_model_is_exact() {
    for kind in ModelKind::OF_ANY_DATA {
        for (number, optimizer) in RowOptimizerKind::ALL.into_iter().enumerate() {
            let dense = OptimizerKind::ALL.into_iter().find(|of| optimizer == (*of).into());
            // One model is enough for optimizers that only rows have.
            if dense.is_none() && kind != ModelKind::DeepFm {
                continue;
            }
            let with = |mut config: Config| {
                config.optim.rows.kind = optimizer;
                config.optim.rows.l2 = number.is_multiple_of(2).then_some(0.01);
                config.optim.rows.clip_norm = number.is_multiple_of(3).then_some(0.01);
                config.optim.rows.max_norm = number.is_multiple_of(2).then_some(0.01);
                config.optim.dense.kind = dense.unwrap_or(OptimizerKind::Momentum);
                config.optim.dense.clip_norm = number.is_multiple_of(2).then_some(0.1);
                config.optim.dense.weight_decay = number.is_multiple_of(3).then_some(0.1);
                config.data.epochs = 2;
                config.tiers.dram = config.tiers.dram.max(Some(ByteCount(200 << 10)));
                run(&config)
            };
            let (oracle, tiny) = (with(in_memory(kind)), with(tiny(kind, 2)));
            assert_eq!(oracle.model_digest, tiny.model_digest, "{kind:?} {optimizer:?}");
            assert_eq!(oracle.eval_by_epoch, tiny.eval_by_epoch, "{kind:?} {optimizer:?}");
            assert_eq!(oracle.eval_by_epoch.len(), 2);
        }
    }
}

#[test]
fn bf16_is_exact_too() {
    let with = |mut config: Config, threads| {
        config.model.precision = Precision::Bf16;
        config.threads = threads;
        run(&config)
    };
    let oracle = with(in_memory(ModelKind::DeepFm), 1);
    assert!(oracle.kernels.ends_with(&format!(", bf16 {}", bf16_kernel().name)));
    assert_ne!(oracle.model_digest, run(&in_memory(ModelKind::DeepFm)).model_digest);
    for threads in [1, 2, 3] {
        let report = with(tiny(ModelKind::DeepFm, threads - 1), threads);
        assert!(report.tiers.host.evictions > 0);
        assert_eq!(report.model_digest, oracle.model_digest, "{threads} threads");
        assert_eq!(report.eval, oracle.eval, "{threads} threads");
    }
}

#[test]
fn weights_of_16_bits_are_exact() {
    for storage in [Storage::F16, Storage::Bf16] {
        for (dim, optimizer) in
            [(4, RowOptimizerKind::RowWiseAdagrad), (3, RowOptimizerKind::RowWiseAdam)]
        {
            let with = |mut config: Config| {
                config.rows.storage = storage;
                config.model.dim = dim;
                config.optim.rows.kind = optimizer;
                config.optim.rows.weight_decay = Some(0.1);
                config.optim.rows.max_norm = Some(0.01);
                config.data.epochs = 2;
                run(&config)
            };
            let oracle = with(in_memory(ModelKind::DeepFm));
            for (lookahead, mini_batches, threads) in [(0, 1, 2), (2, 8, 1), (8, 1, 2)] {
                let mut config = tiny(ModelKind::DeepFm, lookahead);
                config.data.batch = 64 * mini_batches;
                config.threads = threads;
                let report = with(config);
                let name = format!("{storage:?}, {dim} lanes, lookahead {lookahead}");
                assert_eq!(report.model_digest, oracle.model_digest, "{name}");
                assert_eq!(report.eval_by_epoch, oracle.eval_by_epoch, "{name}");
                assert!(report.tiers.host.evictions > 0, "{name}");
            }
        }
    }
}

/// Few lost bits cost little quality.
#[test]
fn weights_of_16_bits_learn_as_well() {
    let with = |storage| {
        let mut config = in_memory(ModelKind::DeepFm);
        (config.rows.storage, config.data.epochs) = (storage, 2);
        run(&config).eval.logloss.unwrap()
    };
    let [exact, half, upper] = Storage::ALL.map(with);
    assert!(half != exact && upper != exact && half != upper);
    assert!((half - exact).abs() < 2e-3, "{half} {exact}");
    assert!((upper - exact).abs() < 1e-2, "{upper} {exact}");
}

#[test]
fn seeds_and_settings_that_matter_show() {
    let base = run(&in_memory(ModelKind::Lr)).model_digest;
    let differs = |change: fn(&mut Config)| {
        let mut config = in_memory(ModelKind::Lr);
        change(&mut config);
        assert_ne!(run(&config).model_digest, base);
    };
    differs(|config| config.seed = 2);
    differs(|config| config.data.mini_batch = 32);
    differs(|config| config.optim.rows.lr = Some(0.03));
    differs(|config| config.optim.rows.l2 = Some(0.01));
    differs(|config| config.optim.rows.weight_decay = Some(0.1));
    differs(|config| config.optim.rows.clip_norm = Some(0.001));
    differs(|config| config.optim.rows.warmup_steps = 2);
    differs(|config| config.optim.rows.kind = RowOptimizerKind::Frozen);
    differs(|config| config.optim.dense.warmup_steps = 2);
    differs(|config| {
        (config.optim.rows.schedule, config.optim.rows.decay_steps) =
            (ScheduleKind::Cosine, Some(10));
    });
    differs(|config| config.rows.storage = Storage::F16);
}

#[test]
fn a_mini_batch_that_does_not_fit_ends_the_run_with_the_arithmetic() {
    let mut config = tiny(ModelKind::DeepFm, 2);
    config.tiers.dram = Some(ByteCount(40 << 10));
    let error = train(&config, &surroundings(Arc::new(FullSpeed))).unwrap_err().to_string();
    assert!(error.contains("distinct rows") && error.contains("raise tiers.dram"), "{error}");
    let needed: u64 = error
        .split("at least ")
        .nth(1)
        .and_then(|rest| rest.split(';').next())
        .and_then(|number| number.parse().ok())
        .unwrap();
    config.tiers.dram = Some(ByteCount(needed * 3 / 2));
    config.data.epochs = 1;
    assert!(train(&config, &surroundings(Arc::new(FullSpeed))).is_ok());
}

#[test]
fn evaluation_alone_creates_no_row() {
    let mut config = in_memory(ModelKind::DeepFm);
    let without = {
        config.data.eval_fraction = 0.5;
        run(&config)
    };
    // The same training part, and a longer evaluation with untrained keys.
    config.synth.examples = 2800;
    config.data.eval_fraction = 0.75;
    let with = run(&config);
    assert_eq!(without.model_digest, with.model_digest);
    assert_eq!(without.rows, with.rows);
    assert!(with.eval.examples > without.eval.examples);
}
