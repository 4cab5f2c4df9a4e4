//! The dense part on emulated devices has the bits of the processor for every model.

mod interactions;

use std::sync::Arc;
use std::time::Duration;

use stepwell_base::Key;
use stepwell_base::clock::SystemClock;
use stepwell_base::random::Stream;
use stepwell_device::emulated::{Machine, Settings, Time};
use stepwell_device::{Device, PlainProducts};
use stepwell_engine::{Bags, Dense};
use stepwell_nn::{
    GraphBuilder, Image, InputShape, Loss, Pool, Pooling, Precision, Source, Window,
};
use stepwell_settings::{ColumnConfig, ColumnType, Config, ModelKind, OptimizerKind};

use super::passes::refusal;
use super::{DeviceDense, HostProducts};
use crate::Result;
use crate::batch::Examples;
use crate::models::Model;
use crate::run_plan::RunPlan;
use crate::run_plan::schema;
use crate::steps::Steps;

const FIELDS: usize = 5;
const DENSE: usize = 3;
const MINI_BATCH: usize = 100;
const SIZES: [usize; 6] = [MINI_BATCH, 97, 3, 1, MINI_BATCH, 64];

/// A job with explicit columns: one label or two, of both kinds, with weights or without.
fn job(kind: ModelKind, labels: &[Loss], weighs: bool) -> Config {
    let column = |kind, names: Vec<String>, loss| ColumnConfig {
        kind,
        names,
        loss,
        ..ColumnConfig::default()
    };
    let named = |name: &str, count: usize| (0..count).map(|of| format!("{name}{of}")).collect();
    let mut config = Config::default();
    for (number, loss) in labels.iter().enumerate() {
        config.columns.push(column(ColumnType::Label, vec![format!("label{number}")], *loss));
    }
    if weighs {
        config.columns.push(column(ColumnType::Weight, named("weight", 1), Loss::LogLoss));
    }
    config.columns.push(column(ColumnType::Dense, named("number", DENSE), Loss::LogLoss));
    config.columns.push(column(ColumnType::Id, named("id", FIELDS), Loss::LogLoss));
    // Steps do not read it.
    config.data.paths = vec!["examples.csv".into()];
    config.model.kind = kind;
    config.model.dim = 5;
    config.model.hidden = vec![17, 9];
    config.model.cross_layers = 2;
    config.model.bottom = vec![6];
    config.data.mini_batch = MINI_BATCH;
    config
}

/// A mini-batch of `count` examples.
fn examples(config: &Config, count: usize, random: &mut Stream) -> (Bags, Examples) {
    let labels = schema(config).unwrap().labels;
    let mut bags = Bags::default();
    for _ in 0..count * FIELDS {
        bags.keys.push(Key(random.next_u64() % 300));
        bags.ends.push(bags.keys.len() as u32);
    }
    let label = |number: usize| (number % 4 / 3) as f32;
    let weighted = if labels.weighted { count } else { 0 };
    let examples = Examples {
        count,
        labels: (0..count * labels.count).map(label).collect(),
        weights: (0..weighted).map(|_| random.next_symmetric(1.0).abs()).collect(),
        dense: (0..count * DENSE).map(|_| random.next_symmetric(1.0)).collect(),
        ..Examples::default()
    };
    (bags, examples)
}

/// Visible results of training: losses and logits of every step, and the dense part at the end.
#[derive(Debug, PartialEq)]
struct Seen {
    losses: Vec<u64>,
    logits: Vec<u32>,
    dense: Vec<(String, Vec<u32>)>,
}

fn steps(config: &Config) -> Steps {
    Steps::new(config, 4000, Arc::new(SystemClock::new())).unwrap()
}

fn train(steps: &mut Steps, config: &Config, sizes: &[usize]) -> Seen {
    let (mut losses, mut logits) = (Vec::new(), Vec::new());
    let mut random = Stream::named(1, b"examples");
    for count in sizes {
        let (bags, examples) = examples(config, *count, &mut random);
        losses.push(steps.train(&bags, examples).unwrap().0.to_bits());
        logits.extend(steps.model().scores().iter().map(|logit| logit.to_bits()));
    }
    let dense = bits(&dense(steps));
    Seen { losses, logits, dense }
}

fn dense(steps: &mut Steps) -> Dense {
    steps.model().dense().unwrap().to_dense()
}

fn bits(dense: &Dense) -> Vec<(String, Vec<u32>)> {
    let of = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect();
    dense.sections.iter().map(|(name, values)| (name.clone(), of(values))).collect()
}

/// Devices that multiply as the processor does, with no more memory than planned.
fn machine(config: &Config, count: usize, settings: Settings) -> Machine {
    machine_for(steps(config), config, count, settings)
}

fn machine_for(mut steps: Steps, config: &Config, count: usize, settings: Settings) -> Machine {
    let plan = RunPlan::of(config).unwrap();
    let model = steps.model().model();
    let (memory_bytes, pinned_bytes) = DeviceDense::bytes_max(model, &plan, count);
    let products = Arc::new(HostProducts::default());
    Machine::new(Settings { devices: count, memory_bytes, pinned_bytes, products, ..settings })
}

/// Moves the dense part to `devices`.
fn compute_on(steps: &mut Steps, devices: &[Device], config: &Config) -> Result<()> {
    steps.model().compute_on(devices, &RunPlan::of(config)?)
}

fn on_devices(mut steps: Steps, config: &Config, devices: &[Device]) -> Seen {
    compute_on(&mut steps, devices, config).unwrap();
    train(&mut steps, config, &SIZES)
}

/// Machines of one to four devices, with several kinds of timing.
fn settings() -> [(usize, Settings); 4] {
    let stepped = Settings { time: Time::Stepped, seed: 7, ..Settings::default() };
    let delay_max = Duration::from_micros(50);
    let slow = Settings { delay_max, seed: 3, workers: 2, ..Settings::default() };
    [(1, Settings::default()), (2, slow), (4, stepped.clone()), (3, stepped)]
}

fn check(config: &Config) {
    check_for(config, &steps);
}

/// Compares training with `steps` on devices to training on the processor.
fn check_for(config: &Config, steps: &dyn Fn(&Config) -> Steps) {
    let configs = [1, 3].map(|threads| Config { threads, ..config.clone() });
    let [expected, other] = [0, 1].map(|of| train(&mut steps(&configs[of]), &configs[of], &SIZES));
    assert_eq!(expected, other);
    for (number, (count, settings)) in settings().into_iter().enumerate() {
        let config = &configs[number % 2];
        let machine = machine_for(steps(config), config, count, settings);
        let found = on_devices(steps(config), config, machine.devices());
        let (kind, blocks) = (config.model.kind.name(), config.train.blocks);
        assert_eq!(found.losses, expected.losses, "{kind}: {count} devices, {blocks} blocks");
        assert!(found == expected, "{kind}: {count} devices, {blocks} blocks");
    }
}

#[test]
fn every_model_has_the_bits_of_the_processor() {
    for kind in ModelKind::OF_ANY_DATA {
        check(&job(kind, &[Loss::LogLoss], false));
    }
}

#[test]
fn several_labels_and_weights_have_the_bits_of_the_processor() {
    for kind in ModelKind::OF_ANY_DATA {
        check(&job(kind, &[Loss::LogLoss, Loss::SquaredError, Loss::LogLoss], true));
    }
    check(&job(ModelKind::WideDeep, &[Loss::SquaredError], false));
}

#[test]
fn emphasis_on_classes_has_the_bits_of_the_processor() {
    let mut config = job(ModelKind::WideDeep, &[Loss::LogLoss, Loss::LogLoss], true);
    let plain = train(&mut steps(&config), &config, &SIZES);
    config.columns[1].class_weight = Some(5.0);
    config.train.label_smoothing = 0.1;
    for focal_gamma in [0.0, 2.0] {
        config.train.focal_gamma = focal_gamma;
        assert_ne!(train(&mut steps(&config), &config, &SIZES), plain);
        check(&config);
    }
}

#[test]
fn products_of_16_bits_have_the_bits_of_the_processor() {
    for kind in [ModelKind::DeepFm, ModelKind::Dcn, ModelKind::Dlrm] {
        let mut config = job(kind, &[Loss::LogLoss], true);
        config.model.precision = Precision::Bf16;
        check(&config);
    }
}

#[test]
fn every_optimizer_and_number_of_blocks_has_the_bits_of_the_processor() {
    for (kind, blocks) in [
        (OptimizerKind::Sgd, 1),
        (OptimizerKind::Adagrad, 3),
        (OptimizerKind::Adam, 7),
        (OptimizerKind::Sgd, 13),
    ] {
        let mut config = job(ModelKind::WideDeep, &[Loss::LogLoss], false);
        config.optim.dense.kind = kind;
        config.train.blocks = blocks;
        check(&config);
    }
}

#[test]
fn clipping_averages_and_dropout_have_the_bits_of_the_processor() {
    let kinds = [OptimizerKind::Sgd, OptimizerKind::Adagrad, OptimizerKind::Adam];
    for (number, (kind, model)) in
        kinds.into_iter().zip([ModelKind::DeepFm, ModelKind::Dcn, ModelKind::Ple]).enumerate()
    {
        let mut config = job(model, &[Loss::LogLoss], number == 1);
        config.optim.dense.kind = kind;
        let plain = train(&mut steps(&config), &config, &SIZES);
        let mut apart = [(); 3].map(|()| config.clone());
        apart[0].optim.dense.clip_norm = Some(1e-3);
        apart[1].optim.dense.ema = Some(0.8);
        apart[2].model.dropout = 0.3;
        for config in &apart {
            assert_ne!(train(&mut steps(config), config, &SIZES).dense, plain.dense);
        }
        // A bound that some steps exceed, and weights that decay.
        config.optim.dense.clip_norm = Some(0.05);
        (config.optim.dense.ema, config.optim.dense.l2) = (Some(0.8), Some(1e-3));
        config.model.dropout = 0.3;
        check(&config);
    }
}

#[test]
fn normalization_over_blocks_has_the_bits_of_the_processor() {
    for (model, blocks) in [(ModelKind::WideDeep, 8), (ModelKind::Mmoe, 3)] {
        let mut config = job(model, &[Loss::LogLoss, Loss::LogLoss], true);
        (config.model.batch_norm, config.train.blocks) = (true, blocks);
        (config.optim.dense.clip_norm, config.optim.dense.ema) = (Some(0.05), Some(0.8));
        check(&config);
    }
}

/// Products with other bits than the processor's: close to it, and the same for any number of
/// devices.
#[test]
fn a_device_with_products_of_its_own_is_near_and_the_same_on_any_number() {
    for kind in ModelKind::OF_ANY_DATA {
        let config = job(kind, &[Loss::LogLoss], false);
        let expected = train(&mut steps(&config), &config, &SIZES);
        let found = [1, 2, 4].map(|devices| {
            let settings =
                Settings { devices, products: Arc::new(PlainProducts), ..Settings::default() };
            on_devices(steps(&config), &config, Machine::new(settings).devices())
        });
        assert_eq!(found[0], found[1]);
        assert_eq!(found[0], found[2]);
        for (found, expected) in found[0].logits.iter().zip(&expected.logits) {
            let [found, expected] = [found, expected].map(|bits| f32::from_bits(*bits));
            // Some hundred operations of f32, and few steps: at most 2^-24 each, and a margin.
            assert!((found - expected).abs() < 1e-4, "{}: {found} {expected}", kind.name());
        }
    }
}

#[test]
fn a_model_goes_on_anywhere() {
    let config = job(ModelKind::DeepFm, &[Loss::LogLoss], false);
    let plan = RunPlan::of(&config).unwrap();
    let (mut host, mut moving) = (steps(&config), steps(&config));
    let of_two = machine(&config, 2, Settings::default());
    let of_one = machine(&config, 1, Settings::default());
    let expected = [0, 1, 2, 3].map(|_| train(&mut host, &config, &SIZES));
    assert_eq!(train(&mut moving, &config, &SIZES), expected[0]);
    // From the processor to devices, unchanged.
    compute_on(&mut moving, of_two.devices(), &config).unwrap();
    assert_eq!(train(&mut moving, &config, &SIZES), expected[1]);
    // Through a checkpoint's sections: to other devices, and back to the processor.
    for (devices, expected) in [(Some(of_one.devices()), &expected[2]), (None, &expected[3])] {
        let dense = dense(&mut moving);
        let model = moving.model();
        match devices {
            Some(devices) => model.compute_on(devices, &plan).unwrap(),
            None => model.compute_here(&plan).unwrap(),
        }
        assert!(model.is_finite().unwrap());
        assert_eq!(bits(&model.dense().unwrap().to_dense()), bits(&dense));
        assert_eq!(train(&mut moving, &config, &SIZES), *expected);
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let config = job(ModelKind::DeepFm, &[Loss::LogLoss], false);
    let mut steps = steps(&config);
    let error = compute_on(&mut steps, &[], &config).unwrap_err().to_string();
    assert!(error.contains("train.dense = device: there is no device"), "{error}");
    let few = Machine::new(Settings { memory_bytes: 1 << 10, ..Settings::default() });
    let error = compute_on(&mut steps, few.devices(), &config).unwrap_err().to_string();
    assert!(error.contains("emulated:0: no room for"), "{error}");
    let machine = machine(&config, 1, Settings::default());
    compute_on(&mut steps, machine.devices(), &config).unwrap();
    let error =
        steps.model().load(&Dense::default(), stepwell_base::owner::RankOf::ALONE).unwrap_err();
    assert_eq!(error, "has no dense 'parameters'");
}

#[test]
fn layers_that_devices_do_not_compute_are_refused_by_name() {
    let image = Image { channels: 1, height: 2, width: 3 };
    let window = Window { kernel: [2; 2], stride: [1; 2], padding: [0; 2] };
    let layer = Pooling { image, window, pool: Pool::Max };
    let mut builder = GraphBuilder::new(InputShape { embedding: 6, dense: 0 });
    builder.add("largest", layer, &[Source::Columns(0..6)]).unwrap();
    let why = refusal(&builder.build().unwrap());
    let expected = "devices don't compute the layer 'largest' (pooling)";
    assert_eq!(why.as_deref(), Some(expected));
    let config = job(ModelKind::Dlrm, &[Loss::LogLoss], false);
    let model = Model::build(&config, schema(&config).unwrap()).unwrap();
    assert_eq!(refusal(model.graph()), None);
}

#[test]
fn a_device_that_is_lost_ends_the_run() {
    let config = job(ModelKind::DeepFm, &[Loss::LogLoss], false);
    let (mut steps, mut random) = (steps(&config), Stream::named(1, b"lost"));
    let machine = machine(&config, 2, Settings::default());
    compute_on(&mut steps, machine.devices(), &config).unwrap();
    let (bags, first) = examples(&config, MINI_BATCH, &mut random);
    steps.train(&bags, first).unwrap();
    machine.lose(1);
    let (bags, second) = examples(&config, MINI_BATCH, &mut random);
    let error = steps.train(&bags, second).unwrap_err().to_string();
    assert!(error.contains("emulated:1 is lost"), "{error}");
}

/// A failure after a step is reported by the next one that waits.
#[test]
fn a_kernel_that_fails_ends_the_run() {
    let config = job(ModelKind::Dcn, &[Loss::LogLoss], false);
    for kernel in ["dense_cross", "dense_losses", "dense_column_sums", "dense_sum", "dense_update"]
    {
        for devices in [1, 2] {
            let (mut steps, mut random) = (steps(&config), Stream::named(1, b"fails"));
            let machine = machine(&config, devices, Settings::default());
            compute_on(&mut steps, machine.devices(), &config).unwrap();
            machine.fail_launch(devices - 1, kernel, 5);
            let mut train = || {
                let (bags, examples) = examples(&config, MINI_BATCH, &mut random);
                steps.train(&bags, examples)
            };
            let error = (0..8).find_map(|_| train().err()).unwrap().to_string();
            assert!(error.contains(&format!("kernel {kernel} failed")), "{error}");
        }
    }
}
