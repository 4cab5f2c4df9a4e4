//! The place of data and the size of memory change no bit; the budget is never exceeded.

#![expect(clippy::unwrap_used, reason = "test helpers panic like the tests")]

use std::time::Duration;

use stepwell_device::Device;
use stepwell_device::emulated::{self, Machine, Time};
use stepwell_geeps::{Applies, Place, Rule, Rules, Settings, Staleness};

use crate::support::oracle::{assert_same, trained};
use crate::support::schedule::{Run, Setup, run};
use crate::support::worker::{Bench, Departs, Worker};
use crate::support::{Model, Values};

const CLOCKS: u64 = 4;

fn model() -> Model {
    Model::new(&[64, 48, 64, 48, 64], Applies::ByClock, Staleness::BSP, Values::Fractions)
}

/// Everything on, and each of batching, indexes, pinning and handing over off.
fn switched() -> [Settings; 5] {
    let all = Settings::default;
    [
        all(),
        Settings { batched: false, ..all() },
        Settings { indexed: false, ..all() },
        Settings { pins: false, ..all() },
        Settings { hands_over: false, ..all() },
    ]
}

/// Settings of a model with these switches.
fn with(model: &Model, budget_bytes: u64, switches: &Settings) -> Settings {
    let Settings { batched, indexed, pins, hands_over, .. } = *switches;
    Settings { budget_bytes, batched, indexed, pins, hands_over, ..model.settings() }
}

/// From twice the peak to everything, and more.
fn budgets(model: &Model) -> Vec<u64> {
    let (least, most) = (2 * model.peak_bytes(), 2 * model.peak_bytes() + model.data_bytes());
    let between = (0..5).map(|part| least + (most - least) * part / 4);
    between.chain([2 * most]).collect()
}

/// A device whose memory is exactly the budget and the indexes.
fn device(seed: u64, memory_bytes: u64) -> Device {
    let settings = emulated::Settings {
        memory_bytes,
        seed,
        time: Time::Stepped,
        delay_max: Duration::ZERO,
        ..emulated::Settings::default()
    };
    Machine::new(settings).devices()[0].clone()
}

/// Settings of a rank, except for the place of its memory.
type Told<'a> = &'a dyn Fn() -> Settings;

fn run_on_devices(
    (model, ranks): (&Model, usize),
    seed: u64,
    told: Told<'_>,
    departs: Departs,
) -> Result<Run, String> {
    let budget = told().budget_bytes;
    let devices: Vec<Device> = (0..ranks).map(|rank| device(seed + rank as u64, budget)).collect();
    let settings = |rank: usize| Settings { place: Place::Device(devices[rank].clone()), ..told() };
    let worker = |rank: usize| {
        let stream = devices[rank].stream("application").unwrap();
        let bench = Bench { on: Some((devices[rank].clone(), stream)) };
        Worker::new(model, rank, CLOCKS).at(bench).departing(departs)
    };
    let setup = Setup { seed, ranks, settings: &settings, worker: &worker, gathers: true };
    let left = run(&setup)?;
    for (device, statistics) in devices.iter().zip(&left.statistics) {
        let [_, _, peak] = device.memory();
        assert!(peak.0 <= budget, "{peak} of {budget} bytes");
        assert!(statistics.peak_bytes >= peak.0, "{statistics:?} and {peak}");
    }
    Ok(left)
}

/// Bytes of the indexes of a model's reads on a device.
fn index_bytes(model: &Model) -> u64 {
    let bytes = |keys: usize| Device::bytes_counted(4 * keys as u64);
    model.layers.iter().map(|layer| bytes(layer.keys.len())).sum()
}

#[test]
fn host_memory_of_any_size_has_the_bits_of_the_oracle() {
    let model = model();
    for ranks in [1, 2, 4] {
        let wanted = trained(&model, ranks, CLOCKS);
        for (number, budget_bytes) in budgets(&model).into_iter().enumerate() {
            for switches in switched() {
                let seed = 10 * number as u64 + ranks as u64;
                let settings = |_| with(&model, budget_bytes, &switches);
                let worker = |rank| Worker::new(&model, rank, CLOCKS);
                let (settings, worker) = (&settings, &worker);
                let setup = Setup { seed, ranks, settings, worker, gathers: true };
                let left = run(&setup).unwrap();
                assert_eq!(left.found, [""; 0]);
                assert_same(&left.rows, &wanted, &format!("{ranks} ranks, {budget_bytes} bytes"));
                for statistics in &left.statistics {
                    assert!(statistics.peak_bytes <= budget_bytes, "{statistics:?}");
                    assert!(switches.pins || statistics.handed_out == 0, "{statistics:?}");
                }
            }
        }
    }
}

#[test]
fn device_memory_of_any_size_has_the_bits_of_the_oracle() {
    let model = model();
    for ranks in [1, 2, 4] {
        let wanted = trained(&model, ranks, CLOCKS);
        for (number, bytes) in budgets(&model).into_iter().enumerate() {
            for switches in switched() {
                let budget_bytes = bytes + index_bytes(&model);
                let told = || with(&model, budget_bytes, &switches);
                let seed = 10 * number as u64 + ranks as u64;
                let left = run_on_devices((&model, ranks), seed, &told, Departs::default());
                let left = left.unwrap_or_else(|error| panic!("{ranks}, {bytes}: {error}"));
                assert_eq!(left.found, [""; 0]);
                assert_same(&left.rows, &wanted, &format!("{ranks} ranks, {bytes} bytes"));
            }
        }
    }
}

#[test]
fn whoever_departs_from_what_was_gathered_has_the_same_bits() {
    let model = model();
    let wanted = trained(&model, 2, CLOCKS);
    for seed in 0..24 {
        let departs = Departs {
            order_every: (seed % 3 > 0).then_some(1 + seed % 3),
            reads_other: seed % 2 == 0,
            clocks_twice: seed % 4 == 3,
            gathers_again: seed % 5 == 2,
        };
        let budget_bytes = budgets(&model)[seed as usize % 6] + index_bytes(&model);
        let told = || Settings { budget_bytes, ..model.settings() };
        let left = run_on_devices((&model, 2), seed, &told, departs).unwrap();
        assert_eq!(left.found, [""; 0], "{departs:?}");
        assert_same(&left.rows, &wanted, &format!("{departs:?} in {budget_bytes} bytes"));
        let departed: u64 = left.statistics.iter().map(|counts| counts.not_foreseen).sum();
        if departs == Departs::default() {
            assert_eq!(departed, 0);
        }
        let departs = departs.order_every.is_some() || departs.reads_other || departs.clocks_twice;
        assert!(departed > 0 || !departs, "{departed}");
    }
}

#[test]
fn what_fits_is_not_copied() {
    let model = model();
    let budgets = budgets(&model);
    let copied = |bytes: u64| {
        let budget_bytes = bytes + index_bytes(&model);
        let told = || Settings { budget_bytes, ..model.settings() };
        let left = run_on_devices((&model, 1), 3, &told, Departs::default()).unwrap();
        let statistics = left.statistics[0];
        assert_eq!(statistics.not_foreseen, 0, "{statistics:?}");
        (statistics.bytes_up + statistics.bytes_down, statistics.handed_out)
    };
    let (least, most) = (copied(budgets[0]), copied(budgets[5]));
    assert!(least.0 > most.0 && least.1 < most.1, "{least:?} {most:?}");
    assert_eq!(least.1, 0, "nothing is pinned");
    let in_part = model.layers.len() as u64 / 2;
    let whole = model.locals.len() as u64 - in_part;
    assert_eq!(most.1, 2 * CLOCKS * whole, "all but what is accessed in part");
}

#[test]
fn memory_that_is_used_before_its_event_is_found() {
    let model = model();
    let found = |seed: &u64| {
        let budget_bytes = budgets(&model)[*seed as usize % 4] + index_bytes(&model);
        let rules = Rules::without(Rule::EventBeforeReuse);
        let told = || Settings { budget_bytes, rules, ..model.settings() };
        let left = run_on_devices((&model, 2), *seed, &told, Departs::default());
        left.is_err_and(|error| {
            assert!(error.contains("is not ordered after"), "{error}");
            true
        })
    };
    let seeds: Vec<u64> = (0..40).filter(found).collect();
    assert!(seeds.len() > 20, "{seeds:?}");
}

#[test]
fn too_little_memory_is_refused_with_the_arithmetic() {
    let model = model();
    let worker = |rank| Worker::new(&model, rank, CLOCKS);
    let budget_bytes = 2 * model.peak_bytes() - 1;
    let settings = |_| Settings { budget_bytes, ..model.settings() };
    let (settings, worker) = (&settings, &worker);
    let error = run(&Setup { seed: 1, ranks: 1, settings, worker, gathers: true }).unwrap_err();
    let peak = model.peak_bytes();
    assert!(error.contains(&format!("2 x {peak} = {} bytes are needed", 2 * peak)), "{error}");
    assert!(error.contains("of 'layer 4' +"), "{error}");
    assert_eq!(error.lines().count(), 1);
    // If nothing was recorded, a single access is too large.
    let settings = |_| Settings { budget_bytes: 300, ..model.settings() };
    let settings = &settings;
    let error = run(&Setup { seed: 1, ranks: 1, settings, worker, gathers: false }).unwrap_err();
    assert!(error.contains("access of 768 B (layer 0) plus 0 B"), "{error}");
}
