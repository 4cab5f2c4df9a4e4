//! Attention to sequences of unequal length, in blocks of many chunks.

#![expect(clippy::unwrap_used, reason = "the tests' own graphs are well formed")]

use crate::common::{Step, numbers};
use stepwell_nn::{
    Graph, GraphBuilder, InputShape, MultiHeadAttention, Source, TargetAttention, Workspace,
};

const LENGTHS: [f64; 8] = [3.0, 0.0, 7.0, 1.9, -2.0, 1e9, f64::NAN, 4.0];
const STEPS: [usize; 8] = [3, 0, 7, 1, 0, 7, 7, 4];

/// A graph with only this layer.
fn alone(layer: TargetAttention) -> Graph<f64> {
    let TargetAttention { dim, steps_max, .. } = layer;
    let end = dim + steps_max * dim;
    let mut builder = GraphBuilder::new(InputShape { embedding: end, dense: 1 });
    let inputs = [0..dim, dim..end, end..end + 1].map(Source::Columns);
    builder.add("layer", layer, &inputs).unwrap();
    builder.build().unwrap()
}

fn layers() -> [TargetAttention; 3] {
    let of = |dim, hidden| TargetAttention { dim, steps_max: 7, hidden };
    [of(1, 1), of(3, 4), of(18, 5)]
}

/// A step whose vectors past the end of their sequence are NaN, after both passes.
fn step(graph: &Graph<f64>, dim: usize, rows: usize, parameters: &[f64]) -> Step<f64> {
    let mut step = Step::new(graph, rows);
    for (row, x) in step.x.chunks_mut(step.stride).enumerate() {
        x[dim + STEPS[row % 8] * dim..8 * dim].fill(f64::NAN);
        x[8 * dim] = LENGTHS[row % 8];
    }
    let mut workspace = Workspace::new(graph, rows);
    step.forward(graph, parameters, &mut workspace);
    step.backward(graph, parameters, &mut workspace);
    step
}

fn attended(layer: &TargetAttention, x: &[f64], parameters: &[f64], steps: usize) -> Vec<f64> {
    let (dim, hidden) = (layer.dim, layer.hidden);
    let (q, vectors) = x.split_at(dim);
    let (of_hidden, rest) = parameters.split_at(hidden * 4 * dim);
    let mut y = vec![0.0; dim];
    for s in vectors.chunks(dim).take(steps) {
        let difference: Vec<f64> = q.iter().zip(s).map(|(q, s)| q - s).collect();
        let product: Vec<f64> = q.iter().zip(s).map(|(q, s)| q * s).collect();
        let features = [q, s, &difference, &product].concat();
        let mut a = rest[2 * hidden];
        for lane in 0..hidden {
            let weights = of_hidden[lane * 4 * dim..].iter();
            let z: f64 = features.iter().zip(weights).map(|(f, w)| f * w).sum();
            a += rest[hidden + lane] / (1.0 + (-z - rest[lane]).exp());
        }
        y.iter_mut().zip(s).for_each(|(y, s)| *y += a * s);
    }
    y
}

/// Values past the end of a sequence are never read, and have gradient 0.
#[test]
fn of_sequences_of_unequal_length() {
    for layer in layers() {
        let (graph, dim) = (alone(layer), layer.dim);
        let parameters = numbers("parameters", graph.parameter_count());
        let step = step(&graph, dim, 150, &parameters);
        let rows = step.x.chunks(step.stride).zip(step.logits.chunks(dim));
        for (row, (x, found)) in rows.enumerate() {
            let expected = attended(&layer, x, &parameters, STEPS[row % 8]);
            for (found, expected) in found.iter().zip(&expected) {
                assert!((found - expected).abs() < 1e-12, "{layer:?} {row}: {found} {expected}");
            }
        }
        for (row, d_x) in step.d_x.chunks(8 * dim).enumerate() {
            let end = dim + STEPS[row % 8] * dim;
            let (counts, rest) = d_x.split_at(if STEPS[row % 8] == 0 { 0 } else { end });
            assert!(counts.iter().all(|d| *d != 0.0 && d.is_finite()), "{layer:?} {row}");
            assert!(rest.iter().all(|d| *d == 0.0), "{layer:?} {row}");
        }
    }
}

/// The gradients of a block of several chunks are sums of those of its examples.
#[test]
fn of_many_sequences_and_of_each_alone() {
    for layer in layers() {
        let (graph, dim, rows) = (alone(layer), layer.dim, 150);
        let parameters = numbers("parameters", graph.parameter_count());
        let together = step(&graph, dim, rows, &parameters);
        let mut sums = vec![0.0; graph.parameter_count()];
        let mut workspace = Workspace::new(&graph, 1);
        for row in 0..rows {
            let mut own = Step::new(&graph, 1);
            own.x.copy_from_slice(&together.x[row * own.stride..(row + 1) * own.stride]);
            own.forward(&graph, &parameters, &mut workspace);
            own.d_logits.copy_from_slice(&together.d_logits[row * dim..(row + 1) * dim]);
            own.backward(&graph, &parameters, &mut workspace);
            sums.iter_mut().zip(&own.gradients).for_each(|(sum, d)| *sum += *d);
            let of_row = &together.d_x[row * 8 * dim..(row + 1) * 8 * dim];
            let mut pairs = of_row.iter().zip(&own.d_x);
            assert!(pairs.all(|(a, b)| (a - b).abs() < 1e-12), "{layer:?} {row}");
        }
        let mut pairs = sums.iter().zip(&together.gradients);
        assert!(pairs.all(|(a, b)| (a - b).abs() < 1e-12), "{layer:?}");
        assert!(together.gradients.iter().all(|d| *d != 0.0), "{layer:?}");
    }
}

/// Averages of vectors, by the softmax of their dot products with each query.
fn heads(x: &[f64], layer: MultiHeadAttention, steps: usize) -> Vec<f64> {
    let MultiHeadAttention { heads, dim, .. } = layer;
    let (queries, vectors) = x.split_at(heads * dim);
    let vectors: Vec<&[f64]> = vectors.chunks(dim).take(steps).collect();
    let of_head = |q: &[f64]| {
        let weight = |s: &&[f64]| {
            let product: f64 = q.iter().zip(*s).map(|(q, s)| q * s).sum();
            (product / (dim as f64).sqrt()).exp()
        };
        let weights: Vec<f64> = vectors.iter().map(weight).collect();
        let total: f64 = weights.iter().sum();
        let lane = |lane: usize| {
            let terms = vectors.iter().zip(&weights).map(|(s, weight)| s[lane] * weight);
            terms.sum::<f64>() / if steps == 0 { 1.0 } else { total }
        };
        (0..dim).map(lane).collect::<Vec<f64>>()
    };
    queries.chunks(dim).flat_map(of_head).collect()
}

#[test]
fn heads_average_the_steps_that_count() {
    for (count, dim) in [(1, 1), (3, 4), (2, 18)] {
        let layer = MultiHeadAttention { heads: count, dim, steps_max: 7 };
        let (of_queries, end) = (count * dim, count * dim + 7 * dim);
        let mut builder = GraphBuilder::new(InputShape { embedding: end, dense: 1 });
        let inputs = [0..of_queries, of_queries..end, end..end + 1].map(Source::Columns);
        builder.add("layer", layer, &inputs).unwrap();
        let graph: Graph<f64> = builder.build().unwrap();
        let mut step = Step::new(&graph, 24);
        for (row, x) in step.x.chunks_mut(step.stride).enumerate() {
            x[of_queries + STEPS[row % 8] * dim..end].fill(f64::NAN);
            x[end] = LENGTHS[row % 8];
        }
        let mut workspace = Workspace::new(&graph, 24);
        step.forward(&graph, &[], &mut workspace);
        step.backward(&graph, &[], &mut workspace);
        let rows = step.x.chunks(step.stride).zip(step.logits.chunks(of_queries));
        for (row, (x, found)) in rows.enumerate() {
            let expected = heads(&x[..end], layer, STEPS[row % 8]);
            for (found, expected) in found.iter().zip(&expected) {
                assert!((found - expected).abs() < 1e-12, "{layer:?} {row}: {found} {expected}");
            }
        }
        for (row, d_x) in step.d_x.chunks(end).enumerate() {
            let rest = &d_x[of_queries + STEPS[row % 8] * dim..];
            assert!(rest.iter().all(|d| *d == 0.0), "{layer:?} {row}");
            assert!(d_x.iter().all(|d| d.is_finite()), "{layer:?} {row}");
        }
    }
}
