//! Rows on devices do not show in the model: emulated ones, of few slots, above few slots in memory
//! above a disk.

#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

mod common;

use common::{in_memory, run, tiny};
use stepwell_base::ByteCount;
use stepwell_device::Choice;
use stepwell_optim::Storage;
use stepwell_settings::{
    ExchangeKind, FeatureConfig, LifeConfig, ModelKind, OptimizerKind, PlaceKind, TableConfig,
};
use stepwell_train::{Config, Report, plan};

/// The same on `devices` emulated devices, which together have so many slots of each table group together.
fn on_devices(config: &Config, devices: usize, slots: u64) -> Config {
    let mut config = config.clone();
    config.device = Choice::Emulated(devices);
    let room = plan(&config).unwrap().devices.unwrap();
    let bytes_all = room.rows.rows_bytes;
    let slots_all = room.rows.slots.iter().sum::<usize>() as u64;
    let wanted = (bytes_all * slots).div_ceil(slots_all * devices as u64);
    let hbm = room.rows.moving_bytes + wanted + 64;
    config.tiers.hbm = Some(ByteCount(hbm));
    config
}

fn assert_same(report: &Report, oracle: &Report, name: &str) {
    assert_eq!(report.model_digest, oracle.model_digest, "{name}");
    assert_eq!(report.rows, oracle.rows, "{name}");
    assert_eq!(report.eval_by_epoch, oracle.eval_by_epoch, "{name}");
    assert_eq!(report.progressive_by_epoch, oracle.progressive_by_epoch, "{name}");
    let reports = report.by_rank.iter().map(|rank| &rank.tiers);
    for tiers in reports.chain([&report.tiers]) {
        let device = tiers.device.as_ref().unwrap();
        assert!(device.fills > 0 && device.bytes_up > 0 && device.bytes_down > 0, "{name}");
    }
}

#[test]
fn neither_devices_nor_lookahead_nor_batches_show() {
    let oracle = run(&in_memory(ModelKind::DeepFm));
    assert!(oracle.tiers.device.is_none());
    for devices in [1, 2, 4] {
        for (lookahead, mini_batches) in [(0, 1), (1, 8), (8, 1)] {
            let mut config = tiny(ModelKind::DeepFm, lookahead);
            config.data.batch = 64 * mini_batches;
            let report = run(&on_devices(&config, devices, 1200));
            let name = format!("{devices} devices, lookahead {lookahead}, {mini_batches}");
            assert_same(&report, &oracle, &name);
            let host = &report.tiers.host;
            assert!(host.evictions > 0 && host.refilled > 0, "{name}: {host:?}");
        }
    }
}

#[test]
fn every_optimizer_and_model_is_exact() {
    for kind in ModelKind::ALL {
        for optimizer in [OptimizerKind::Sgd, OptimizerKind::Adagrad, OptimizerKind::Adam] {
            let with = |mut config: Config| {
                (config.rows.kind, config.dense.kind) = (optimizer, optimizer);
                config.data.epochs = 2;
                config
            };
            let oracle = run(&with(in_memory(kind)));
            let mut config = with(tiny(kind, 2));
            config.tiers.dram = ByteCount(260 << 10);
            let name = format!("{kind:?} {optimizer:?}");
            assert_same(&run(&on_devices(&config, 2, 1100)), &oracle, &name);
        }
    }
}

#[test]
fn weights_of_16_bits_are_exact() {
    for storage in [Storage::F16, Storage::Bf16] {
        for (dim, optimizer) in [(4, OptimizerKind::Adagrad), (3, OptimizerKind::Adam)] {
            let with = |mut config: Config| {
                (config.storage, config.model.dim) = (storage, dim);
                config.rows.kind = optimizer;
                config
            };
            let oracle = run(&with(in_memory(ModelKind::DeepFm)));
            for devices in [1, 3] {
                let config = on_devices(&with(tiny(ModelKind::DeepFm, 2)), devices, 1200);
                assert_same(&run(&config), &oracle, &format!("{storage:?}, {devices} devices"));
            }
        }
    }
}

/// Rows that come to exist later and cease to, and reads that are stale.
#[test]
fn lives_and_staleness_are_exact() {
    let lives: [fn(&mut LifeConfig); 3] = [
        |life| life.admit_after = 2,
        |life| life.expire_after = 7,
        |life| (life.admit_probability, life.expire_after) = (0.3, 12),
    ];
    for (number, life) in lives.into_iter().enumerate() {
        for staleness in [0, 3] {
            let with = |mut config: Config| {
                life(&mut config.life);
                config.staleness = staleness;
                config.data.epochs = 2;
                config
            };
            let oracle = run(&with(in_memory(ModelKind::DeepFm)));
            let mut config = with(tiny(ModelKind::DeepFm, 3));
            config.tiers.dram = ByteCount(200 << 10);
            let report = run(&on_devices(&config, 2, 1100));
            assert_same(&report, &oracle, &format!("life {number}, staleness {staleness}"));
        }
    }
}

#[test]
fn ranks_have_devices_of_their_own() {
    let oracle = run(&in_memory(ModelKind::DeepFm));
    for (ranks, devices) in [(2, 2), (3, 1)] {
        for lends in [false, true] {
            let mut config = tiny(ModelKind::DeepFm, 2);
            config.ranks.count = ranks;
            if lends {
                config.ranks.exchange = ExchangeKind::WorkingSet;
                config.data.batch = 64 * 8;
            }
            let report = run(&on_devices(&config, devices, 1200));
            let name = format!("{ranks} ranks of {devices} devices, lends: {lends}");
            assert_same(&report, &oracle, &name);
            assert_eq!(report.by_rank.len(), ranks);
        }
    }
}

/// Groups of rows of different parts, one of them in memory whole.
#[test]
fn groups_share_devices() {
    let feature = |table: &str, columns: &str| FeatureConfig {
        columns: vec![columns.to_owned()],
        table: table.to_owned(),
        ids: 1,
        ..FeatureConfig::default()
    };
    let with = |mut config: Config, place| {
        let table = |name: &str, dim| TableConfig { dim: Some(dim), ..TableConfig::named(name) };
        let dram = (place == PlaceKind::Memory).then_some(ByteCount(200 << 10));
        let kept = TableConfig { place, dram, ..table("kept", 6) };
        let other = TableConfig { optimizer: Some(OptimizerKind::Adam), ..table("other", 3) };
        config.tables = vec![table("wide", 0), other, kept];
        config.features = vec![
            feature("other", "C1-C14"),
            feature("wide", "C15-C24"),
            feature("kept", "C25-C26"),
        ];
        config
    };
    let oracle = run(&with(in_memory(ModelKind::WideDeep), PlaceKind::Tiers));
    for devices in [1, 3] {
        let mut config = with(tiny(ModelKind::WideDeep, 2), PlaceKind::Memory);
        config.tiers.dram = ByteCount(400 << 10);
        let report = run(&on_devices(&config, devices, 2400));
        assert_same(&report, &oracle, &format!("{devices} devices"));
    }
}
