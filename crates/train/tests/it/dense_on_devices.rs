//! Runs with the dense part on devices give the same model as without: on emulated devices, whose
//! products are the processor's.

#![expect(clippy::unwrap_used, reason = "a failed test panics")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::common::{in_memory, run, surroundings, tiny};
use stepwell_base::ByteCount;
use stepwell_base::stage::FullSpeed;
use stepwell_base::stop::StopRequest;
use stepwell_device::Choice;
use stepwell_engine::Placement;
use stepwell_nn::Precision;
use stepwell_settings::{DensePlace, FeatureConfig, ModelKind, OptimizerKind, TableConfig};
use stepwell_train::{Config, Observer, Report, Snapshot, Surroundings, train};

fn on_devices(config: &Config, devices: usize) -> Config {
    let mut config = config.clone();
    (config.device, config.train.dense) = (Choice::Emulated(devices), DensePlace::Device);
    config.tiers.hbm = Some(ByteCount(16 << 20));
    config
}

fn assert_same(report: &Report, oracle: &Report, name: &str) {
    assert_eq!(report.model_digest, oracle.model_digest, "{name}");
    assert_eq!(report.rows, oracle.rows, "{name}");
    assert_eq!(report.eval_by_epoch, oracle.eval_by_epoch, "{name}");
    assert_eq!(report.progressive_by_epoch, oracle.progressive_by_epoch, "{name}");
}

/// The optimizers take turns, one for each model but `deepfm`; all if `STEPWELL_LONG` is set.
#[test]
fn every_model_and_optimizer_is_exact() {
    let is_long = std::env::var_os("STEPWELL_LONG").is_some();
    for (number, kind) in ModelKind::OF_ANY_DATA.into_iter().enumerate() {
        let all = OptimizerKind::ALL;
        let is_its_turn = |optimizer: &OptimizerKind| {
            kind == ModelKind::DeepFm || is_long || *optimizer == all[number % all.len()]
        };
        for optimizer in all.into_iter().filter(is_its_turn) {
            let with = |mut config: Config| {
                (config.optim.rows.kind, config.optim.dense.kind) = (optimizer.into(), optimizer);
                if kind == ModelKind::DeepFm && optimizer != OptimizerKind::Adagrad {
                    config.optim.dense.l2 = Some(0.01);
                    config.optim.dense.weight_decay = Some(0.5);
                    config.optim.dense.warmup_steps = 5;
                }
                config
            };
            let oracle = run(&with(in_memory(kind)));
            for devices in [1, 3] {
                let mut config = with(tiny(kind, 2));
                config.tiers.dram = Some(ByteCount(400 << 10));
                let report = run(&on_devices(&config, devices));
                assert_same(&report, &oracle, &format!("{kind:?} {optimizer:?} {devices}"));
            }
        }
    }
}

#[test]
fn ranks_and_devices_do_not_show() {
    for (kind, blocks) in [(ModelKind::DeepFm, 8), (ModelKind::Dlrm, 7), (ModelKind::Lr, 5)] {
        let with = |mut config: Config| {
            config.train.blocks = blocks;
            config
        };
        let oracle = run(&with(in_memory(kind)));
        for ranks in [1, 2, 3] {
            for devices in [1, 2, 4] {
                let mut config = with(tiny(kind, 2));
                config.ranks.count = ranks;
                config.tiers.dram = Some(ByteCount(260 << 10));
                let report = run(&on_devices(&config, devices));
                let name = format!("{kind:?}, {ranks} ranks, {devices} devices");
                assert_same(&report, &oracle, &name);
            }
        }
    }
}

/// Embeddings of several dimensions go through projections.
#[test]
fn tables_of_several_dimensions_are_exact() {
    let kinds = [ModelKind::DeepFm, ModelKind::Dlrm, ModelKind::WideDeep, ModelKind::Dcn];
    for kind in kinds.into_iter().chain([ModelKind::MaskNet]) {
        for precision in Precision::ALL {
            let mut config = in_memory(kind);
            config.model.precision = precision;
            let table = |name: &str, dim| TableConfig {
                name: name.to_owned(),
                dim: Some(dim),
                ..TableConfig::default()
            };
            config.tables = vec![table("small", 3), table("large", 6), table("usual", 4)];
            let feature = |number: usize| FeatureConfig {
                columns: vec![format!("C{number}")],
                table: ["usual", "small", "large"][number % 3].to_owned(),
                ..FeatureConfig::default()
            };
            config.features = (1..=26).map(feature).collect();
            let oracle = run(&config);
            for devices in [1, 2] {
                let report = run(&on_devices(&config, devices));
                assert_same(&report, &oracle, &format!("{kind:?} {precision:?} {devices}"));
            }
        }
    }
}

/// Asks for a stop after a number of mini-batches.
struct Stopper(StopRequest, u64, AtomicU64);

impl Observer for Stopper {
    fn progress(&self, _: &Snapshot) {
        if self.2.fetch_add(1, Ordering::Relaxed) + 1 == self.1 {
            self.0.make();
        }
    }
}

/// Continues for `after` mini-batches, or to the end.
fn go_on(config: &Config, after: Option<u64>) -> Report {
    let stop = StopRequest::new();
    let observer = Stopper(stop.clone(), after.unwrap_or(u64::MAX), AtomicU64::new(0));
    let placement = Placement::ResumeOrStart;
    let around = surroundings(Arc::new(FullSpeed));
    let observer = Arc::new(observer);
    train(config, &Surroundings { observer, stop, placement, ..around }).unwrap()
}

#[test]
fn a_run_goes_on_on_devices_and_back_on_the_host() {
    for optimizer in [OptimizerKind::Adagrad, OptimizerKind::Adam] {
        for ranks in [1, 2] {
            let with = |mut config: Config| {
                config.optim.dense.kind = optimizer;
                config
            };
            let oracle = run(&with(in_memory(ModelKind::DeepFm)));
            let home = tempfile::tempdir().unwrap();
            let mut host = with(tiny(ModelKind::DeepFm, 2));
            host.checkpoint.dir = Some(home.path().to_owned());
            (host.ranks.count, host.tiers.dram) = (ranks, Some(ByteCount(400 << 10)));
            assert!(go_on(&host, Some(5)).interrupted);
            assert!(go_on(&on_devices(&host, 2), Some(6)).interrupted);
            assert!(go_on(&host, Some(4)).interrupted);
            let report = go_on(&on_devices(&host, 1), None);
            assert_eq!(report.model_digest, oracle.model_digest, "{optimizer:?}, {ranks} ranks");
            assert_eq!((report.rows, report.eval), (oracle.rows, oracle.eval), "{optimizer:?}");
        }
    }
}

/// Clipped gradients, the mean of the parameters, dropped lanes and the state of normalizations,
/// also when a run goes on elsewhere.
#[test]
fn what_training_adds_is_exact() {
    let with = |mut config: Config| {
        (config.optim.dense.clip_norm, config.optim.dense.ema) = (Some(0.01), Some(0.9));
        (config.model.dropout, config.tiers.dram) = (0.2, Some(ByteCount(400 << 10)));
        config
    };
    for kind in [ModelKind::DeepFm, ModelKind::Mmoe] {
        let with = |config| {
            let mut config = with(config);
            config.model.batch_norm = kind == ModelKind::Mmoe;
            config
        };
        let oracle = run(&Config { tiers: in_memory(kind).tiers, ..with(in_memory(kind)) });
        for (devices, ranks) in [(1, 1), (3, 1), (2, 2)] {
            let mut config = with(tiny(kind, 2));
            config.ranks.count = ranks;
            let report = run(&on_devices(&config, devices));
            assert_same(&report, &oracle, &format!("{kind:?}: {devices} devices, {ranks} ranks"));
        }
        let home = tempfile::tempdir().unwrap();
        let mut config = with(tiny(kind, 2));
        config.checkpoint.dir = Some(home.path().to_owned());
        assert!(go_on(&on_devices(&config, 2), Some(5)).interrupted);
        assert!(go_on(&config, Some(5)).interrupted);
        let report = go_on(&on_devices(&config, 1), None);
        assert_eq!(report.model_digest, oracle.model_digest, "{kind:?}, interrupted");
    }
}
