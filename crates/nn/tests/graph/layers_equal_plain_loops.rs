//! Compares image and sequence layers with loops that follow their definitions.

#![expect(clippy::unwrap_used, reason = "the tests' own graphs are well formed")]

use crate::common::{GAP, Step, numbers};
use crate::networks::window;
use stepwell_nn::{
    Activation, Convolution, FourierFeatures, Graph, GraphBuilder, Image, InputShape, Layer, Lstm,
    Pool, Pooling, Source, Window, Workspace,
};

const ROWS: usize = 3;

/// A graph with only this layer over all columns.
fn alone(layer: impl Layer<f64> + 'static, inputs: usize) -> Graph<f64> {
    let mut builder = GraphBuilder::new(InputShape { embedding: inputs, dense: 0 });
    builder.add("layer", layer, &[Source::Columns(0..inputs)]).unwrap();
    builder.build().unwrap()
}

/// Inputs and outputs of each example.
fn outputs(graph: &Graph<f64>, parameters: &[f64]) -> Vec<(Vec<f64>, Vec<f64>)> {
    let mut step = Step::new(graph, ROWS);
    step.forward(graph, parameters, &mut Workspace::new(graph, ROWS));
    let outputs = step.logits.chunks(graph.outputs()).map(<[f64]>::to_vec);
    let inputs = step.x.chunks(step.stride).map(|row| row[..graph.input().embedding].to_vec());
    inputs.zip(outputs).collect()
}

fn check(what: &str, found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert!((found - expected).abs() < 1e-12, "{what}: {index} is {found}, not {expected}");
    }
}

/// The value at a row and column of a plane; `None` in the padding.
fn at(image: &Image, lanes: &[f64], channel: usize, [y, x]: [isize; 2]) -> Option<f64> {
    let (y, x) = (usize::try_from(y).ok()?, usize::try_from(x).ok()?);
    let inside = y < image.height && x < image.width;
    inside.then(|| lanes[(channel * image.height + y) * image.width + x])
}

/// Rows and columns of the plane or its padding that a window covers at a place.
fn covered(window: &Window, [y, x]: [usize; 2]) -> Vec<[isize; 2]> {
    let start = |side: usize, place: usize| {
        (place * window.stride[side]) as isize - window.padding[side] as isize
    };
    let rows = start(0, y)..start(0, y) + window.kernel[0] as isize;
    let columns = start(1, x)..start(1, x) + window.kernel[1] as isize;
    rows.flat_map(|row| columns.clone().map(move |column| [row, column])).collect()
}

/// Images and windows: square or not, with strides and padding, as large as the plane and larger.
fn shapes() -> Vec<(Image, Window)> {
    let image = |channels, height, width| Image { channels, height, width };
    let narrow = Window { kernel: [2, 3], stride: [3, 1], padding: [0, 2] };
    vec![
        (image(1, 1, 1), window(1, 1, 0)),
        (image(1, 7, 7), window(3, 1, 1)),
        (image(3, 6, 4), window(2, 2, 0)),
        (image(2, 5, 9), window(5, 2, 4)),
        (image(2, 4, 3), window(6, 1, 2)),
        (image(4, 8, 5), narrow),
        (image(2, 3, 2), window(7, 1, 3)),
        (image(3, 5, 3), Window { kernel: [2, 3], stride: [1; 2], padding: [0, 1] }),
        (image(2, 3, 6), Window { kernel: [3, 5], stride: [1; 2], padding: [2, 2] }),
        (image(1, 12, 20), Window { kernel: [1, 20], stride: [5, 1], padding: [0; 2] }),
    ]
}

fn convolved(layer: &Convolution, x: &[f64], parameters: &[f64]) -> Vec<f64> {
    let (image, output) = (layer.image, layer.output().unwrap());
    let area = layer.window.area();
    let weights = layer.channels * image.channels * area;
    let mut y = Vec::new();
    for channel in 0..layer.channels {
        for place in 0..output.height * output.width {
            let place = [place / output.width, place % output.width];
            let mut sum = if layer.bias { parameters[weights + channel] } else { 0.0 };
            for of in 0..image.channels {
                for (index, value) in covered(&layer.window, place).into_iter().enumerate() {
                    let weight = parameters[(channel * image.channels + of) * area + index];
                    sum += at(&image, x, of, value).unwrap_or(0.0) * weight;
                }
            }
            y.push(if layer.activation == Activation::Relu { sum.max(0.0) } else { sum });
        }
    }
    y
}

#[test]
fn of_convolutions() {
    for (image, window) in shapes() {
        for (channels, bias, activation) in
            [(1, false, Activation::Identity), (5, true, Activation::Relu)]
        {
            let layer = Convolution { image, channels, window, bias, activation };
            let graph = alone(layer, image.columns());
            let parameters = numbers("parameters", graph.parameter_count());
            for (x, y) in outputs(&graph, &parameters) {
                check(&format!("{layer:?}"), &y, &convolved(&layer, &x, &parameters));
            }
        }
    }
}

fn pooled(layer: &Pooling, x: &[f64]) -> Vec<f64> {
    let (image, output) = (layer.image, layer.output().unwrap());
    let mut y = Vec::new();
    for channel in 0..image.channels {
        for place in 0..output.height * output.width {
            let place = [place / output.width, place % output.width];
            let values = covered(&layer.window, place).into_iter();
            let values: Vec<f64> =
                values.filter_map(|value| at(&image, x, channel, value)).collect();
            y.push(match layer.pool {
                Pool::Max => values.into_iter().fold(f64::NEG_INFINITY, f64::max),
                Pool::Average => values.iter().sum::<f64>() / values.len() as f64,
            });
        }
    }
    y
}

#[test]
fn of_poolings() {
    for (image, window) in shapes() {
        for pool in [Pool::Max, Pool::Average] {
            let layer = Pooling { image, window, pool };
            for (x, y) in outputs(&alone(layer, image.columns()), &[]) {
                check(&format!("{layer:?}"), &y, &pooled(&layer, &x));
            }
        }
    }
}

/// The first of equal values gets the gradient; NaN propagates, and has no gradient.
#[test]
fn of_poolings_of_equal_values_and_of_what_is_no_number() {
    let image = Image { channels: 1, height: 2, width: 6 };
    let layer = Pooling { image, window: window(2, 2, 0), pool: Pool::Max };
    let (graph, nan) = (alone(layer, 12), f64::NAN);
    let mut step = Step::new(&graph, 1);
    step.x[..12].copy_from_slice(&[1.0, 3.0, -2.0, -2.0, 5.0, 9.0, 3.0, 3.0, -2.0, -2.0, nan, 4.0]);
    let mut workspace = Workspace::new(&graph, 1);
    step.forward(&graph, &[], &mut workspace);
    assert_eq!(step.logits[..2], [3.0, -2.0]);
    assert!(step.logits[2].is_nan());
    step.d_logits.copy_from_slice(&[0.5, 0.25, 7.0]);
    step.backward(&graph, &[], &mut workspace);
    assert_eq!(step.d_x, [0.0, 0.5, 0.25, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
}

fn remembered(layer: &Lstm, x: &[f64], parameters: &[f64], length: usize) -> Vec<f64> {
    let (h, inputs) = (layer.outputs, layer.inputs);
    let (of_inputs, rest) = parameters.split_at(4 * h * inputs);
    let (of_hidden, biases) = rest.split_at(4 * h * h);
    let (mut hidden, mut cells) = (vec![0.0; h], vec![0.0; h]);
    for x in x.chunks(inputs).take(length) {
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let sum = |gate: usize, lane: usize| {
            let row = gate * h + lane;
            let hidden = dot(&of_hidden[row * h..(row + 1) * h], &hidden);
            dot(&of_inputs[row * inputs..(row + 1) * inputs], x) + hidden + biases[row]
        };
        let sigmoid = |z: f64| 1.0 / (1.0 + (-z).exp());
        let next = (0..h).map(|lane| {
            let [f, i, o] = [0, 1, 3].map(|gate| sigmoid(sum(gate, lane)));
            let cell = f * cells[lane] + i * sum(2, lane).tanh();
            (cell, o * cell.tanh())
        });
        (cells, hidden) = next.collect::<Vec<_>>().into_iter().unzip();
    }
    hidden
}

/// Values past the end of a sequence are never read.
#[test]
fn of_sequences_of_unequal_length() {
    let lengths = [3.0, 0.0, 5.0, 1.9, -2.0, 1e9, f64::NAN, 4.0];
    let steps = [3, 0, 5, 1, 0, 5, 5, 4];
    for (inputs, outputs) in [(1, 1), (3, 2), (2, 7)] {
        let layer = Lstm { inputs, outputs, steps_max: 5, remembers: false };
        let columns = 5 * inputs;
        let graph = alone(layer, columns + 1);
        let parameters = numbers("parameters", graph.parameter_count());
        let mut step = Step::new(&graph, lengths.len());
        for (row, (length, steps)) in
            step.x.chunks_mut(columns + 1 + GAP).zip(lengths.iter().zip(steps))
        {
            row[steps * inputs..columns].fill(f64::NAN);
            row[columns] = *length;
        }
        let mut workspace = Workspace::new(&graph, lengths.len());
        step.forward(&graph, &parameters, &mut workspace);
        step.backward(&graph, &parameters, &mut workspace);
        let rows = step.x.chunks(step.stride).zip(step.logits.chunks(outputs));
        for ((x, y), steps) in rows.zip(steps) {
            check(&format!("{layer:?} {steps}"), y, &remembered(&layer, x, &parameters, steps));
        }
        assert!(step.gradients.iter().all(|gradient| gradient.is_finite()));
        for (d_x, steps) in step.d_x.chunks(columns + 1).zip(steps) {
            assert!(d_x[..steps * inputs].iter().all(|d| *d != 0.0 && d.is_finite()));
            assert!(d_x[steps * inputs..].iter().all(|d| *d == 0.0));
        }
    }
}

/// The first three were computed in Python with xxhash.xxh3_64_intdigest, SplitMix64, math.log and
/// math.cos, with weights rounded to f32.
#[test]
fn of_fourier_features() {
    let features = |x: [f64; 2], outputs: usize| {
        let graph = alone(FourierFeatures::new(2, outputs, 2.5, 9), 2);
        let mut step = Step::new(&graph, 1);
        step.x[..2].copy_from_slice(&x);
        step.forward(&graph, &[], &mut Workspace::new(&graph, 1));
        step.logits
    };
    let expected = [-0.659_824_634_811_667, 0.696_577_087_473_773, -0.176_146_296_536_756_65];
    check("published", &features([0.5, -1.0], 3), &expected);
    let (count, points) = (20_000, [[0.5, -1.0], [0.0, 0.0], [3.0, 2.0], [-1.0, -1.5]]);
    let all = points.map(|point| features(point, count));
    for (point, of_point) in points.iter().zip(&all) {
        for (other, of_other) in points.iter().zip(&all) {
            let product: f64 = of_point.iter().zip(of_other).map(|(a, b)| a * b).sum();
            let apart: f64 = point.iter().zip(other).map(|(a, b)| (a - b).powi(2)).sum();
            let kernel = (-apart / (2.0 * 2.5 * 2.5)).exp();
            // Four standard deviations of a mean of `count` products.
            assert!((product - kernel).abs() < 4.0 / (count as f64).sqrt(), "{product} {kernel}");
        }
    }
}
