//! A graph that multiplies in bf16 gives what f32 gives, up to the rounding of operands.

use crate::common::{Step, all};
use stepwell_nn::{Graph, Precision, Workspace};

/// Examples of a step.
const ROWS: usize = 37;

fn run(graph: &Graph<f32>) -> Step<f32> {
    let parameters = graph.initial_parameters(5);
    let mut workspace = Workspace::new(graph, ROWS);
    let mut step = Step::new(graph, ROWS);
    step.forward(graph, &parameters, &mut workspace);
    step.backward(graph, &parameters, &mut workspace);
    step
}

#[test]
fn results_are_near_and_not_the_same() {
    for (name, graph) in all::<f32>() {
        let full = run(&graph);
        let half = run(&graph.with_precision(Precision::Bf16));
        // Two operands off by at most 2^-9 each, a few layers deep.
        let (far, size) = (off(&full.logits, &half.logits), norm(&full.logits));
        assert!(far <= 0.02 * size, "{name} logits: off by {far} of {size}");
        // By example: a rectifier whose sum is near zero may change sides, and with it the
        // gradient of its example.
        let columns = full.d_x.len() / ROWS;
        let near = |row: &usize| {
            let lanes = row * columns..(row + 1) * columns;
            off(&full.d_x[lanes.clone()], &half.d_x[lanes.clone()]) <= 0.02 * norm(&full.d_x[lanes])
        };
        let count = (0..ROWS).filter(near).count();
        assert!(count * 10 >= ROWS * 9, "{name} d_x: {count} of {ROWS} examples are near");
        let (off, size) = (off(&full.gradients, &half.gradients), norm(&full.gradients));
        // Sums over all examples, those few included.
        assert!(off <= 0.25 * size, "{name} gradients: off by {off} of {size}");
        assert!(name == "wide_only" || off > 0.0, "{name}: nothing was rounded");
    }
}

fn norm(lanes: &[f32]) -> f64 {
    lanes.iter().map(|lane| f64::from(*lane).powi(2)).sum::<f64>().sqrt()
}

fn off(full: &[f32], half: &[f32]) -> f64 {
    norm(&full.iter().zip(half).map(|(f, h)| f - h).collect::<Vec<f32>>())
}

#[test]
fn only_products_are_rounded() {
    let graph = crate::common::wide_only::<f32>();
    let full = run(&graph);
    assert_eq!(full, run(&graph.with_precision(Precision::Bf16)));
}
