//! Compares every gradient of every graph with central differences of the loss, in f64.

use crate::common::{Step, numbers};
use stepwell_nn::{Graph, Workspace};

const H: f64 = 1e-6;

fn close(slope: f64, gradient: f64) -> bool {
    (slope - gradient).abs() < 2e-8 + 1e-6 * gradient.abs()
}

/// Slope of the mean loss when `bump` changes something by its argument.
fn slope(
    graph: &Graph<f64>,
    step: &Step<f64>,
    parameters: &[f64],
    mut bump: impl FnMut(&mut Step<f64>, &mut Vec<f64>, f64),
) -> f64 {
    let mut workspace = Workspace::new(graph, step.rows);
    let mut loss = |by: f64| {
        let (mut step, mut parameters) = (step.clone(), parameters.to_vec());
        bump(&mut step, &mut parameters, by);
        step.forward(graph, &parameters, &mut workspace)
    };
    (loss(H) - loss(-H)) / (2.0 * H)
}

fn check(name: &str, graph: &Graph<f64>, rows: usize) {
    let mut workspace = Workspace::new(graph, rows + 2);
    let mut parameters = graph.initial_parameters(3);
    // Weights that start at a constant move away from it.
    let moves = numbers::<f64>("moves", parameters.len());
    parameters.iter_mut().zip(moves).for_each(|(lane, by)| *lane += 0.1 * by);
    let mut step = Step::new(graph, rows);
    step.forward(graph, &parameters, &mut workspace);
    step.backward(graph, &parameters, &mut workspace);
    for (index, gradient) in step.gradients.iter().enumerate() {
        let slope = slope(graph, &step, &parameters, |_, p, by| p[index] += by);
        assert!(close(slope, *gradient), "{name} {rows}: parameter {index} {slope} {gradient}");
    }
    let embedding = graph.input().embedding;
    for (index, gradient) in step.d_x.iter().enumerate() {
        let at = index / embedding * step.stride + index % embedding;
        let slope = slope(graph, &step, &parameters, |s, _, by| s.x[at] += by);
        assert!(close(slope, *gradient), "{name} {rows}: input {index} {slope} {gradient}");
    }
    for (index, gradient) in step.d_first_order.iter().enumerate() {
        let slope = slope(graph, &step, &parameters, |s, _, by| s.first_order[index] += by);
        assert!(close(slope, *gradient), "{name} {rows}: first order {index} {slope} {gradient}");
    }
}

#[test]
fn of_all_graphs_and_block_sizes() {
    for (name, graph) in crate::common::every::<f64>() {
        for rows in [0, 1, 3, 8] {
            check(name, &graph, rows);
        }
    }
}
