//! A graph as a description, for those who compute it elsewhere than here.

use std::ops::Range;

use super::{Graph, Source};
use crate::Scalar;
use crate::gemm::Precision;
use crate::layer::{GradientTarget, Operation};

/// A node: what it computes, of what, and where everything lies.
///
/// Places are in lanes per example, as [`Plan`](super::Plan) has them: for `rows_max` rows, the
/// output is a matrix without gaps from lane `value * rows_max` of the values on, what is kept
/// follows behind room for `rows_max` rows of it, and the gradient of the output lies from lane
/// `gradient * rows_max` of the gradients on.
#[derive(Clone, Debug)]
pub struct NodeView<'a> {
    /// Its name.
    pub name: &'a str,
    /// What it computes.
    pub operation: Operation,
    /// What it reads.
    pub sources: &'a [Source],
    /// Where gradients of what it reads go, each after those before it.
    pub targets: &'a [GradientTarget],
    /// Its parameters in the flat vector.
    pub parameters: Range<usize>,
    /// Columns of its output.
    pub columns: usize,
    /// Columns that it keeps.
    pub kept: usize,
    /// Where its output lies.
    pub value: usize,
    /// Where the gradient of that lies.
    pub gradient: usize,
}

impl<T: Scalar> Graph<T> {
    /// The nodes in execution order; backward passes run in the reverse.
    pub fn nodes(&self) -> impl DoubleEndedIterator<Item = NodeView<'_>> + ExactSizeIterator {
        self.nodes.iter().zip(&self.layouts).map(|(node, layout)| NodeView {
            name: &node.name,
            operation: node.layer.operation(),
            sources: &node.sources,
            targets: &node.targets,
            parameters: node.parameters.clone(),
            columns: layout.columns,
            kept: layout.kept,
            value: layout.value,
            gradient: layout.gradient,
        })
    }

    /// The embedding columns whose gradient nobody writes: it is zero.
    pub fn untouched(&self) -> &[Range<usize>] {
        &self.untouched
    }

    /// What operands of products are rounded to.
    pub fn precision(&self) -> Precision {
        self.precision
    }
}
