//! Layers: the nodes of a graph, one file each.
//!
//! A layer is a stateless description: it gets its parameters, the values it reads and the
//! gradients it writes for each block. It computes whole rows (one per example), must keep examples
//! independent, and sums over examples in example order. Exceptions: in training, [`BatchNorm`],
//! [`Dice`] and [`InBatchSoftmax`] make an example's values depend on the other examples of its
//! block. To add a layer, implement [`Layer`] in a file in this directory, and add it to the
//! gradient tests.

mod activate;
mod add;
mod attention_steps;
mod batch_norm;
mod concat;
mod convolution;
mod cross;
mod cross_vector;
mod dice;
mod dot_interaction;
mod dropout;
mod factorization_machine;
mod fourier_features;
mod in_batch_softmax;
mod lane_sums;
mod lanes;
mod layer_norm;
mod linear;
mod lstm;
mod mixture;
mod multi_head_attention;
mod multiply;
mod operation;
mod pass;
mod pooling;
mod purpose;
mod sequence;
mod target_attention;
mod unit_length;
mod window;

use std::fmt::Debug;

pub use activate::Activate;
pub use add::Add;
pub use batch_norm::BatchNorm;
pub use concat::Concat;
pub use convolution::Convolution;
pub use cross::Cross;
pub use cross_vector::CrossVector;
pub use dice::Dice;
pub use dot_interaction::DotInteraction;
pub use dropout::Dropout;
pub use factorization_machine::FactorizationMachine;
pub use fourier_features::FourierFeatures;
pub use in_batch_softmax::{BINS, InBatchSoftmax};
pub use layer_norm::LayerNorm;
pub use linear::Linear;
pub use lstm::Lstm;
pub use mixture::Mixture;
pub use multi_head_attention::MultiHeadAttention;
pub use multiply::Multiply;
pub use operation::{Activation, Function, Operation, Pool};
pub use pass::{
    Backward, Forward, GradientOut, GradientTarget, InputGradients, Inputs, NodeId, Source,
};
pub(crate) use pass::{Layout, Rest, RestMut, clear_columns};
pub use pooling::Pooling;
pub use purpose::{Purpose, Training};
pub use target_attention::TargetAttention;
pub use unit_length::UnitLength;
pub use window::{Image, Window};

use crate::parameter::ParameterShape;

/// Inputs of a layer's backward pass, in addition to the gradient of its output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reads {
    /// Whether it reads the layer's inputs.
    pub inputs: bool,
    /// Whether it reads the layer's output.
    pub output: bool,
}

/// Floating-point operations per example; a fused multiplication and addition counts as two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flops {
    /// Operations of the forward pass.
    pub forward: u64,
    /// Operations of the backward pass.
    pub backward: u64,
}

/// A kind of node with its dimensions.
pub trait Layer<T>: Debug + Send + Sync {
    /// Describes the operation for other implementations.
    fn operation(&self) -> Operation;

    /// Columns of the output, given the columns of the inputs.
    ///
    /// # Errors
    /// What doesn't match, with a fix.
    fn output_columns(&self, inputs: &[usize]) -> Result<usize, String>;

    /// Parameters, in the order of the flat vector.
    fn parameters(&self) -> Vec<ParameterShape> {
        Vec::new()
    }

    /// State besides parameters, computed in training and read in evaluation; each part starts
    /// constant.
    fn state(&self) -> Vec<ParameterShape> {
        Vec::new()
    }

    /// Length of the statistics of a block in training; the statistics of all blocks are added.
    fn statistics_lanes(&self) -> usize {
        0
    }

    /// Updates the state with the sum of the statistics over all blocks of a mini-batch.
    fn advance(&self, _state: &mut [T], _statistics: &[T]) {}

    /// Rows and columns of the weight that is the first parameter, if the layer multiplies by one:
    /// by its transpose in the forward pass, by the weight itself in the backward pass.
    fn weight(&self) -> Option<[usize; 2]> {
        None
    }

    /// Values that the backward pass reads, which must be kept until then.
    fn reads(&self) -> Reads;

    /// Columns, in addition to the output, that the forward pass writes for the backward pass.
    fn kept_columns(&self) -> usize {
        0
    }

    /// Lanes of constants that the layer itself stores.
    fn constant_lanes(&self) -> usize {
        0
    }

    /// Lanes of scratch for a pass over `rows` examples; their initial contents are arbitrary.
    fn scratch_lanes(&self, _rows: usize) -> usize {
        0
    }

    /// Longest side of its products, not counting input columns, output columns and examples.
    fn product_side(&self) -> usize {
        0
    }

    /// Work per example if the first `wanted[i]` columns of input i need a gradient.
    fn flops(&self, inputs: &[usize], wanted: &[usize]) -> Flops;

    /// Computes the output from the inputs.
    fn forward(&self, pass: Forward<'_, T>);

    /// Computes the gradients of parameters and inputs from the gradient of the output.
    fn backward(&self, pass: Backward<'_, T>);
}
