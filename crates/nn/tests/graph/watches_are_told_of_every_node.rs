//! An observer of a graph is called for every node once per pass, in order, and changes nothing.

use crate::common::Step;
use stepwell_nn::{Flops, NodeId, PassObserver, Workspace};

#[derive(Default)]
struct Told(Vec<NodeId>);

impl PassObserver for Told {
    fn passed(&mut self, node: NodeId) {
        self.0.push(node);
    }
}

#[test]
fn once_a_pass_and_in_order() {
    for (name, graph) in crate::common::in_both_precisions() {
        let parameters = graph.initial_parameters(11);
        let in_order: Vec<NodeId> = (0..graph.node_names().count()).map(NodeId).collect();
        let mut workspace = Workspace::new(&graph, 33);
        for rows in [33, 1, 0] {
            let (mut forward, mut backward) = (Told::default(), Told::default());
            let mut watched = Step::new(&graph, rows);
            let passes = graph.watched(&mut forward);
            watched.forward_by(&graph, passes, &parameters, &mut workspace);
            let passes = graph.watched(&mut backward);
            watched.backward_by(&graph, passes, &parameters, &mut workspace);
            assert_eq!(forward.0, in_order, "{name} {rows}");
            backward.0.reverse();
            assert_eq!(backward.0, in_order, "{name} {rows}");
            let mut alone = Step::new(&graph, rows);
            alone.forward(&graph, &parameters, &mut workspace);
            alone.backward(&graph, &parameters, &mut workspace);
            assert_eq!(watched, alone, "{name} {rows}");
        }
    }
}

#[test]
fn work_of_nodes_adds_up() {
    for (name, graph) in crate::common::every::<f32>() {
        assert_eq!(graph.node_flops().count(), graph.node_names().count());
        let mut sum = Flops::default();
        for node in graph.node_flops() {
            sum.forward += node.forward;
            sum.backward += node.backward;
        }
        assert_eq!(sum, graph.flops_per_example(), "{name}");
    }
    let graph = crate::common::wide_deep::<f32>();
    let forward: Vec<u64> = graph.node_flops().map(|node| node.forward).collect();
    assert_eq!(forward, [2 * 9 * 9 + 9, 2 * 9 * 5 + 5, 2 * 5 + 1, 1]);
}
