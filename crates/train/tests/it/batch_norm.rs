//! Batch normalization: its state is that of a computation in 64 bits, and neither tiers, threads,
//! ranks nor where a run was stopped change the bits.

#![expect(clippy::unwrap_used, reason = "a failed test panics")]

use std::fmt::Write as _;
use std::ops::Range;
use std::path::Path;

use crate::common::{in_memory, resume, run, saved_in, stopping, tiny};
use stepwell_base::random::Stream;
use stepwell_engine::{Checkpoint, list};
use stepwell_settings::{ColumnConfig, ColumnType, LayerConfig, LayerKind, ModelKind};
use stepwell_train::{Config, train};

fn normalized(mut config: Config) -> Config {
    (config.model.batch_norm, config.data.epochs) = (true, 2);
    (config.train.evaluate_every, config.model.dropout) = (15, 0.1);
    config
}

#[test]
fn normalization_is_exact() {
    for kind in [ModelKind::DeepFm, ModelKind::Ple] {
        let oracle = run(&normalized(in_memory(kind)));
        for (lookahead, ranks, threads) in [(2, 1, 1), (1, 3, 1), (0, 2, 3)] {
            let mut config = normalized(tiny(kind, lookahead));
            (config.ranks.count, config.threads) = (ranks, threads);
            config.data.batch = lookahead * 64;
            let report = run(&config);
            let name = format!("{kind:?}, {ranks} ranks, lookahead {lookahead}");
            assert_eq!(report.model_digest, oracle.model_digest, "{name}");
            assert_eq!(report.eval, oracle.eval, "{name}");
            assert_eq!(report.progressive, oracle.progressive, "{name}");
        }
        let directory = tempfile::tempdir().unwrap();
        let config = saved_in(&normalized(tiny(kind, 2)), directory.path());
        assert!(train(&config, &stopping(13, false)).unwrap().interrupted);
        let resumed = resume(&config);
        assert_eq!(resumed.model_digest, oracle.model_digest);
        assert_eq!(resumed.eval, oracle.eval);
    }
}

/// A model whose hidden layers have Dice, over a normalized input.
fn with_dice(mut config: Config) -> Config {
    let layer = |name, kind, input: &str| LayerConfig::new(name, kind, &[input]);
    let linear = |name, input, width| LayerConfig {
        width: Some(width),
        ..layer(name, LayerKind::Linear, input)
    };
    config.model.layers = vec![
        layer("norm", LayerKind::BatchNorm, "input"),
        linear("mlp1", "norm", 16),
        layer("dice1", LayerKind::Dice, "mlp1"),
        linear("mlp2", "dice1", 8),
        layer("dice2", LayerKind::Dice, "mlp2"),
        linear("logit", "dice2", 1),
    ];
    config
}

#[test]
fn dice_is_exact() {
    let oracle = run(&with_dice(in_memory(ModelKind::Graph)));
    let mut config = with_dice(tiny(ModelKind::Graph, 1));
    (config.ranks.count, config.threads) = (3, 1);
    let report = run(&config);
    assert_eq!((report.model_digest, report.eval), (oracle.model_digest.clone(), oracle.eval));
    let directory = tempfile::tempdir().unwrap();
    let config = saved_in(&with_dice(tiny(ModelKind::Graph, 2)), directory.path());
    assert!(train(&config, &stopping(7, false)).unwrap().interrupted);
    assert_eq!(resume(&config).model_digest, oracle.model_digest);
    // Slopes start at 0 and are learned.
    let saved = newest(directory.path());
    let graph_of = stepwell_train::dense_parts(&config).unwrap();
    let slopes = graph_of.parameters.iter().find(|of| of.name == "dice1/slope").unwrap();
    let slopes = &section(&saved, "parameters")[slopes.range.clone()];
    assert!(slopes.len() == 16 && slopes.iter().all(|slope| *slope != 0.0), "{slopes:?}");
    let mean = graph_of.state.iter().find(|of| of.name == "dice1/mean").unwrap();
    assert!(section(&saved, "state")[mean.range.clone()].iter().all(|mean| *mean != 0.0));
}

/// Blocks are parts of the model.
#[test]
fn another_number_of_blocks_is_another_model() {
    let of = |blocks| {
        let mut config = normalized(in_memory(ModelKind::DeepFm));
        config.train.blocks = blocks;
        run(&config).model_digest
    };
    assert_ne!(of(8), of(2));
}

const EXAMPLES: usize = 300;
const EVALUATED: usize = 60;
const MINI_BATCH: usize = 50;
const BLOCKS: usize = 4;
const COLUMNS: usize = 2;
const EPSILON: f64 = 1e-5;
const MOMENTUM: f64 = 0.1;

struct Example {
    label: f64,
    x: [f64; COLUMNS],
}

/// Examples with columns of unlike means and deviations.
fn examples() -> Vec<Example> {
    let mut dice = Stream::named(5, b"batch normalization");
    let mut unit = || (dice.next_u64() >> 40) as f64 / (1 << 24) as f64;
    let example = |_| {
        let x = [unit() * 8.0 + 100.0, unit() * 0.25 - 3.0].map(|x| f64::from(x as f32));
        Example { label: f64::from(u8::from(unit() < 0.3)), x }
    };
    (0..EXAMPLES).map(example).collect()
}

/// A linear model of normalized columns, which stays as it begins.
fn of_columns(examples: &[Example], directory: &Path) -> Config {
    let mut text = "click,a,b,id\n".to_owned();
    for Example { label, x: [a, b] } in examples {
        writeln!(text, "{label},{a},{b},i").unwrap();
    }
    let path = directory.join("data.csv");
    std::fs::write(&path, text).unwrap();
    let column = |name: &str, kind| ColumnConfig {
        names: vec![name.to_owned()],
        kind,
        ..ColumnConfig::default()
    };
    let mut config = in_memory(ModelKind::Graph);
    config.columns = vec![
        column("click", ColumnType::Label),
        column("a", ColumnType::Dense),
        column("b", ColumnType::Dense),
        column("id", ColumnType::Id),
    ];
    config.data.paths = vec![path.display().to_string()];
    (config.data.mini_batch, config.train.blocks) = (MINI_BATCH, BLOCKS);
    config.data.eval_fraction = EVALUATED as f64 / EXAMPLES as f64;
    (config.optim.rows.lr, config.optim.dense.lr) = (Some(1e-30), Some(1e-30));
    let norm = LayerConfig::new("norm", LayerKind::BatchNorm, &["dense"]);
    let linear = LayerConfig::new("linear", LayerKind::Linear, &["norm"]);
    // The weight of the id stays 0.
    let logit = LayerConfig::new("logit", LayerKind::Add, &["linear", "first_order"]);
    config.model.layers = vec![norm, LayerConfig { width: Some(1), ..linear }, logit];
    saved_in(&config, &directory.join("saved"))
}

/// Mean and sum of squared deviations of a column.
fn moments(block: &[Example], column: usize) -> (f64, f64) {
    let values = || block.iter().map(|of| of.x[column]);
    let mean = values().sum::<f64>() / block.len() as f64;
    (mean, values().map(|x| (x - mean).powi(2)).sum())
}

fn block(examples: usize, number: usize) -> Range<usize> {
    examples * number / BLOCKS..examples * (number + 1) / BLOCKS
}

/// The loss of `examples`, normalized by `mean` and `variance` of each column.
fn loss(examples: &[Example], [mean, variance]: [[f64; COLUMNS]; 2], weights: &[f64]) -> f64 {
    let of = |example: &Example| {
        let mut logit = weights[COLUMNS];
        for column in 0..COLUMNS {
            let deviation = (variance[column] + EPSILON).sqrt();
            logit += weights[column] * (example.x[column] - mean[column]) / deviation;
        }
        (1.0 + logit.exp()).ln() - example.label * logit
    };
    examples.iter().map(of).sum()
}

/// The newest checkpoint in `directory`.
fn newest(directory: &Path) -> Checkpoint {
    let disk = stepwell_disk::FileDisk::open(directory).unwrap();
    let (_, path) = list(&disk).unwrap().pop().unwrap();
    Checkpoint::open(&path).unwrap()
}

fn section(checkpoint: &Checkpoint, name: &str) -> Vec<f64> {
    let found = checkpoint.dense.sections.iter().find(|(known, _)| known == name).unwrap();
    found.1.iter().map(|value| f64::from(*value)).collect()
}

#[test]
fn statistics_and_state_are_those_of_the_definition() {
    let directory = tempfile::tempdir().unwrap();
    let examples = examples();
    let config = of_columns(&examples, directory.path());
    let report = run(&config);
    let checkpoint = newest(&directory.path().join("saved"));
    // After scale and shift, which are 1 and 0, the weights and the bias.
    let weights = section(&checkpoint, "parameters").split_off(2 * COLUMNS);
    let (trained, evaluated) = examples.split_at(EXAMPLES - EVALUATED);
    let (mut means, mut variances, mut sum) = ([0.0; COLUMNS], [1.0; COLUMNS], 0.0);
    for mini_batch in trained.chunks(MINI_BATCH) {
        let count = mini_batch.len();
        let blocks = || (0..BLOCKS).map(|number| &mini_batch[block(count, number)]);
        for of in blocks() {
            let of_columns = [0, 1].map(|column| moments(of, column));
            let count = of.len() as f64;
            let variance = of_columns.map(|(_, squares)| squares / count);
            sum += loss(of, [of_columns.map(|(mean, _)| mean), variance], &weights);
        }
        for column in 0..COLUMNS {
            let (mean, _) = moments(mini_batch, column);
            let squares: f64 = blocks().map(|of| moments(of, column).1).sum();
            means[column] += MOMENTUM * (mean - means[column]);
            let variance = squares / (count - BLOCKS) as f64;
            variances[column] += MOMENTUM * (variance - variances[column]);
        }
    }
    let near = |found: f64, expected: f64, name: &str| {
        assert!((found - expected).abs() < 1e-5 * expected.abs(), "{name}: {found} {expected}");
    };
    let state = section(&checkpoint, "state");
    for (found, expected) in state.iter().zip([means, variances].concat()) {
        near(*found, expected, "state");
    }
    assert_eq!(state.len(), 2 * COLUMNS);
    let count = trained.len() as f64;
    near(report.progressive.logloss.unwrap(), sum / count, "training");
    let expected = loss(evaluated, [means, variances], &weights) / evaluated.len() as f64;
    near(report.eval.logloss.unwrap(), expected, "evaluation");
}
