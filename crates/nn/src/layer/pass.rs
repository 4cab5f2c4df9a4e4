//! What a layer is handed for one block: views of planned buffers.
//!
//! The values of a block lie in one buffer and the gradients in another (see `graph::plan`). A pass
//! splits a buffer at the one region its layer writes, so that the rest can be lent at the same
//! time without copying and without unsafe code:
//!
//! ```text
//! values     [ ....left.... ][ output of this layer | kept ][ ....right.... ]
//! gradients  [ ....left.... ][ d_output, its own           ][ ....right.... ]
//! ```

use std::ops::Range;

use super::Purpose;
use crate::gemm::{Gemm, Packed};
use crate::graph::Source;
use crate::{Matrix, MatrixMut, Scalar};

/// How a result meets what its place holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write {
    /// It replaces it; the old content is never read.
    Overwrite,
    /// It is added to it.
    Accumulate,
}

/// A node's place in the planned buffers, in lanes per example.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) columns: usize,
    /// Lanes that the layer keeps, behind its output.
    pub(crate) kept: usize,
    pub(crate) value: usize,
    pub(crate) gradient: usize,
}

impl Layout {
    /// Lanes from `offset` for `rows` rows, where offsets were planned for `rows_max`.
    pub(crate) fn range(&self, offset: usize, rows: usize, rows_max: usize) -> Range<usize> {
        let start = offset * rows_max;
        start..start + rows * self.columns
    }

    /// What is kept of `rows` rows, among the values.
    pub(crate) fn kept_range(&self, rows: usize, rows_max: usize) -> Range<usize> {
        let start = (self.value + self.columns) * rows_max;
        start..start + rows * self.kept
    }
}

/// Where the gradient of an input goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GradientTarget {
    /// Nobody wants it.
    None,
    /// To columns of the gradient of the graph's input: the first columns of what was read.
    Input {
        /// Columns of the graph's input.
        columns: Range<usize>,
        /// Columns to be cleared first: nobody wrote them, though others of the range were.
        clear: Vec<Range<usize>>,
        /// How to write.
        write: Write,
    },
    /// To the gradient of the first order.
    FirstOrder(Write),
    /// To the gradient of a node's output.
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

/// The values that a layer reads.
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

    /// Columns of the `index`-th input.
    pub fn columns(&self, index: usize) -> usize {
        match &self.sources[index] {
            Source::Columns(columns) => columns.len(),
            Source::FirstOrder => 1,
            Source::Node(node) => self.layouts[node.0].columns,
        }
    }

    /// Values of the `index`-th input. // (rows, columns)
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

/// The gradient of an input, to be written.
#[derive(Debug)]
pub struct GradientOut<'a, T> {
    /// Its place: the first columns of the input, at most all of them. // (rows, columns)
    pub gradient: MatrixMut<'a, T>,
    /// How to write it.
    pub write: Write,
}

/// The places of the gradients of a layer's inputs.
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

    /// The place of the gradient of the `index`-th input; none where nobody wants it.
    ///
    /// Each is asked for once in a pass and then written in full.
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

/// Sets some columns to zero.
pub(crate) fn clear_columns<T: Scalar>(matrix: &mut MatrixMut<'_, T>, columns: &Range<usize>) {
    (0..matrix.rows()).for_each(|row| matrix.row(row)[columns.clone()].fill(T::ZERO));
}

/// The forward pass of a layer over a block.
#[derive(Debug)]
pub struct Forward<'a, T> {
    /// Name of the node.
    pub name: &'a str,
    /// What the pass is for; state and statistics are those of the layer.
    pub purpose: Purpose<'a, T>,
    /// The layer's parameters, one after the other.
    pub parameters: &'a [T],
    /// The transpose of its weight, where that was packed as a right operand.
    pub(crate) packed_weight: Option<&'a Packed>,
    /// What it reads.
    pub inputs: Inputs<'a, T>,
    /// What it writes, in full. // (rows, columns)
    pub output: MatrixMut<'a, T>,
    /// What it writes for the backward pass alone. // (rows, kept columns)
    pub kept: MatrixMut<'a, T>,
    /// Lanes of its own, at least as many as it asks for, with anything in them.
    pub scratch: &'a mut [T],
    /// What it multiplies with.
    pub gemm: Gemm<'a, T>,
}

/// The backward pass of a layer over a block.
#[derive(Debug)]
pub struct Backward<'a, T> {
    /// The layer's parameters, one after the other.
    pub parameters: &'a [T],
    /// Its weight, where that was packed as a right operand.
    pub(crate) packed_weight: Option<&'a Packed>,
    /// What it read; only where [`Reads::inputs`](crate::Reads::inputs) says so.
    pub inputs: Inputs<'a, T>,
    /// What it wrote; only where [`Reads::output`](crate::Reads::output) says so.
    pub output: Matrix<'a, T>,
    /// What it kept. // (rows, kept columns)
    pub kept: Matrix<'a, T>,
    /// The gradient of the output, which the layer may change as it likes. // (rows, columns)
    pub d_output: MatrixMut<'a, T>,
    /// Gradients of the parameters, to be overwritten in full.
    pub gradients: &'a mut [T],
    /// Gradients of the inputs.
    pub d_inputs: InputGradients<'a, T>,
    /// Lanes of its own, at least as many as it asks for, with anything in them.
    pub scratch: &'a mut [T],
    /// What it multiplies with.
    pub gemm: Gemm<'a, T>,
}
