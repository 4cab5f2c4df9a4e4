//! Arguments of a layer's passes over one block: views of planned buffers.
//!
//! All values of a block are in one buffer, and all gradients in another (see `graph::plan`). A
//! pass splits a buffer around the region that its layer writes, so that the rest can be borrowed
//! at the same time without copies or unsafe code:
//!
//! ```text
//! values     [ ....left.... ][ output of this layer | kept ][ ....right.... ]
//! gradients  [ ....left.... ][ its d_output                ][ ....right.... ]
//! ```

use std::ops::Range;

use super::Purpose;
use crate::gemm::Scalar;
use crate::gemm::{Gemm, Packed};
use crate::matrix::{Matrix, MatrixMut, Write};

/// Number of a node in execution order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub usize);

/// Input of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Columns of the graph's input.
    Columns(Range<usize>),
    /// The first-order input, one column.
    FirstOrder,
    /// The output of an earlier node.
    Node(NodeId),
}

impl Source {
    /// Number of columns.
    pub(crate) fn columns(&self, layouts: &[Layout]) -> usize {
        match self {
            Self::Columns(columns) => columns.len(),
            Self::FirstOrder => 1,
            Self::Node(node) => layouts[node.0].columns,
        }
    }
}

/// Positions of a node in the planned buffers, in lanes per example.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) columns: usize,
    /// Lanes that the layer keeps, after its output.
    pub(crate) kept: usize,
    pub(crate) value: usize,
    pub(crate) gradient: usize,
}

impl Layout {
    /// Range of `rows` rows at `offset`, which was planned for `rows_max` rows.
    pub(crate) fn range(&self, offset: usize, rows: usize, rows_max: usize) -> Range<usize> {
        let start = offset * rows_max;
        start..start + rows * self.columns
    }

    /// Range of the kept values of `rows` rows.
    pub(crate) fn kept_range(&self, rows: usize, rows_max: usize) -> Range<usize> {
        let start = (self.value + self.columns) * rows_max;
        start..start + rows * self.kept
    }
}

/// Destination of an input's gradient.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GradientTarget {
    /// Not needed.
    None,
    /// Columns of the gradient of the graph's input, for the first columns that the layer reads.
    Input {
        /// Columns of the graph's input.
        columns: Range<usize>,
        /// Columns to clear first: not yet written, unlike others of the range.
        clear: Vec<Range<usize>>,
        /// Whether to overwrite or add.
        write: Write,
    },
    /// Gradient of the first order.
    FirstOrder(Write),
    /// Gradient of a node's output.
    Node(usize, Write),
}

/// A buffer without the region that a layer writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rest<'a, T> {
    pub(crate) left: &'a [T],
    pub(crate) right: &'a [T],
    pub(crate) right_start: usize,
}

impl<'a, T> Rest<'a, T> {
    fn get(&self, range: Range<usize>) -> &'a [T] {
        if range.end <= self.left.len() {
            &self.left[range]
        } else {
            &self.right[range.start - self.right_start..range.end - self.right_start]
        }
    }
}

/// [`Rest`] for writing.
#[derive(Debug)]
pub(crate) struct RestMut<'a, T> {
    pub(crate) left: &'a mut [T],
    pub(crate) right: &'a mut [T],
    pub(crate) right_start: usize,
}

impl<T> RestMut<'_, T> {
    fn get(&mut self, range: Range<usize>) -> &mut [T] {
        if range.end <= self.left.len() {
            &mut self.left[range]
        } else {
            &mut self.right[range.start - self.right_start..range.end - self.right_start]
        }
    }
}

/// Values that a layer reads.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a, T> {
    pub(crate) sources: &'a [Source],
    pub(crate) layouts: &'a [Layout],
    pub(crate) x: Matrix<'a, T>,
    pub(crate) first_order: &'a [T],
    pub(crate) values: Rest<'a, T>,
    pub(crate) rows_max: usize,
}

impl<'a, T> Inputs<'a, T> {
    /// Number of inputs.
    pub fn count(&self) -> usize {
        self.sources.len()
    }

    /// Columns of input `index`.
    pub fn columns(&self, index: usize) -> usize {
        self.sources[index].columns(self.layouts)
    }

    /// Values of input `index`. // (rows, columns)
    pub fn get(&self, index: usize) -> Matrix<'a, T> {
        let rows = self.x.rows();
        match &self.sources[index] {
            Source::Columns(columns) => self.x.select(columns.clone()),
            Source::FirstOrder => Matrix::packed(self.first_order, rows, 1),
            Source::Node(node) => {
                let layout = &self.layouts[node.0];
                let range = layout.range(layout.value, rows, self.rows_max);
                Matrix::packed(self.values.get(range), rows, layout.columns)
            }
        }
    }
}

/// Destination of an input's gradient.
#[derive(Debug)]
pub struct GradientOut<'a, T> {
    /// First columns of the input, or all of them. // (rows, columns)
    pub gradient: MatrixMut<'a, T>,
    /// Whether to overwrite or add.
    pub write: Write,
}

/// Destinations of the gradients of a layer's inputs.
#[derive(Debug)]
pub struct InputGradients<'a, T> {
    pub(crate) targets: &'a [GradientTarget],
    pub(crate) layouts: &'a [Layout],
    pub(crate) d_x: MatrixMut<'a, T>,
    pub(crate) d_first_order: MatrixMut<'a, T>,
    pub(crate) gradients: RestMut<'a, T>,
    pub(crate) rows_max: usize,
}

impl<T: Scalar> InputGradients<'_, T> {
    /// Number of inputs.
    pub fn count(&self) -> usize {
        self.targets.len()
    }

    /// Whether the gradient of input `index` is needed.
    pub fn is_wanted(&self, index: usize) -> bool {
        self.targets[index] != GradientTarget::None
    }

    /// Destination of the gradient of input `index`; `None` if it isn't needed.
    ///
    /// A pass calls this once per input and then writes all of it.
    pub fn get(&mut self, index: usize) -> Option<GradientOut<'_, T>> {
        let rows = self.d_x.rows();
        match &self.targets[index] {
            GradientTarget::None => None,
            GradientTarget::Input { columns, clear, write } => {
                clear.iter().for_each(|range| clear_columns(&mut self.d_x, range));
                let gradient = self.d_x.reborrow().select(columns.clone());
                Some(GradientOut { gradient, write: *write })
            }
            GradientTarget::FirstOrder(write) => {
                let gradient = self.d_first_order.reborrow();
                Some(GradientOut { gradient, write: *write })
            }
            GradientTarget::Node(node, write) => {
                let layout = &self.layouts[*node];
                let range = layout.range(layout.gradient, rows, self.rows_max);
                let lanes = self.gradients.get(range);
                let gradient = MatrixMut::packed(lanes, rows, layout.columns);
                Some(GradientOut { gradient, write: *write })
            }
        }
    }
}

/// Sets columns to zero.
pub(crate) fn clear_columns<T: Scalar>(matrix: &mut MatrixMut<'_, T>, columns: &Range<usize>) {
    (0..matrix.rows()).for_each(|row| matrix.row(row)[columns.clone()].fill(T::ZERO));
}

/// The forward pass of a layer over a block.
#[derive(Debug)]
pub struct Forward<'a, T> {
    /// Name of the node.
    pub name: &'a str,
    /// Purpose of the pass, with the state and statistics of this layer.
    pub purpose: Purpose<'a, T>,
    /// The layer's parameters, concatenated.
    pub parameters: &'a [T],
    /// Transpose of the weight, if it is prepacked as a right operand.
    pub(crate) packed_weight: Option<&'a Packed>,
    /// Inputs.
    pub inputs: Inputs<'a, T>,
    /// Output, to be overwritten completely. // (rows, columns)
    pub output: MatrixMut<'a, T>,
    /// Values for the backward pass. // (rows, kept columns)
    pub kept: MatrixMut<'a, T>,
    /// Scratch, at least as long as requested, with arbitrary contents.
    pub scratch: &'a mut [T],
    /// Multiplies matrices.
    pub gemm: Gemm<'a, T>,
}

/// The backward pass of a layer over a block.
#[derive(Debug)]
pub struct Backward<'a, T> {
    /// The layer's parameters, concatenated.
    pub parameters: &'a [T],
    /// Weight, if it is prepacked as a right operand.
    pub(crate) packed_weight: Option<&'a Packed>,
    /// Inputs; valid only if [`Reads::inputs`](crate::Reads::inputs) is set.
    pub inputs: Inputs<'a, T>,
    /// Output; valid only if [`Reads::output`](crate::Reads::output) is set.
    pub output: Matrix<'a, T>,
    /// Values kept by the forward pass. // (rows, kept columns)
    pub kept: Matrix<'a, T>,
    /// Gradient of the output, which the layer may overwrite. // (rows, columns)
    pub d_output: MatrixMut<'a, T>,
    /// Gradients of the parameters, to be overwritten completely.
    pub gradients: &'a mut [T],
    /// Gradients of the inputs.
    pub d_inputs: InputGradients<'a, T>,
    /// Scratch, at least as long as requested, with arbitrary contents.
    pub scratch: &'a mut [T],
    /// Multiplies matrices.
    pub gemm: Gemm<'a, T>,
}
