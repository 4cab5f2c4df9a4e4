//! Tables of which only the most used rows go to devices: the model is the same, and those rows are
//! in the right place.

#![expect(clippy::unwrap_used, reason = "a failed test panics")]

use crate::common::{in_memory, run, tiny};
use stepwell_base::ByteCount;
use stepwell_device::Choice;
use stepwell_engine::{DeviceCount, Lookup};
use stepwell_optim::Storage;
use stepwell_settings::{
    DensePlace, EMBEDDING, FeatureConfig, ModelKind, OptimizerKind, PlaceKind, TableConfig,
};
use stepwell_train::{Config, Expected, Report, plan};

/// `config` with rows of all tables, or of the named ones, on emulated devices by use.
fn by_use(config: &Config, devices: usize, warm_up: usize, names: &[&str]) -> Config {
    let mut config = config.clone();
    if config.tables.is_empty() {
        config.tables.push(TableConfig::named(EMBEDDING));
    }
    let is_named = |table: &&mut TableConfig| names.is_empty() || names.contains(&&*table.name);
    config.tables.iter_mut().filter(is_named).for_each(|table| table.place = PlaceKind::Device);
    config.device = Choice::Emulated(devices);
    config.tiers.warm_up = warm_up;
    config
}

fn count(report: &Report) -> DeviceCount {
    report.tiers.device.as_ref().unwrap().count
}

fn assert_same(report: &Report, oracle: &Report, name: &str) {
    assert_eq!(report.model_digest, oracle.model_digest, "{name}");
    assert_eq!(report.rows, oracle.rows, "{name}");
    assert_eq!(report.eval_by_epoch, oracle.eval_by_epoch, "{name}");
}

/// Gives each device room for `kib` KiB of rows.
fn give(config: &mut Config, kib: u64) {
    config.tiers.hbm = Some(ByteCount(1 << 30));
    let rows = plan(config, &Expected::default()).unwrap().devices.unwrap().rows;
    let beside = rows.device_bytes() - rows.rows_bytes;
    config.tiers.hbm = Some(ByteCount(beside + (kib << 10)));
}

#[test]
fn a_warm_up_does_not_show() {
    for (kind, optimizer) in [
        (ModelKind::DeepFm, OptimizerKind::Adagrad),
        (ModelKind::Dcn, OptimizerKind::Adam),
        (ModelKind::Lr, OptimizerKind::Sgd),
    ] {
        let with = |mut config: Config| {
            config.optim.rows.kind = optimizer.into();
            config
        };
        let oracle = run(&with(in_memory(kind)));
        for (devices, lookahead, warm_up, lookup) in [
            (1, 0, 3, Lookup::Slots),
            (1, 2, 10, Lookup::Table),
            (2, 8, 1, Lookup::Slots),
            (4, 2, 20, Lookup::Table),
            // The warm-up never ends.
            (1, 2, 1000, Lookup::Slots),
        ] {
            let mut config = by_use(&with(tiny(kind, lookahead)), devices, warm_up, &[]);
            config.tiers.dram = Some(ByteCount(300 << 10));
            config.tiers.lookup = lookup;
            give(&mut config, 30);
            let name = format!("{kind:?}, {devices} devices, {lookahead} ahead, {warm_up}");
            let report = run(&config);
            assert_same(&report, &oracle, &name);
            let DeviceCount { hits, fills, below, .. } = count(&report);
            assert!(below > 0, "{name}");
            assert_eq!(warm_up < 1000, hits > 0 && fills > 0, "{name}: {hits} hits, {fills} fills");
        }
    }
}

/// After the warm-up, a frequently used row is lifted once and stays; others are never lifted.
#[test]
fn rows_that_are_used_most_stay_there() {
    let mut config = in_memory(ModelKind::DeepFm);
    config.synth.examples *= 4;
    let oracle = run(&config);
    let mut config = by_use(&config, 1, 20, &[]);
    give(&mut config, 30);
    let by_use = run(&config);
    config.tables.clear();
    let all = run(&config);
    assert_same(&by_use, &oracle, "by use");
    assert_same(&all, &oracle, "all");
    let slots = by_use.tiers.device.as_ref().unwrap().slots;
    let (by_use, all) = (count(&by_use), count(&all));
    assert!(by_use.fills <= slots, "{by_use:?} in {slots} slots");
    assert!(by_use.hits > 10 * by_use.fills, "{by_use:?}");
    // Most rows of a mini-batch are not worth lifting and lowering.
    assert!(all.fills > 10 * by_use.fills, "{all:?} {by_use:?}");
}

/// One table goes by use, others as usual; rows in 16 bits, and rows whose history the host
/// decides.
#[test]
fn other_tables_are_as_they_were() {
    let feature = |table: &str, columns: &str| FeatureConfig {
        columns: vec![columns.to_owned()],
        table: table.to_owned(),
        ids: 1,
        ..FeatureConfig::default()
    };
    for storage in Storage::ALL {
        let with = |mut config: Config| {
            config.rows.storage = storage;
            let other =
                TableConfig { dim: Some(6), admit_after: Some(2), ..TableConfig::named("other") };
            config.tables = vec![TableConfig::named("one"), other, TableConfig::named("same")];
            config.features = vec![
                feature("one", "C1-C10"),
                feature("other", "C11-C18"),
                feature("same", "C19-C26"),
            ];
            config
        };
        let oracle = run(&with(in_memory(ModelKind::WideDeep)));
        for names in [&["one"][..], &["other"], &["one", "other"], &["one", "other", "same"]] {
            for devices in [1, 3] {
                let mut config = with(tiny(ModelKind::WideDeep, 2));
                config.tiers.dram = Some(ByteCount(600 << 10));
                let mut config = by_use(&config, devices, 5, names);
                give(&mut config, 40);
                let report = run(&config);
                assert_same(&report, &oracle, &format!("{storage:?} {names:?} {devices}"));
            }
        }
    }
}

/// With ranks, with the dense part on devices, and with so little memory that all rows leave the
/// devices now and then.
#[test]
fn ranks_and_the_dense_part_do_not_show() {
    let oracle = run(&in_memory(ModelKind::DeepFm));
    for (ranks, devices, dense, dram) in [
        (2, 2, DensePlace::Host, 200),
        (3, 1, DensePlace::Host, 160),
        (1, 2, DensePlace::Device, 300),
        (2, 2, DensePlace::Device, 300),
    ] {
        let mut config = tiny(ModelKind::DeepFm, 2);
        config.tiers.dram = Some(ByteCount(dram << 10));
        let mut config = by_use(&config, devices, 4, &[]);
        config.ranks.count = ranks;
        config.train.dense = dense;
        give(&mut config, 40);
        let report = run(&config);
        assert_same(&report, &oracle, &format!("{ranks} ranks, {devices} devices, {dense:?}"));
    }
}
