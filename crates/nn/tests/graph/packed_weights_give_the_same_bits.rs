//! Prepacked weights don't change any bits, and must be repacked when they change.

use crate::common::{Step, in_both_precisions};
use stepwell_nn::{Graph, PackedWeights, Workspace};

/// Examples per step.
const ROWS: usize = 33;

fn run(graph: &Graph<f32>, parameters: &[f32], packed: Option<&PackedWeights>) -> Step<f32> {
    let (mut first, mut second) = ((), ());
    let (mut forward, mut backward) = (graph.watched(&mut first), graph.watched(&mut second));
    if let Some(packed) = packed {
        (forward, backward) = (forward.with_packed(packed), backward.with_packed(packed));
    }
    let (mut workspace, mut step) = (Workspace::new(graph, ROWS), Step::new(graph, ROWS));
    step.forward_by(graph, forward, parameters, &mut workspace);
    step.backward_by(graph, backward, parameters, &mut workspace);
    step
}

#[test]
fn of_all_graphs_in_both_precisions() {
    for (name, graph) in in_both_precisions() {
        let mut packed = graph.packed_weights();
        for seed in [3, 4] {
            let parameters = graph.initial_parameters(seed);
            packed.parts_mut().iter_mut().for_each(|part| graph.pack(&parameters, part));
            let with = run(&graph, &parameters, Some(&packed));
            assert_eq!(with, run(&graph, &parameters, None), "{name} {seed}");
        }
    }
}
