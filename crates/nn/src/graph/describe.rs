//! Describes a graph for other implementations, such as devices.

use std::ops::Range;

use super::Graph;
use crate::gemm::Precision;
use crate::gemm::Scalar;
use crate::layer::{GradientTarget, Operation, Source};

/// A node: its operation, its inputs, and the positions of its buffers.
///
/// Positions are in lanes per example, as in [`Plan`](super::Plan). For `rows_max` rows, the output
/// is a matrix without gaps from lane `value * rows_max` of the values. What the node keeps follows
/// room for `rows_max` rows of output. The gradient of the output starts at lane `gradient *
/// rows_max` of the gradients.
#[derive(Clone, Debug)]
pub struct NodeView<'a> {
    /// Name of the node.
    pub name: &'a str,
    /// Operation.
    pub operation: Operation,
    /// Inputs.
    pub sources: &'a [Source],
    /// Destinations of the inputs' gradients, in order.
    pub targets: &'a [GradientTarget],
    /// Range of its parameters in the flat vector.
    pub parameters: Range<usize>,
    /// Range of its state in the graph's.
    pub state: Range<usize>,
    /// Range of its statistics in those of a block.
    pub statistics: Range<usize>,
    /// Columns of the output.
    pub columns: usize,
    /// Columns kept for the backward pass.
    pub kept: usize,
    /// Position of the output.
    pub value: usize,
    /// Position of the output's gradient.
    pub gradient: usize,
}

impl<T: Scalar> Graph<T> {
    /// The nodes in execution order; the backward pass runs in reverse.
    pub fn nodes(&self) -> impl DoubleEndedIterator<Item = NodeView<'_>> + ExactSizeIterator {
        self.nodes.iter().zip(&self.layouts).map(|(node, layout)| NodeView {
            name: &node.name,
            operation: node.layer.operation(),
            sources: &node.sources,
            targets: &node.targets,
            parameters: node.parameters.clone(),
            state: node.state.clone(),
            statistics: node.statistics.clone(),
            columns: layout.columns,
            kept: layout.kept,
            value: layout.value,
            gradient: layout.gradient,
        })
    }

    /// Embedding columns that get no gradient, so that it is zero.
    pub fn untouched(&self) -> &[Range<usize>] {
        &self.untouched
    }

    /// Rounding of the operands of products.
    pub fn precision(&self) -> Precision {
        self.precision
    }
}
