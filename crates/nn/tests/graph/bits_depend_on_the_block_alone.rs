//! f32 results have the same bits regardless of earlier runs and of the workspace.

use crate::common::Step;
use stepwell_nn::{Graph, Precision, Workspace};

fn bits(step: &Step<f32>) -> Vec<u32> {
    let results = [&step.logits, &step.d_logits, &step.d_x, &step.d_first_order, &step.gradients];
    results.into_iter().flatten().map(|lane| lane.to_bits()).collect()
}

fn run(graph: &Graph<f32>, rows: usize, workspace: &mut Workspace<f32>) -> Vec<u32> {
    let parameters = graph.initial_parameters(11);
    let mut step = Step::new(graph, rows);
    step.forward(graph, &parameters, workspace);
    step.backward(graph, &parameters, workspace);
    bits(&step)
}

/// Fills a workspace with NaN by training on it.
fn poison(graph: &Graph<f32>, rows: usize, workspace: &mut Workspace<f32>) {
    let parameters = vec![f32::NAN; graph.parameter_count()];
    let mut step = Step::new(graph, rows);
    step.x.fill(f32::NAN);
    step.first_order.fill(f32::NAN);
    step.forward(graph, &parameters, workspace);
    step.backward(graph, &parameters, workspace);
    assert!(step.logits.iter().all(|z| z.is_nan()), "divergence shows in the logits");
}

#[test]
fn workspaces_leave_no_trace() {
    for (name, graph) in crate::common::in_both_precisions() {
        let mut used = Workspace::new(&graph, 40);
        for rows in [33, 1, 0, 8, 40, 3] {
            let fresh = run(&graph, rows, &mut Workspace::new(&graph, rows));
            let again = run(&graph, rows, &mut used);
            assert_eq!(fresh, again, "{name} {rows} after other blocks");
            assert_eq!(fresh, run(&graph, rows, &mut used), "{name} {rows} repeated");
            poison(&graph, 40, &mut used);
            assert_eq!(fresh, run(&graph, rows, &mut used), "{name} {rows} after poison");
        }
    }
}

#[test]
fn threads_share_a_graph() {
    for precision in Precision::ALL {
        let graph = crate::common::deepfm::<f32>().with_precision(precision);
        let alone = run(&graph, 37, &mut Workspace::new(&graph, 37));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut workspace = Workspace::new(&graph, 64);
                    (0..20).for_each(|_| assert_eq!(run(&graph, 37, &mut workspace), alone));
                });
            }
        });
    }
}
