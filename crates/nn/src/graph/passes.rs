//! Passes of a graph, with an observer of each node.

use super::weights::{PackedWeights, Weights};
use super::{Block, BlockGradients, Graph, Workspace};
use crate::gemm::Scalar;
use crate::layer::{NodeId, Purpose, Source, clear_columns};
use crate::matrix::{Matrix, MatrixMut};

/// Observes a pass over a block, on the thread that runs it.
///
/// All work since the start of the pass or the previous call belongs to the reported node, so one
/// clock reading per node suffices. An observer can't affect the numbers.
pub trait PassObserver {
    /// The pass of `node` over the block has ended. Called in execution order forwards, in reverse
    /// backwards.
    fn passed(&mut self, node: NodeId);
}

/// No observer, at no cost.
impl PassObserver for () {
    #[inline(always)]
    fn passed(&mut self, _node: NodeId) {}
}

/// A graph whose passes are reported to an observer.
#[derive(Debug)]
pub struct Watched<'a, T: 'static, W> {
    graph: &'a Graph<T>,
    watch: &'a mut W,
    packed: Option<&'a PackedWeights>,
    purpose: Purpose<'a, T>,
    shown: Option<Shown<'a, T>>,
}

/// Outputs of nodes, and parts of the input, that a forward pass copies.
#[derive(Debug)]
pub struct Shown<'a, T> {
    /// Nodes and parts of the input to copy.
    pub sources: &'a [Source],
    /// Their values side by side. // (rows, columns of all sources)
    pub values: &'a mut [T],
}

impl<T: Scalar> Graph<T> {
    /// The graph, reporting passes to `watch`.
    pub fn watched<'a, W: PassObserver>(&'a self, watch: &'a mut W) -> Watched<'a, T, W> {
        Watched { graph: self, watch, packed: None, purpose: Purpose::default(), shown: None }
    }

    /// Number of columns of a value.
    pub fn columns_of(&self, source: &Source) -> usize {
        source.columns(&self.layouts)
    }

    /// Copies the output of `node`, which has just been computed, if it is shown; after the first
    /// node, also what is shown of the input.
    fn show(
        &self,
        node: &Source,
        block: &Block<'_, T>,
        workspace: &Workspace<T>,
        shown: &mut Shown<'_, T>,
    ) {
        let (rows, is_first) = (block.x.rows(), *node == Source::Node(NodeId(0)));
        let width: usize = shown.sources.iter().map(|source| self.columns_of(source)).sum();
        assert_eq!(shown.values.len(), rows * width, "all shown values");
        let mut start = 0;
        for source in shown.sources {
            let columns = start..start + self.columns_of(source);
            start = columns.end;
            let values = match source {
                Source::Node(_) if source != node => continue,
                Source::Node(NodeId(index)) => {
                    let layout = &self.layouts[*index];
                    let range = layout.range(layout.value, rows, workspace.rows_max);
                    Matrix::packed(&workspace.values[range], rows, layout.columns)
                }
                _ if !is_first => continue,
                Source::Columns(range) => block.x.select(range.clone()),
                Source::FirstOrder => Matrix::packed(block.first_order, rows, 1),
            };
            let rows = shown.values.chunks_exact_mut(width.max(1)).enumerate();
            rows.for_each(|(row, to)| to[columns.clone()].copy_from_slice(values.row(row)));
        }
    }
}

impl<'a, T: Scalar, W: PassObserver> Watched<'a, T, W> {
    /// Reads weights that were packed from the same parameters that the passes get.
    pub fn with_packed(self, packed: &'a PackedWeights) -> Self {
        Self { packed: Some(packed), ..self }
    }

    /// Sets a purpose other than training without statistics.
    pub fn with_purpose(self, purpose: Purpose<'a, T>) -> Self {
        Self { purpose, ..self }
    }

    /// Copies some values in the forward pass.
    pub fn with_shown(self, shown: Shown<'a, T>) -> Self {
        Self { shown: Some(shown), ..self }
    }

    /// See [`Graph::forward`].
    pub fn forward(
        self,
        parameters: &[T],
        block: &Block<'_, T>,
        workspace: &mut Workspace<T>,
        logits: &mut [T], // (rows, outputs)
    ) {
        let Self { graph, watch, packed, mut purpose, mut shown } = self;
        let weights = Weights { parameters, packed };
        let rows = graph.check(parameters, block, workspace);
        purpose.check(graph.state_count(), graph.statistics_count());
        assert_eq!(logits.len(), rows * graph.outputs(), "the logits of each example");
        for index in 0..graph.nodes.len() {
            let node = &graph.nodes[index];
            let purpose = purpose.of_node(node.state.clone(), node.statistics.clone());
            graph.forward_node(index, weights, block, workspace, purpose);
            let node = Source::Node(NodeId(index));
            shown.iter_mut().for_each(|shown| graph.show(&node, block, workspace, shown));
            watch.passed(NodeId(index));
        }
        if let Some(layout) = graph.layouts.last() {
            let range = layout.range(layout.value, rows, workspace.rows_max);
            logits.copy_from_slice(&workspace.values[range]);
        }
    }

    /// See [`Graph::backward`]; the forward pass must have been for training.
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
