//! Dropout depends on names and numbers; normalization has a state, which evaluation uses.

#![expect(clippy::unwrap_used, reason = "the tests' own graphs are well formed")]

use std::ops::Range;

use crate::common::{every, numbers};
use stepwell_nn::{
    BatchNorm, Block, BlockGradients, Dice, Dropout, Graph, GraphBuilder, Initial, InputShape,
    Layer, Matrix, Purpose, Source, Training, Workspace, tree_sum,
};

fn alone(name: &str, layer: impl Layer<f64> + 'static, columns: usize) -> Graph<f64> {
    let mut builder = GraphBuilder::new(InputShape { embedding: columns, dense: 0 });
    builder.add(name, layer, &[Source::Columns(0..columns)]).unwrap();
    builder.build().unwrap()
}

/// Outputs of some rows of `x`, and the gradients of these rows for output gradients of 1.
fn run(
    graph: &Graph<f64>,
    (x, rows): (&[f64], Range<usize>),
    purpose: Purpose<'_, f64>,
) -> (Vec<f64>, Vec<f64>) {
    let (count, columns) = (rows.len(), graph.input().columns());
    let x = Matrix::packed(&x[rows.start * columns..rows.end * columns], count, columns);
    let block = Block { x, first_order: &[] };
    let (mut workspace, lanes) = (Workspace::new(graph, count), count * graph.outputs());
    let parameters = graph.initial_parameters(1);
    let mut outputs = vec![f64::NAN; lanes];
    forward(graph, &block, purpose, (&mut workspace, &mut outputs));
    let mut d_x = vec![f64::NAN; count * columns];
    let mut parameters_back = vec![0.0; parameters.len()];
    let gradients =
        BlockGradients { x: &mut d_x, first_order: &mut [], parameters: &mut parameters_back };
    graph.backward(&parameters, &block, &vec![1.0; lanes], &mut workspace, gradients);
    (outputs, d_x)
}

fn forward(
    graph: &Graph<f64>,
    block: &Block<'_, f64>,
    purpose: Purpose<'_, f64>,
    (workspace, outputs): (&mut Workspace<f64>, &mut [f64]),
) {
    let (parameters, mut nobody) = (graph.initial_parameters(1), ());
    let passes = graph.watched(&mut nobody).with_purpose(purpose);
    passes.forward(&parameters, block, workspace, outputs);
}

/// Outputs of all rows of `x` in evaluation.
fn evaluated(graph: &Graph<f64>, x: &[f64], state: &[f64]) -> Vec<f64> {
    let columns = graph.input().columns();
    let rows = x.len() / columns;
    let block = Block { x: Matrix::packed(x, rows, columns), first_order: &[] };
    let (mut workspace, mut outputs) = (Workspace::new(graph, rows), vec![f64::NAN; x.len()]);
    forward(graph, &block, Purpose::Evaluation { state }, (&mut workspace, &mut outputs));
    outputs
}

fn training(seed: u64, step: u64, first: usize) -> Purpose<'static, f64> {
    Purpose::Training(Training { seed, step, first_example: first as u64, ..Training::default() })
}

/// Computed in Python with xxhash.xxh3_64_intdigest and SplitMix64.
#[test]
fn masks_are_published_and_the_same_in_any_block() {
    let graph = alone("thinned", Dropout { columns: 12, rate: 0.3 }, 12);
    let x = numbers::<f64>("x", 4 * 12);
    let expected = [".......x...x", "...x.....x..", ".x..x.......", "xx....xx...."];
    let expected: Vec<bool> =
        expected.iter().flat_map(|row| row.chars().map(|of| of == 'x')).collect();
    for cuts in [vec![0, 4], vec![0, 1, 4], vec![0, 2, 2, 3, 4]] {
        let blocks = cuts.windows(2).map(|cut| cut[0]..cut[1]);
        let blocks =
            blocks.map(|rows| run(&graph, (&x, rows.clone()), training(7, 42, rows.start)));
        let (outputs, d_x): (Vec<_>, Vec<_>) = blocks.unzip();
        let lanes = outputs.concat().into_iter().zip(d_x.concat()).zip(&x);
        for (((y, d), x), is_dropped) in lanes.zip(&expected) {
            let factor = if *is_dropped { 0.0 } else { 1.0 / (1.0 - 0.3) };
            assert_eq!((y, d), (x * factor, factor));
        }
    }
}

#[test]
fn masks_belong_to_seed_layer_step_and_example() {
    let of = |name: &str, seed, step, first| {
        let graph = alone(name, Dropout { columns: 64, rate: 0.5 }, 64);
        run(&graph, (&[1.0; 64], 0..1), training(seed, step, first)).0
    };
    let masks = [of("a", 1, 2, 3), of("b", 1, 2, 3), of("a", 2, 2, 3), of("a", 1, 3, 3)];
    let masks = [&masks[..], &[of("a", 1, 2, 4)]].concat();
    for (index, mask) in masks.iter().enumerate() {
        assert!(masks[..index].iter().all(|other| other != mask), "{index}");
    }
    assert_eq!(masks[0], of("a", 1, 2, 3));
    let graph = alone("share", Dropout { columns: 1000, rate: 0.2 }, 1000);
    let (mask, _) = run(&graph, (&[1.0; 100_000], 0..100), training(1, 0, 0));
    let share = mask.iter().filter(|y| **y == 0.0).count() as f64 / 1e5;
    assert!((share - 0.2).abs() < 4.0 * 0.4 / 1e5f64.sqrt(), "{share}");
}

#[test]
fn evaluation_drops_nothing() {
    let graph = alone("a", Dropout { columns: 5, rate: 0.9 }, 5);
    let x = numbers::<f64>("x", 35);
    assert_eq!(evaluated(&graph, &x, &[]), x);
}

/// Mean and squared deviations of channel `channel` in some rows, by definition.
fn moments(x: &[f64], layer: &BatchNorm, rows: Range<usize>, channel: usize) -> (f64, f64, f64) {
    let columns = layer.channels * layer.places;
    let first = channel * layer.places;
    let values = rows.flat_map(|row| {
        let start = row * columns + first;
        x[start..start + layer.places].to_vec()
    });
    let values: Vec<f64> = values.collect();
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count.max(1.0);
    (count, mean, values.iter().map(|x| (x - mean).powi(2)).sum())
}

fn near(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-12, "{found} {expected}");
}

/// Blocks of a mini-batch, one of them empty.
const BLOCKS: [Range<usize>; 5] = [0..4, 4..5, 5..8, 8..8, 8..10];

#[test]
fn normalized_values_are_those_of_the_definition() {
    for (channels, places) in [(3, 1), (2, 21)] {
        let layer = BatchNorm { momentum: 0.25, ..BatchNorm::new(channels, places) };
        let (graph, columns) = (alone("a", layer, channels * places), channels * places);
        let x = numbers::<f64>("x", 10 * columns);
        let lanes = graph.statistics_count();
        let mut of_blocks = vec![vec![f64::NAN; lanes]; BLOCKS.len()];
        for (rows, statistics) in BLOCKS.into_iter().zip(&mut of_blocks) {
            let training = Training { statistics: Some(statistics), ..Training::default() };
            let (y, _) = run(&graph, (&x, rows.clone()), Purpose::Training(training));
            for (index, y) in y.into_iter().enumerate() {
                let (row, channel) = (index / columns, index % columns / places);
                let (count, mean, squares) = moments(&x, &layer, rows.clone(), channel);
                let x = x[(rows.start + row) * columns + index % columns];
                near(y, (x - mean) / (squares / count + 1e-5).sqrt());
            }
        }
        let slices: Vec<&[f64]> = of_blocks.iter().map(Vec::as_slice).collect();
        let mut sums = vec![f64::NAN; lanes];
        tree_sum(&slices, &mut sums);
        let mut state = graph.initial_state();
        graph.advance_state(&mut state, &sums);
        for channel in 0..channels {
            let blocks = BLOCKS.map(|rows| moments(&x, &layer, rows, channel));
            let (count, mean, _) = moments(&x, &layer, 0..10, channel);
            let squares: f64 = blocks.iter().map(|(.., squares)| squares).sum();
            near(state[channel], 0.25 * mean);
            // Four of the five blocks have examples, each with its own mean.
            let variance = squares / (count - 4.0);
            near(state[channels + channel], 1.0 + 0.25 * (variance - 1.0));
        }
        evaluate(&graph, &layer, &x, &state);
    }
}

/// In evaluation, examples are independent.
fn evaluate(graph: &Graph<f64>, layer: &BatchNorm, x: &[f64], state: &[f64]) {
    let columns = layer.channels * layer.places;
    for rows in [0..10, 3..4, 4..6] {
        let x = &x[rows.start * columns..rows.end * columns];
        let y = evaluated(graph, x, state);
        for (index, (x, y)) in x.iter().zip(y).enumerate() {
            let channel = index % columns / layer.places;
            let (mean, variance) = (state[channel], state[layer.channels + channel]);
            near(y, (x - mean) / (variance + 1e-5).sqrt());
        }
    }
}

#[test]
fn dice_is_that_of_the_definition() {
    let (graph, norm) = (alone("a", Dice::new(3), 3), BatchNorm::new(3, 1));
    let x = numbers::<f64>("x", 30);
    let slopes = [0.0, 0.3, -1.5];
    let dice = |x: f64, column: usize, mean: f64, variance: f64| {
        let p = 1.0 / (1.0 + (-(x - mean) / (variance + 1e-8).sqrt()).exp());
        p * x + (1.0 - p) * slopes[column] * x
    };
    let pass = |rows: Range<usize>, purpose: Purpose<'_, f64>| {
        let (count, values) = (rows.len(), &x[3 * rows.start..3 * rows.end]);
        let block = Block { x: Matrix::packed(values, count, 3), first_order: &[] };
        let (mut workspace, mut outputs) = (Workspace::new(&graph, count), vec![0.0; 3 * count]);
        let mut nobody = ();
        let passes = graph.watched(&mut nobody).with_purpose(purpose);
        passes.forward(&slopes, &block, &mut workspace, &mut outputs);
        outputs
    };
    assert_eq!(graph.initial_parameters(1), [0.0; 3]);
    let mut state = graph.initial_state();
    for rows in BLOCKS {
        let mut statistics = vec![f64::NAN; graph.statistics_count()];
        let training = Training { statistics: Some(&mut statistics), ..Training::default() };
        for (index, y) in pass(rows.clone(), Purpose::Training(training)).into_iter().enumerate() {
            let column = index % 3;
            let (count, mean, squares) = moments(&x, &norm, rows.clone(), column);
            near(y, dice(x[3 * rows.start + index], column, mean, squares / count));
        }
        graph.advance_state(&mut state, &statistics);
    }
    let evaluation = pass(2..7, Purpose::Evaluation { state: &state });
    for (index, y) in evaluation.into_iter().enumerate() {
        let column = index % 3;
        near(y, dice(x[6 + index], column, state[column], state[3 + column]));
    }
    assert!(state[..3].iter().all(|mean| *mean != 0.0));
}

#[test]
fn state_is_described_and_stays_where_nothing_is_known() {
    for (name, graph) in every::<f64>() {
        let described: Vec<_> = graph.state().iter().map(|of| of.name.as_str()).collect();
        let layers: &[&str] = match name {
            "normalized" => &["a", "planes"],
            "diced" => &["a", "b", "c"],
            _ => &[],
        };
        let parts = |of: &&str| ["mean", "variance"].map(|part| format!("{of}/{part}"));
        let mut expected: Vec<String> = layers.iter().flat_map(parts).collect();
        expected.extend((name == "paired").then(|| "a/count".to_owned()));
        assert_eq!(described, expected, "{name}");
        assert_eq!(graph.state_count(), graph.initial_state().len());
    }
    let graph = crate::networks::normalized::<f64>();
    assert_eq!(graph.state()[3].range, 9 + 9 + 3..9 + 9 + 3 + 3);
    assert_eq!(graph.state()[3].initial, Initial::Constant(1.0));
    assert_eq!(graph.statistics_count(), (2 + 2 * 9) + (2 + 2 * 3));
    let mut state = graph.initial_state();
    assert_eq!(state[..18], [[0.0; 9], [1.0; 9]].concat()[..]);
    graph.advance_state(&mut state, &vec![0.0; graph.statistics_count()]);
    assert_eq!(state, graph.initial_state());
    // A block of one example gives a mean, but no variance.
    let graph = alone("a", BatchNorm { momentum: 1.0, ..BatchNorm::new(1, 1) }, 1);
    let mut statistics = vec![0.0; 4];
    let training = Training { statistics: Some(&mut statistics), ..Training::default() };
    run(&graph, (&[3.5], 0..1), Purpose::Training(training));
    let mut state = graph.initial_state();
    graph.advance_state(&mut state, &statistics);
    assert_eq!(state, [3.5, 1.0]);
}
