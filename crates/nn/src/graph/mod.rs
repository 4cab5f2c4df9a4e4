//! The graph: nodes in execution order, run forwards and backwards on one block at a time.
//!
//! ```text
//! x           [ embedding values: slots * dim | dense features ]   one row per example
//! first_order [ sum of the wide weights ]                          one value per example
//!
//! nodes       each reads columns of x, the first order, or outputs of nodes before it
//! output      the logits of an example, one per label
//! ```
//!
//! In the backward pass, a node that several nodes read gets its gradient first from the last of
//! these (overwriting), then from the others in reverse order (adding): a fixed order, planned when
//! the graph is built. The same holds for columns of x.
//!
//! ```
//! use stepwell_nn::{
//!     Activation, Add, Block, BlockGradients, GraphBuilder, InputShape, Linear, Matrix, Source,
//!     Workspace,
//! };
//! # fn main() -> Result<(), stepwell_nn::GraphError> {
//! let mut builder = GraphBuilder::<f32>::new(InputShape { embedding: 4, dense: 1 });
//! let linear =
//!     |inputs, outputs, activation| Linear { inputs, outputs, bias: true, activation };
//! let hidden = linear(5, 3, Activation::Relu);
//! let hidden = builder.add("hidden", hidden, &[Source::Columns(0..5)])?;
//! let top = builder.add("top", linear(3, 1, Activation::Identity), &[Source::Node(hidden)])?;
//! builder.add("logit", Add, &[Source::FirstOrder, Source::Node(top)])?;
//! let graph = builder.build()?;
//!
//! let parameters = graph.initial_parameters(1);
//! let mut workspace = Workspace::new(&graph, 2);
//! let x = [0.5; 10];
//! let block = Block { x: Matrix::packed(&x, 2, 5), first_order: &[0.1, 0.2] };
//! let (mut logits, mut d_x, mut d_first_order) = ([0.0; 2], [0.0; 8], [0.0; 2]);
//! let mut gradients = vec![0.0; graph.parameter_count()];
//! graph.forward(&parameters, &block, &mut workspace, &mut logits);
//! let of =
//!     BlockGradients { x: &mut d_x, first_order: &mut d_first_order, parameters: &mut gradients };
//! graph.backward(&parameters, &block, &[1.0, 1.0], &mut workspace, of);
//! assert_eq!(gradients.last(), Some(&2.0)); // the bias of the top layer
//! # Ok(())
//! # }
//! ```

mod build;
mod describe;
mod packing;
mod passes;
mod plan;
mod state;
mod weights;
mod workspace;

use std::ops::Range;

use stepwell_base::huge::HugeSlice;

pub use build::{GraphBuilder, InputShape};
pub use describe::NodeView;
pub use passes::{PassObserver, Shown, Watched};
pub use plan::{BufferKind, BufferPlan, Plan};
pub use weights::{PackedWeight, PackedWeights};
pub use workspace::Workspace;

use self::weights::{Direction, Weights};
use crate::gemm::Scalar;
use crate::gemm::{Gemm, Kernel, Precision};
use crate::layer::{
    Backward, Flops, Forward, GradientTarget, InputGradients, Inputs, Layer, Layout, Purpose, Rest,
    RestMut, Source,
};
use crate::matrix::{Matrix, MatrixMut};
use crate::parameter::ParameterSpec;

/// Inputs of one block.
#[derive(Clone, Copy, Debug)]
pub struct Block<'a, T> {
    /// Embedding values and dense features. // (rows, embedding + dense)
    pub x: Matrix<'a, T>,
    /// Sum of each example's wide weights; may be empty if the graph doesn't read it. // (rows)
    pub first_order: &'a [T],
}

/// Destinations of a block's gradients.
#[derive(Debug)]
pub struct BlockGradients<'a, T> {
    /// Gradient of the embedding values. // (rows, embedding)
    pub x: &'a mut [T],
    /// Gradient of the first order; may be empty if the graph doesn't read it. // (rows)
    pub first_order: &'a mut [T],
    /// Gradient of the parameters. // (parameters)
    pub parameters: &'a mut [T],
}

/// A model's dense part, ready to run, and usable by several threads at once.
#[derive(Debug)]
pub struct Graph<T: 'static> {
    input: InputShape,
    nodes: Vec<Node<T>>,
    layouts: Vec<Layout>,
    parameters: Vec<ParameterSpec>,
    parameter_count: usize,
    state: Vec<ParameterSpec>,
    statistics_count: usize,
    untouched: Vec<Range<usize>>,
    plan: Plan,
    precision: Precision,
    kernel: &'static dyn Kernel<T>,
}

#[derive(Debug)]
struct Node<T> {
    name: String,
    layer: Box<dyn Layer<T>>,
    sources: Vec<Source>,
    targets: Vec<GradientTarget>,
    parameters: Range<usize>,
    state: Range<usize>,
    statistics: Range<usize>,
    flops: Flops,
}

impl Graph<f32> {
    /// The graph with products in `precision`. Only f32 graphs have a choice.
    pub fn with_precision(self, precision: Precision) -> Self {
        Self { precision, kernel: precision.kernel(), ..self }
    }
}

impl<T: Scalar> Graph<T> {
    /// Columns of the input.
    pub fn input(&self) -> InputShape {
        self.input
    }

    /// Logits per example.
    pub fn outputs(&self) -> usize {
        self.layouts.last().map_or(0, |layout| layout.columns)
    }

    /// Names of the nodes in execution order.
    pub fn node_names(&self) -> impl Iterator<Item = &str> {
        self.nodes.iter().map(|node| node.name.as_str())
    }

    /// Name, shape and position of each parameter.
    pub fn parameters(&self) -> &[ParameterSpec] {
        &self.parameters
    }

    /// Length of the flat vector of parameters.
    pub fn parameter_count(&self) -> usize {
        self.parameter_count
    }

    /// Initial parameters, a function of only seed and names.
    pub fn initial_parameters(&self, seed: u64) -> Vec<T> {
        let mut values = vec![T::ZERO; self.parameter_count];
        for spec in &self.parameters {
            spec.init(seed, &mut values[spec.range.clone()]);
        }
        values
    }

    /// Execution order, buffers and their lifetimes.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Whether any node reads the first-order input.
    pub fn reads_first_order(&self) -> bool {
        self.nodes.iter().any(|node| node.sources.contains(&Source::FirstOrder))
    }

    /// Work per example of each node, in execution order.
    pub fn node_flops(&self) -> impl Iterator<Item = Flops> {
        self.nodes.iter().map(|node| node.flops)
    }

    /// Work per example.
    pub fn flops_per_example(&self) -> Flops {
        self.node_flops().fold(Flops::default(), |sum, node| Flops {
            forward: sum.forward + node.forward,
            backward: sum.backward + node.backward,
        })
    }

    /// Bytes of constants of layers, which exist once, regardless of threads.
    pub fn constant_bytes(&self) -> usize {
        let lanes = self.nodes.iter().map(|node| node.layer.constant_lanes());
        lanes.sum::<usize>() * size_of::<T>()
    }

    /// Most bytes that products and the scratch of layers take per thread, in addition to the
    /// plan's buffers.
    pub fn packing_bytes(&self, rows_max: usize) -> usize {
        let columns = self.layouts.iter().map(|layout| layout.columns);
        let sides = columns.chain(self.nodes.iter().map(|node| node.layer.product_side()));
        let side = sides.chain([rows_max, self.input.columns()]).max().unwrap_or(0);
        let scratch = self.scratch_lanes(rows_max) * size_of::<T>();
        self.kernel.packing_bytes(side) + HugeSlice::<u8>::bytes_rounded_up(scratch)
    }

    /// Lanes of scratch for any layer's passes over `rows_max` rows.
    fn scratch_lanes(&self, rows_max: usize) -> usize {
        let lanes = self.nodes.iter().map(|node| node.layer.scratch_lanes(rows_max));
        lanes.max().unwrap_or(0)
    }

    /// Computes the logits of a block for training, and keeps what [`Graph::backward`] reads in
    /// `workspace`. For other purposes, see [`Watched::with_purpose`].
    pub fn forward(
        &self,
        parameters: &[T],
        block: &Block<'_, T>,
        workspace: &mut Workspace<T>,
        logits: &mut [T], // (rows, outputs)
    ) {
        self.watched(&mut ()).forward(parameters, block, workspace, logits);
    }

    /// Computes the gradients of a block from the gradients of its logits, after [`Graph::forward`]
    /// of the same block with the same parameters and workspace.
    ///
    /// Overwrites everything, except for the gradient of the first order if nothing reads it.
    pub fn backward(
        &self,
        parameters: &[T],
        block: &Block<'_, T>,
        d_logits: &[T], // (rows, outputs)
        workspace: &mut Workspace<T>,
        gradients: BlockGradients<'_, T>,
    ) {
        self.watched(&mut ()).backward(parameters, block, d_logits, workspace, gradients);
    }

    /// Checks all shapes; returns the number of examples.
    fn check(&self, parameters: &[T], block: &Block<'_, T>, workspace: &Workspace<T>) -> usize {
        let rows = block.x.rows();
        assert_eq!(block.x.columns(), self.input.columns(), "columns of the input");
        assert_eq!(parameters.len(), self.parameter_count, "parameters of this graph");
        assert!(rows <= workspace.rows_max, "{rows} rows in a workspace of {}", workspace.rows_max);
        assert!(workspace.fits(self), "a workspace of this graph");
        let expected = if self.reads_first_order() { rows } else { block.first_order.len() };
        assert_eq!(block.first_order.len(), expected, "one first-order value per example");
        rows
    }

    fn inputs<'a>(
        &'a self,
        index: usize,
        block: &Block<'a, T>,
        values: Rest<'a, T>,
        rows_max: usize,
    ) -> Inputs<'a, T> {
        let (x, first_order) = (block.x, block.first_order);
        let sources = &self.nodes[index].sources;
        Inputs { sources, layouts: &self.layouts, x, first_order, values, rows_max }
    }

    fn forward_node(
        &self,
        index: usize,
        weights: Weights<'_, T>,
        block: &Block<'_, T>,
        workspace: &mut Workspace<T>,
        purpose: Purpose<'_, T>,
    ) {
        let (node, layout) = (&self.nodes[index], &self.layouts[index]);
        let (rows, rows_max) = (block.x.rows(), workspace.rows_max);
        let range = layout.range(layout.value, rows, rows_max);
        let kept = layout.kept_range(rows, rows_max);
        let right_start = kept.end;
        let (left, rest) = workspace.values.split_at_mut(range.start);
        let (own, right) = rest.split_at_mut(right_start - range.start);
        let (output, kept_lanes) = own.split_at_mut(kept.start - range.start);
        let output = &mut output[..range.len()];
        let values = Rest { left, right, right_start };
        node.layer.forward(Forward {
            name: &node.name,
            purpose,
            parameters: &weights.parameters[node.parameters.clone()],
            packed_weight: weights.packed(index, Direction::Forward),
            inputs: self.inputs(index, block, values, rows_max),
            output: MatrixMut::packed(output, rows, layout.columns),
            kept: MatrixMut::packed(kept_lanes, rows, layout.kept),
            scratch: &mut workspace.scratch,
            gemm: Gemm::new(self.kernel, &mut workspace.packing),
        });
    }

    fn backward_node(
        &self,
        index: usize,
        weights: Weights<'_, T>,
        block: &Block<'_, T>,
        workspace: &mut Workspace<T>,
        of: &mut BlockGradients<'_, T>,
    ) {
        let (node, layout) = (&self.nodes[index], &self.layouts[index]);
        let (rows, rows_max) = (block.x.rows(), workspace.rows_max);
        let first_order = of.first_order.len();
        let range = layout.range(layout.gradient, rows, rows_max);
        let right_start = range.end;
        let (left, rest) = workspace.gradients.split_at_mut(range.start);
        let (d_output, right) = rest.split_at_mut(range.len());
        let values = &workspace.values[..];
        let output = &values[layout.range(layout.value, rows, rows_max)];
        let kept = &values[layout.kept_range(rows, rows_max)];
        let values = Rest { left: values, right: &[], right_start: values.len() };
        node.layer.backward(Backward {
            parameters: &weights.parameters[node.parameters.clone()],
            packed_weight: weights.packed(index, Direction::Backward),
            inputs: self.inputs(index, block, values, rows_max),
            output: Matrix::packed(output, rows, layout.columns),
            kept: Matrix::packed(kept, rows, layout.kept),
            d_output: MatrixMut::packed(d_output, rows, layout.columns),
            gradients: &mut of.parameters[node.parameters.clone()],
            d_inputs: InputGradients {
                targets: &node.targets,
                layouts: &self.layouts,
                d_x: MatrixMut::packed(of.x, rows, self.input.embedding),
                d_first_order: MatrixMut::packed(of.first_order, first_order, 1),
                gradients: RestMut { left, right, right_start },
                rows_max,
            },
            scratch: &mut workspace.scratch,
            gemm: Gemm::new(self.kernel, &mut workspace.packing),
        });
    }
}
