//! Rows on devices do not change the model: emulated ones with few slots, above few slots in
//! memory, above a disk.

#![expect(clippy::unwrap_used, reason = "a failed test panics")]

use std::sync::{Arc, OnceLock};

use crate::common::{in_memory, run, surroundings, tiny};
use stepwell_base::ByteCount;
use stepwell_base::stage::FullSpeed;
use stepwell_device::{Choice, Device, Offer, Wanted, emulated};
use stepwell_engine::{Lookup, Placement};
use stepwell_optim::Storage;
use stepwell_settings::RowOptimizerKind::{Adagrad, Adam, RowWiseAdam, Sgd};
use stepwell_settings::{
    DensePlace, ExchangeKind, FeatureConfig, ModelKind, OptimizerKind, PlaceKind, RowOptimizerKind,
    RowsConfig, TableConfig,
};
use stepwell_train::{
    Config, Devices, Error, Expected, Machine, Observer, Report, Snapshot, Surroundings, plan,
    train,
};

/// `config` on `devices` emulated devices, with `slots` slots for each table group in total.
fn on_devices(config: &Config, devices: usize, slots: u64) -> Config {
    let mut config = config.clone();
    config.device = Choice::Emulated(devices);
    let room = plan(&config, &Expected::default()).unwrap().devices.unwrap();
    let bytes_all = room.rows.rows_bytes + room.rows.tables_bytes;
    let slots_all = room.rows.slots.iter().sum::<usize>() as u64;
    let wanted = (bytes_all * slots).div_ceil(slots_all * devices as u64);
    // Bytes of each group besides its slots, and of its hash table.
    let beside = [16, 568][usize::from(config.tiers.lookup == Lookup::Table)];
    let hbm = room.rows.moving_bytes + wanted + beside * room.rows.slots.len() as u64;
    config.tiers.hbm = Some(ByteCount(hbm));
    config
}

/// `config` with steps that find rows by `lookup`.
fn finding(lookup: Lookup, mut config: Config) -> Config {
    config.tiers.lookup = lookup;
    config
}

fn assert_same(report: &Report, oracle: &Report, name: &str) {
    assert_eq!(report.model_digest, oracle.model_digest, "{name}");
    assert_eq!(report.rows, oracle.rows, "{name}");
    assert_eq!(report.eval_by_epoch, oracle.eval_by_epoch, "{name}");
    assert_eq!(report.progressive_by_epoch, oracle.progressive_by_epoch, "{name}");
    let reports = report.by_rank.iter().map(|rank| &rank.tiers);
    for tiers in reports.chain([&report.tiers]) {
        let device = &tiers.device.as_ref().unwrap().count;
        assert!(device.fills > 0 && device.bytes_up > 0 && device.bytes_down > 0, "{name}");
    }
}

#[test]
fn neither_devices_nor_lookahead_nor_batches_show() {
    let oracle = run(&in_memory(ModelKind::DeepFm));
    assert!(oracle.tiers.device.is_none());
    for devices in [1, 2, 4] {
        for (lookahead, mini_batches) in [(0, 1), (1, 8), (8, 1)] {
            for lookup in Lookup::ALL {
                let mut config = finding(lookup, tiny(ModelKind::DeepFm, lookahead));
                config.data.batch = 64 * mini_batches;
                let report = run(&on_devices(&config, devices, 1200));
                let name = format!("{devices} devices, {lookup:?}, {lookahead}, {mini_batches}");
                assert_same(&report, &oracle, &name);
                let host = &report.tiers.host;
                assert!(host.evictions > 0 && host.refilled > 0, "{name}: {host:?}");
            }
        }
    }
}

/// The optimizers take turns, one for each model but `deepfm`; all if `STEPWELL_LONG` is set.
#[test]
fn every_optimizer_and_model_is_exact() {
    let all = [Sgd, Adagrad, Adam];
    let is_long = std::env::var_os("STEPWELL_LONG").is_some();
    for (number, kind) in ModelKind::OF_ANY_DATA.into_iter().enumerate() {
        let of_model: &[RowOptimizerKind] = match kind {
            ModelKind::DeepFm => &RowOptimizerKind::ALL,
            _ if is_long => &all,
            _ => std::slice::from_ref(&all[number % 3]),
        };
        for optimizer in of_model {
            let with = |mut config: Config| {
                config.optim.rows.kind = *optimizer;
                let is_plain = *optimizer == Adagrad || kind != ModelKind::DeepFm;
                config.optim.rows.l2 = (!is_plain).then_some(0.1);
                config.optim.rows.weight_decay = (!is_plain).then_some(0.5);
                config.data.epochs = 2;
                config
            };
            let oracle = run(&with(in_memory(kind)));
            let mut config = with(tiny(kind, 2));
            config.tiers.dram = Some(ByteCount(260 << 10));
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
                (config.rows.storage, config.model.dim) = (storage, dim);
                config.optim.rows.kind = optimizer.into();
                config
            };
            let oracle = run(&with(in_memory(ModelKind::DeepFm)));
            for (devices, lookup) in [(1, Lookup::Table), (3, Lookup::Slots), (3, Lookup::Table)] {
                let config = finding(lookup, with(tiny(ModelKind::DeepFm, 2)));
                let name = format!("{storage:?}, {devices} devices, {lookup:?}");
                assert_same(&run(&on_devices(&config, devices, 1200)), &oracle, &name);
            }
        }
    }
}

/// If devices have too few slots for a mini-batch, the rest of its rows stays on the host.
#[test]
fn a_mini_batch_may_have_more_rows_than_devices() {
    for (number, optimizer) in [OptimizerKind::Sgd, OptimizerKind::Adam].into_iter().enumerate() {
        let with = |mut config: Config| {
            config.optim.rows.kind = optimizer.into();
            config.data.epochs = 2;
            (config.rows.storage, config.pipeline.staleness) =
                ([Storage::F32, Storage::Bf16][number], number);
            config.rows.expire_after = 9 * number as u64;
            config
        };
        let oracle = run(&with(in_memory(ModelKind::DeepFm)));
        for (devices, lookahead, slots) in [(1, 0, 1), (1, 3, 300), (2, 8, 40), (3, 2, 500)] {
            let lookup = Lookup::ALL[(lookahead + number) % 2];
            let mut config = finding(lookup, with(tiny(ModelKind::DeepFm, lookahead)));
            config.tiers.dram = Some(ByteCount(200 << 10));
            let report = run(&on_devices(&config, devices, slots));
            assert_same(&report, &oracle, &format!("{devices} devices of {slots} slots"));
            assert!(
                report.tiers.device.unwrap().count.below > 0,
                "{devices} devices of {slots} slots"
            );
        }
    }
}

/// The host updates rows that no kernel updates, wherever the dense part is.
#[test]
fn clipped_and_bounded_rows_are_exact() {
    for (kind, place) in [(Adagrad, DensePlace::Host), (RowWiseAdam, DensePlace::Device)] {
        let with = |mut config: Config| {
            (config.optim.rows.kind, config.train.dense) = (kind, place);
            config.optim.rows.clip_norm = Some(1e-4);
            config.optim.rows.max_norm = Some(0.02);
            config.data.epochs = 2;
            config
        };
        let mut oracle = with(in_memory(ModelKind::DeepFm));
        oracle.train.dense = DensePlace::Host;
        let oracle = run(&oracle);
        for devices in [1, 2] {
            let report = run(&on_devices(&with(tiny(ModelKind::DeepFm, 2)), devices, 1200));
            assert_same(&report, &oracle, &format!("{kind:?} on {devices} devices"));
        }
    }
}

#[test]
fn lives_and_staleness_are_exact() {
    let lives: [fn(&mut RowsConfig); 3] = [
        |life| life.admit_after = 2,
        |life| life.expire_after = 7,
        |life| (life.admit_probability, life.expire_after) = (0.3, 12),
    ];
    for (number, life) in lives.into_iter().enumerate() {
        for staleness in [0, 3] {
            let with = |mut config: Config| {
                life(&mut config.rows);
                config.pipeline.staleness = staleness;
                config.data.epochs = 2;
                config
            };
            let oracle = run(&with(in_memory(ModelKind::DeepFm)));
            for lookup in Lookup::ALL {
                let mut config = finding(lookup, with(tiny(ModelKind::DeepFm, 3)));
                config.tiers.dram = Some(ByteCount(200 << 10));
                let report = run(&on_devices(&config, 2, 1100));
                let name = format!("life {number}, staleness {staleness}, {lookup:?}");
                assert_same(&report, &oracle, &name);
            }
        }
    }
}

#[test]
fn ranks_have_devices_of_their_own() {
    let oracle = run(&in_memory(ModelKind::DeepFm));
    for (ranks, devices) in [(2, 2), (3, 1)] {
        for (lends, lookup) in
            [false, true].into_iter().flat_map(|lends| Lookup::ALL.map(|lookup| (lends, lookup)))
        {
            let mut config = finding(lookup, tiny(ModelKind::DeepFm, 2));
            config.ranks.count = ranks;
            if lends {
                config.ranks.exchange = ExchangeKind::WorkingSet;
                config.data.batch = 64 * 8;
            }
            let report = run(&on_devices(&config, devices, 1200));
            let name = format!("{ranks} ranks of {devices}, lends: {lends}, {lookup:?}");
            assert_same(&report, &oracle, &name);
            assert_eq!(report.by_rank.len(), ranks);
        }
    }
}

/// Groups of rows with different parts: 'wide' and 'broad' share one, and 'kept' is entirely in
/// memory.
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
        let other =
            TableConfig { optimizer: Some(OptimizerKind::Adam.into()), ..table("other", 3) };
        config.tables = vec![table("wide", 0), other, kept, table("broad", 0)];
        config.features = vec![
            feature("wide", "C15-C20"),
            feature("other", "C1-C14"),
            feature("broad", "C21-C24"),
            feature("kept", "C25-C26"),
        ];
        config
    };
    let oracle = run(&with(in_memory(ModelKind::WideDeep), PlaceKind::Tiers));
    for (devices, lookup) in [(1, Lookup::Slots), (1, Lookup::Table), (3, Lookup::Table)] {
        let mut config = with(tiny(ModelKind::WideDeep, 2), PlaceKind::Memory);
        config.tiers.dram = Some(ByteCount(400 << 10));
        let report = run(&on_devices(&finding(lookup, config), devices, 2400));
        assert_same(&report, &oracle, &format!("{devices} devices, {lookup:?}"));
    }
}

/// Fault of the first emulated device.
#[derive(Clone, Copy, Debug)]
enum Fault {
    None,
    /// A launch of this kernel fails, after a number of launches.
    Launch(&'static str, u64),
    /// The device is lost once this many examples were trained on.
    Lost(u64),
    /// The device has less memory than offered.
    NoMemory,
}

/// Emulated devices that fail.
struct Failing {
    fault: Fault,
    machine: OnceLock<Arc<emulated::Machine>>,
}

impl Devices for Failing {
    fn open(&self, offer: &Offer, wanted: Wanted) -> Result<Vec<Device>, String> {
        let lacks = if matches!(self.fault, Fault::NoMemory) { 1000 } else { 0 };
        let machine = emulated::Machine::new(emulated::Settings {
            devices: offer.len(),
            memory_bytes: wanted.memory_bytes - lacks,
            pinned_bytes: wanted.pinned_bytes,
            ..emulated::Settings::default()
        });
        if let Fault::Launch(kernel, launches) = self.fault {
            machine.fail_launch(0, kernel, launches);
        }
        Ok(self.machine.get_or_init(|| Arc::new(machine)).devices().to_vec())
    }
}

/// Loses the device at the given time.
struct Loses(Arc<Failing>);

impl Observer for Loses {
    fn progress(&self, snapshot: &Snapshot) {
        if let (Fault::Lost(after), Some(machine)) = (self.0.fault, self.0.machine.get())
            && snapshot.examples >= after
        {
            machine.lose(0);
        }
    }
}

fn around(fault: Fault, placement: Placement) -> Surroundings {
    let devices = Arc::new(Failing { fault, machine: OnceLock::new() });
    let machine = Machine { devices: Arc::clone(&devices) as _, ..Machine::default() };
    let observer = Arc::new(Loses(devices));
    Surroundings { observer, machine, placement, ..surroundings(Arc::new(FullSpeed)) }
}

/// A run whose device fails ends with one line, and continues from its last checkpoint: on the
/// host, and then on other devices.
#[test]
fn a_device_that_fails_leaves_checkpoints_that_anybody_goes_on_from() {
    let mut oracle = in_memory(ModelKind::DeepFm);
    oracle.data.epochs = 3;
    let oracle = run(&oracle);
    let faults = [
        (Fault::NoMemory, "emulated:0: no room for "),
        (Fault::Lost(1000), "emulated:0 is lost: it has fallen off the bus"),
        (Fault::Launch("rows_step", 15), "emulated:0: kernel rows_step failed: an illegal"),
        (Fault::Launch("rows_up", 20), "emulated:0: kernel rows_up failed: an illegal"),
        (Fault::Launch("rows_down", 15), "emulated:0: kernel rows_down failed: an illegal"),
        (Fault::Launch("rows_read", 25), "emulated:0: kernel rows_read failed: an illegal"),
        (Fault::Launch("table_get", 25), "emulated:0: kernel table_get failed: an illegal"),
        (Fault::Launch("table_remove", 5), "emulated:0: kernel table_remove failed: an illegal"),
    ];
    for (number, (fault, says)) in faults.into_iter().enumerate() {
        let home = tempfile::tempdir().unwrap();
        let mut config = tiny(ModelKind::DeepFm, 2);
        config.data.epochs = 3;
        config.checkpoint.dir = Some(home.path().to_owned());
        config.checkpoint.every = 5;
        let of_table = matches!(fault, Fault::Launch(kernel, _) if kernel.starts_with("table_"));
        let config = finding(Lookup::ALL[usize::from(of_table)], config);
        let devices = on_devices(&config, 1 + number % 2, 1200);
        let error = train(&devices, &around(fault, Placement::Fresh)).unwrap_err();
        assert!(matches!(error, Error::Device { saves: true, .. }), "{fault:?}: {error:?}");
        let error = error.to_string();
        assert!(error.starts_with(says) && error.contains("--resume"), "{fault:?}: {error}");
        assert_eq!(error.lines().count(), 1);
        // On the host up to the next epoch's end; then on devices.
        let until = |config: &Config, epochs: u64| {
            let mut config = config.clone();
            config.data.epochs = epochs;
            train(&config, &around(Fault::None, Placement::ResumeOrStart)).unwrap()
        };
        until(&config, 2);
        let report = until(&devices, 3);
        assert_eq!(report.model_digest, oracle.model_digest, "{fault:?}");
        assert_eq!(report.eval, oracle.eval, "{fault:?}");
    }
}
