//! The passes of a graph, and who is told of them node by node.

use super::weights::{PackedWeights, Weights};
use super::{Block, BlockGradients, Graph, NodeId, Workspace};
use crate::layer::{Purpose, clear_columns};
use crate::{MatrixMut, Scalar};

/// Told how a pass over a block goes, on the thread that runs it.
///
/// What happens from the start of a pass, or from the node before, until a node is told belongs to
/// that node, so a clock is read once a node. Nothing that an observer does reaches the numbers.
pub trait PassObserver {
    /// The pass of `node` over the block has ended; in execution order forwards, in reverse order
    /// backwards.
    fn passed(&mut self, node: NodeId);
}

/// Nobody listens: this costs nothing.
impl PassObserver for () {
    #[inline(always)]
    fn passed(&mut self, _node: NodeId) {}
}

/// A graph whose passes are told to an observer.
#[derive(Debug)]
pub struct Watched<'a, T: 'static, W> {
    graph: &'a Graph<T>,
    watch: &'a mut W,
    packed: Option<&'a PackedWeights>,
    purpose: Purpose<'a, T>,
}

impl<T: Scalar> Graph<T> {
    /// The same graph, telling `watch`.
    pub fn watched<'a, W: PassObserver>(&'a self, watch: &'a mut W) -> Watched<'a, T, W> {
        Watched { graph: self, watch, packed: None, purpose: Purpose::default() }
    }
}

impl<'a, T: Scalar, W: PassObserver> Watched<'a, T, W> {
    /// The same, reading weights that were packed of the very parameters that it will be given.
    pub fn with_packed(self, packed: &'a PackedWeights) -> Self {
        Self { packed: Some(packed), ..self }
    }

    /// The same for another purpose than training of which nobody wants statistics.
    pub fn with_purpose(self, purpose: Purpose<'a, T>) -> Self {
        Self { purpose, ..self }
    }

    /// As [`Graph::forward`].
    pub fn forward(
        self,
        parameters: &[T],
        block: &Block<'_, T>,
        workspace: &mut Workspace<T>,
        logits: &mut [T], // (rows, outputs)
    ) {
        let Self { graph, watch, packed, mut purpose } = self;
        let weights = Weights { parameters, packed };
        let rows = graph.check(parameters, block, workspace);
        purpose.check(graph.state_count(), graph.statistics_count());
        assert_eq!(logits.len(), rows * graph.outputs(), "the logits of each example");
        for index in 0..graph.nodes.len() {
            let node = &graph.nodes[index];
            let purpose = purpose.of_node(node.state.clone(), node.statistics.clone());
            graph.forward_node(index, weights, block, workspace, purpose);
            watch.passed(NodeId(index));
        }
        if let Some(layout) = graph.layouts.last() {
            let range = layout.range(layout.value, rows, workspace.rows_max);
            logits.copy_from_slice(&workspace.values[range]);
        }
    }

    /// As [`Graph::backward`], after a forward pass that trains.
    pub fn backward(
        self,
        parameters: &[T],
        block: &Block<'_, T>,
        d_logits: &[T], // (rows, outputs)
        workspace: &mut Workspace<T>,
        mut gradients: BlockGradients<'_, T>,
    ) {
        let Self { graph, watch, packed, .. } = self;
        let weights = Weights { parameters, packed };
        let rows = graph.check(parameters, block, workspace);
        assert_eq!(d_logits.len(), rows * graph.outputs(), "one gradient per logit");
        let of = &mut gradients;
        assert_eq!(of.x.len(), rows * graph.input.embedding, "one gradient per embedding value");
        assert_eq!(of.parameters.len(), graph.parameter_count, "one gradient per parameter");
        let first_order = if graph.reads_first_order() { rows } else { of.first_order.len() };
        assert_eq!(of.first_order.len(), first_order, "one gradient per first-order value");
        let mut d_x = MatrixMut::packed(of.x, rows, graph.input.embedding);
        graph.untouched.iter().for_each(|columns| clear_columns(&mut d_x, columns));
        if let Some(layout) = graph.layouts.last() {
            let range = layout.range(layout.gradient, rows, workspace.rows_max);
            workspace.gradients[range].copy_from_slice(d_logits);
        }
        for index in (0..graph.nodes.len()).rev() {
            graph.backward_node(index, weights, block, workspace, of);
            watch.passed(NodeId(index));
        }
    }
}
