//! A graph that multiplies in bf16 gives what f32 gives, up to the rounding of operands.

use crate::common::{Step, all};
use stepwell_nn::{Graph, Precision, Workspace};

fn run(graph: &Graph<f32>) -> Step<f32> {
    let parameters = graph.initial_parameters(5);
    let mut workspace = Workspace::new(graph, 37);
    let mut step = Step::new(graph, 37);
    step.forward(graph, &parameters, &mut workspace);
    step.backward(graph, &parameters, &mut workspace);
    step
}

#[test]
fn results_are_near_and_not_the_same() {
    for (name, graph) in all::<f32>() {
        let full = run(&graph);
        let half = run(&graph.with_precision(Precision::Bf16));
        let results = [
            ("logits", &full.logits, &half.logits),
            ("d_x", &full.d_x, &half.d_x),
            ("gradients", &full.gradients, &half.gradients),
        ];
        for (what, full, half) in results {
            let norm = |lanes: &mut dyn Iterator<Item = f32>| -> f64 {
                lanes.map(|lane| f64::from(lane).powi(2)).sum::<f64>().sqrt()
            };
            let off = norm(&mut full.iter().zip(half).map(|(f, h)| f - h));
            let size = norm(&mut full.iter().copied());
            // Two operands off by at most 2^-9 each, a few layers deep.
            assert!(off <= 0.02 * size, "{name} {what}: off by {off} of {size}");
            let products = name != "wide_only";
            assert!(!products || what == "d_x" || off > 0.0, "{name} {what}: nothing was rounded");
        }
    }
}

#[test]
fn only_products_are_rounded() {
    let graph = crate::common::wide_only::<f32>();
    let full = run(&graph);
    assert_eq!(full, run(&graph.with_precision(Precision::Bf16)));
}
