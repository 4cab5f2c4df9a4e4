//! Compares cross layers, gates, experts, normalizations and activations with loops that follow
//! their definitions.

#![expect(clippy::unwrap_used, reason = "the tests' own graphs are well formed")]

use crate::common::{Step, numbers};
use crate::interactions::FUNCTIONS;
use stepwell_nn::{
    Activate, CrossVector, Function, Graph, GraphBuilder, InputShape, Layer, LayerNorm, Mixture,
    Multiply, Source, Workspace,
};

const ROWS: usize = 3;
const SIZES: [usize; 5] = [1, 2, 16, 17, 50];

/// A graph with only this layer, over inputs of these columns.
fn alone(layer: impl Layer<f64> + 'static, inputs: &[usize]) -> Graph<f64> {
    let embedding = inputs.iter().sum();
    let (mut builder, mut start) = (GraphBuilder::new(InputShape { embedding, dense: 0 }), 0);
    let sources = inputs.iter().map(|columns| {
        start += columns;
        Source::Columns(start - columns..start)
    });
    builder.add("layer", layer, &sources.collect::<Vec<_>>()).unwrap();
    builder.build().unwrap()
}

/// Compares the outputs of all examples with `expected(input, parameters)`.
fn check(what: &str, graph: &Graph<f64>, expected: impl Fn(&[f64], &[f64]) -> Vec<f64>) {
    let parameters = numbers("parameters", graph.parameter_count());
    let mut step = Step::new(graph, ROWS);
    step.forward(graph, &parameters, &mut Workspace::new(graph, ROWS));
    let outputs = step.logits.chunks(graph.outputs());
    for (row, (x, found)) in step.x.chunks(step.stride).zip(outputs).enumerate() {
        let expected = expected(&x[..graph.input().embedding], &parameters);
        assert_eq!(found.len(), expected.len(), "{what}");
        for (lane, (found, expected)) in found.iter().zip(&expected).enumerate() {
            let apart = (found - expected).abs();
            assert!(apart < 1e-12, "{what}: {row}, {lane} is {found}, not {expected}");
        }
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[test]
fn of_cross_layers_with_a_vector() {
    for columns in SIZES {
        let graph = alone(CrossVector { columns }, &[columns, columns]);
        check(&format!("{columns}"), &graph, |x, parameters| {
            let ((base, x), (weight, bias)) = (x.split_at(columns), parameters.split_at(columns));
            let s = dot(x, weight);
            (0..columns).map(|i| base[i] * s + bias[i] + x[i]).collect()
        });
    }
}

#[test]
fn of_layer_normalizations() {
    for (groups, columns) in SIZES.into_iter().flat_map(|columns| [(1, columns), (3, columns)]) {
        let lanes = groups * columns;
        let graph = alone(LayerNorm { groups, columns }, &[lanes]);
        check(&format!("{groups} x {columns}"), &graph, |x, parameters| {
            let (weight, bias) = parameters.split_at(lanes);
            let mut y = Vec::new();
            for (group, x) in x.chunks(columns).enumerate() {
                let mean = x.iter().sum::<f64>() / columns as f64;
                let squares = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>();
                let deviation = (squares / columns as f64 + 1e-5).sqrt();
                y.extend(x.iter().enumerate().map(|(i, x)| {
                    let lane = group * columns + i;
                    weight[lane] * (x - mean) / deviation + bias[lane]
                }));
            }
            y
        });
    }
}

/// A function with slope `a`, by the functions of the standard library.
fn function(function: Function, x: f64, a: f64) -> f64 {
    let sigmoid = 1.0 / (1.0 + (-x).exp());
    match function {
        Function::Relu => x.max(0.0),
        Function::Sigmoid => sigmoid,
        Function::Tanh => x.tanh(),
        Function::Gelu => {
            let scale = (2.0 / std::f64::consts::PI).sqrt();
            0.5 * x * (1.0 + (scale * (x + 0.044_715 * x.powi(3))).tanh())
        }
        Function::Silu => x * sigmoid,
        Function::Prelu => x.max(0.0) + a * x.min(0.0),
    }
}

#[test]
fn of_activations() {
    for of in FUNCTIONS {
        for columns in SIZES {
            let graph = alone(Activate { function: of, columns }, &[columns]);
            check(&format!("{of:?}"), &graph, |x, parameters| {
                let slope = |lane: usize| parameters.get(lane).copied().unwrap_or(f64::NAN);
                x.iter().enumerate().map(|(lane, x)| function(of, *x, slope(lane))).collect()
            });
        }
    }
}

#[test]
fn of_activations_far_from_zero() {
    for of in FUNCTIONS {
        let graph = alone(Activate { function: of, columns: 6 }, &[6]);
        let mut step = Step::new(&graph, 1);
        step.x[..6].copy_from_slice(&[f64::NAN, 1e5, -1e5, 20.0, -20.0, 0.0]);
        let (mut workspace, slopes) =
            (Workspace::new(&graph, 1), vec![0.5; graph.parameter_count()]);
        step.forward(&graph, &slopes, &mut workspace);
        assert!(step.logits[0].is_nan(), "{of:?}");
        for (x, y) in step.x[1..6].iter().zip(&step.logits[1..]) {
            let expected = function(of, *x, 0.5);
            assert!((y - expected).abs() < 1e-12, "{of:?} of {x} is {y}, not {expected}");
        }
        step.d_logits.fill(1.0);
        step.backward(&graph, &slopes, &mut workspace);
        let expected = match of {
            Function::Relu => [1.0, 0.0],
            Function::Sigmoid | Function::Tanh => [0.0, 0.0],
            Function::Gelu | Function::Silu => [1.0, 0.0],
            Function::Prelu => [1.0, 0.5],
        };
        let mut found = step.d_x[1..3].iter().zip(expected);
        assert!(found.all(|(d, expected)| (d - expected).abs() < 1e-290), "{of:?}");
    }
}

#[test]
fn of_products_and_gates() {
    for columns in SIZES {
        let graph = alone(Multiply, &[columns, columns]);
        check(&format!("{columns}"), &graph, |x, _| {
            (0..columns).map(|i| x[i] * x[columns + i]).collect()
        });
        let gated = |x: &[f64], gate: f64| x.iter().map(|x| gate * x).collect();
        let graph = alone(Multiply, &[1, columns]);
        check(&format!("gate and {columns}"), &graph, |x, _| gated(&x[1..], x[0]));
        let graph = alone(Multiply, &[columns, 1]);
        check(&format!("{columns} and gate"), &graph, |x, _| gated(&x[..columns], x[columns]));
    }
}

#[test]
fn of_mixtures() {
    for (experts, columns) in SIZES.into_iter().flat_map(|columns| [(1, columns), (4, columns)]) {
        let expert = |of: usize| experts + of * columns..experts + (of + 1) * columns;
        let inputs = [vec![experts], vec![columns; experts]].concat();
        let graph = alone(Mixture { experts, columns }, &inputs);
        check(&format!("{experts} of {columns}"), &graph, |x, _| {
            let powers: Vec<f64> = x[..experts].iter().map(|z| z.exp()).collect();
            let all = powers.iter().sum::<f64>();
            let term = |of: usize, lane: usize| powers[of] / all * x[expert(of)][lane];
            (0..columns).map(|lane| (0..experts).map(|of| term(of, lane)).sum()).collect()
        });
    }
}

/// Gates stay finite however large their logits are, and NaN shows.
#[test]
fn of_mixtures_with_large_logits() {
    let graph = alone(Mixture { experts: 2, columns: 1 }, &[2, 1, 1]);
    let mut step = Step::new(&graph, 3);
    let rows = [[1e5, -1e5, 3.0, 5.0], [-7e4, -7e4, 3.0, 5.0], [f64::NAN, 0.0, 3.0, 5.0]];
    for (x, row) in step.x.chunks_mut(step.stride).zip(rows) {
        x[..4].copy_from_slice(&row);
    }
    step.forward(&graph, &[], &mut Workspace::new(&graph, 3));
    assert_eq!(step.logits[..2], [3.0, 4.0]);
    assert!(step.logits[2].is_nan());
}
