//! Where the time of steps goes, by kernel and by layer.

#![expect(clippy::unwrap_used, reason = "a failed test panics")]

use std::cell::Cell;
use std::sync::Arc;

use stepwell_base::Key;
use stepwell_base::clock::Clock;
use stepwell_engine::Bags;
use stepwell_settings::ModelKind;
use stepwell_train::{Config, KernelReport, LayerReport, PassReport, StepInput, Steps};

/// Fields and dense features of an example.
const FIELDS: usize = 26;
const DENSE: usize = 13;
/// Steps of each test.
const STEPS: usize = 3;

/// A clock whose every reading of a thread's processor time adds a second.
#[derive(Debug)]
struct Ticks;

thread_local! {
    static TICKS: Cell<f64> = const { Cell::new(0.0) };
}

impl Clock for Ticks {
    fn seconds(&self) -> f64 {
        0.0
    }

    fn thread_seconds(&self) -> f64 {
        TICKS.set(TICKS.get() + 1.0);
        TICKS.get()
    }
}

fn config(kind: ModelKind) -> Config {
    let mut config = Config { threads: 2, ..Config::default() };
    config.data.mini_batch = 64;
    config.model.kind = kind;
    config.model.dim = 4;
    config.model.hidden = vec![16, 8];
    config.model.bottom = vec![8];
    config
}

fn examples(count: usize, step: usize) -> StepInput {
    let occurrences = count * FIELDS;
    StepInput {
        labels: (0..count).map(|number| (number % 3 == 0) as u32 as f32).collect(),
        dense: vec![0.5; count * DENSE],
        bags: Bags {
            keys: (0..occurrences).map(|number| Key((step + number % 700) as u64)).collect(),
            ends: (1..=occurrences as u32).collect(),
            ..Bags::default()
        },
    }
}

fn train(config: &Config, count: usize) -> Steps {
    let mut steps = Steps::new(config, 4096, Arc::new(Ticks)).unwrap();
    for step in 0..STEPS {
        steps.step(examples(count, step)).unwrap();
    }
    steps
}

fn kernel<'a>(profile: &'a [KernelReport], name: &str) -> &'a KernelReport {
    profile.iter().find(|kernel| kernel.name == name).unwrap()
}

fn sum(layers: &[LayerReport], of: fn(&LayerReport) -> &PassReport) -> PassReport {
    layers.iter().map(of).fold(PassReport::default(), |sum, pass| PassReport {
        seconds: sum.seconds + pass.seconds,
        flops: sum.flops + pass.flops,
        ..sum
    })
}

#[test]
fn layers_sum_to_the_passes_of_the_graph() {
    for kind in ModelKind::OF_ANY_DATA {
        let config = config(kind);
        // With 5 examples most of the blocks are empty.
        for count in [64, 5] {
            let steps = train(&config, count);
            let (profile, layers) = (steps.profile(), steps.layers());
            let passes = (STEPS * config.train.blocks) as f64;
            let mut flops = 0;
            for (name, sum) in [
                ("forward", sum(&layers, |layer| &layer.forward)),
                ("backward", sum(&layers, |layer| &layer.backward)),
            ] {
                let kernel = kernel(&profile, name);
                assert_eq!(sum.flops, kernel.flops, "{kind:?} {name}");
                // Besides its layers, a pass reads the clock before and after them.
                assert_eq!(sum.seconds, passes * layers.len() as f64, "{kind:?} {name}");
                assert_eq!(kernel.seconds, sum.seconds + 2.0 * passes, "{kind:?} {name}");
                flops += sum.flops;
            }
            assert_eq!(flops, (STEPS * count) as u64 * steps.flops_per_example(), "{kind:?}");
        }
    }
}

#[test]
fn layers_are_those_of_the_model_in_order() {
    let names = |kind| {
        let layers = train(&config(kind), 8).layers();
        layers.into_iter().map(|layer| layer.name).collect::<Vec<_>>()
    };
    assert_eq!(names(ModelKind::Lr), ["linear", "logit"]);
    assert_eq!(names(ModelKind::DeepFm), ["linear", "mlp1", "mlp2", "mlp_out", "fm", "logit"]);
}
