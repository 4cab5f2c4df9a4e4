//! If the dense part and all rows of a mini-batch are on devices, rows are pooled and updated
//! there, with the bits of the processor.

#![expect(clippy::unwrap_used, reason = "a failed test panics")]

use crate::common::{in_memory, run, tiny};
use stepwell_base::ByteCount;
use stepwell_device::Choice;
use stepwell_engine::{Lookup, Pooling};
use stepwell_optim::Storage;
use stepwell_settings::{DensePlace, FeatureConfig, ModelKind, OptimizerKind, TableConfig};
use stepwell_train::{Config, Expected, Report, plan};

fn on_devices(config: &Config, devices: usize, hbm: ByteCount) -> Config {
    let mut config = config.clone();
    (config.device, config.train.dense) = (Choice::Emulated(devices), DensePlace::Device);
    config.tiers.hbm = Some(hbm);
    config
}

/// Mini-batches pooled on devices, and rows that stayed on the host.
fn pooled(report: &Report) -> (u64, u64) {
    let count = &report.tiers.device.as_ref().unwrap().count;
    (count.pooled, count.below)
}

fn assert_same(report: &Report, oracle: &Report, name: &str) {
    assert_eq!(report.model_digest, oracle.model_digest, "{name}");
    assert_eq!(report.rows, oracle.rows, "{name}");
    assert_eq!(report.eval_by_epoch, oracle.eval_by_epoch, "{name}");
    assert_eq!(report.progressive_by_epoch, oracle.progressive_by_epoch, "{name}");
}

const ROOM: ByteCount = ByteCount(16 << 20);

#[test]
fn every_storage_and_way_to_look_up_is_exact() {
    for storage in Storage::ALL {
        for (kind, optimizer) in [
            (ModelKind::DeepFm, OptimizerKind::Adam),
            (ModelKind::Dlrm, OptimizerKind::Adagrad),
            (ModelKind::Lr, OptimizerKind::Sgd),
        ] {
            let mut config = in_memory(kind);
            (config.rows.storage, config.optim.rows.kind) = (storage, optimizer.into());
            config.optim.rows.warmup_steps = 5;
            let oracle = run(&config);
            for (devices, lookup, lookahead) in [
                (1, Lookup::Slots, 0),
                (1, Lookup::Table, 2),
                (2, Lookup::Table, 0),
                (3, Lookup::Slots, 8),
            ] {
                config.tiers.lookup = lookup;
                config.pipeline.lookahead = lookahead;
                config.pipeline.horizon = lookahead;
                let report = run(&on_devices(&config, devices, ROOM));
                let name = format!("{kind:?} {storage:?} {devices} {lookup:?} {lookahead}");
                assert_same(&report, &oracle, &name);
                let (pooled, below) = pooled(&report);
                assert!(pooled >= 20 && below == 0, "{name}: {pooled} pooled, {below} below");
            }
        }
    }
}

/// If some mini-batches have rows on the host, some are pooled and others visit.
#[test]
fn mini_batches_may_go_either_way() {
    for (kind, optimizer) in
        [(ModelKind::DeepFm, OptimizerKind::Adam), (ModelKind::Dcn, OptimizerKind::Adagrad)]
    {
        let with = |mut config: Config| {
            config.optim.rows.kind = optimizer.into();
            config
        };
        let oracle = run(&with(in_memory(kind)));
        let mut ways = [0, 0];
        for devices in [1, 2] {
            let mut config = with(tiny(kind, 2));
            config.tiers.dram = Some(ByteCount(300 << 10));
            let room = plan(&on_devices(&config, devices, ROOM), &Expected::default())
                .unwrap()
                .devices
                .unwrap()
                .rows;
            let moving = room.moving_bytes + room.pooling_bytes();
            for rows in (20..60).step_by(8).map(|kib| (kib << 10) / devices as u64) {
                let config = on_devices(&config, devices, ByteCount(moving + rows));
                let report = run(&config);
                assert_same(&report, &oracle, &format!("{kind:?} {devices} {rows}"));
                let (pooled, below) = pooled(&report);
                ways[0] += u64::from(pooled > 0 && below > 0);
                ways[1] += 1;
            }
        }
        assert!(ways[0] > 0 && ways[1] > 4, "{kind:?}: {ways:?}");
    }
}

/// Bags of several rows that are averaged or weighted, in separate tables.
#[test]
fn bags_of_several_rows_in_several_tables_are_exact() {
    let mut config = in_memory(ModelKind::WideDeep);
    let table = |name: &str, dim, storage| TableConfig {
        name: name.to_owned(),
        dim: Some(dim),
        storage: Some(storage),
        ..TableConfig::default()
    };
    config.tables = vec![
        table("one", 4, Storage::F32),
        table("other", 8, Storage::Bf16),
        table("third", 5, Storage::F32),
    ];
    let feature = |number: usize| FeatureConfig {
        columns: (0..2).map(|at| format!("C{}", 2 * number + at + 1)).collect(),
        table: ["one", "other", "third"][number % 3].to_owned(),
        pooling: [Pooling::Sum, Pooling::Mean][number % 2],
        ..FeatureConfig::default()
    };
    config.features = (0..13).map(feature).collect();
    let oracle = run(&config);
    for devices in [1, 2, 4] {
        let report = run(&on_devices(&config, devices, ROOM));
        assert_same(&report, &oracle, &format!("{devices} devices"));
        assert!(pooled(&report).0 >= 20);
    }
}

/// Stale rows, and rows shared with other ranks, visit the host.
#[test]
fn stale_reads_and_ranks_are_exact() {
    for (staleness, ranks) in [(2, 1), (0, 2)] {
        let mut config = in_memory(ModelKind::DeepFm);
        (config.pipeline.staleness, config.ranks.count) = (staleness, ranks);
        let oracle = run(&config);
        let report = run(&on_devices(&config, 2, ROOM));
        assert_same(&report, &oracle, &format!("staleness {staleness}, {ranks} ranks"));
        assert_eq!(pooled(&report).0, 0);
    }
}
