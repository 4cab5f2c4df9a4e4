//! Layers: the nodes of a graph, one file each.
//!
//! A layer is a description without state: its parameters, the values it reads and the gradients it
//! writes are all handed to it, block by block. It computes whole rows (one per example), must not
//! let one example's values reach another's, and sums over examples in example order. There is one
//! exception: in training, [`BatchNorm`] makes an example's values depend on those of its block,
//! and of no other. To add a layer: implement [`Layer`] in a file beside this, and check it in the
//! gradient tests.

mod add;
mod batch_norm;
mod channels;
mod concat;
mod convolution;
mod cross;
mod dot_interaction;
mod dropout;
mod factorization_machine;
mod fourier_features;
mod linear;
mod lstm;
mod operation;
mod pass;
mod pooling;
mod purpose;
mod window;

use std::fmt::Debug;

pub use add::Add;
pub use batch_norm::BatchNorm;
pub use concat::Concat;
pub use convolution::Convolution;
pub use cross::Cross;
pub use dot_interaction::DotInteraction;
pub use dropout::Dropout;
pub use factorization_machine::FactorizationMachine;
pub use fourier_features::FourierFeatures;
pub use linear::{Activation, Linear};
pub use lstm::Lstm;
pub use operation::Operation;
pub use pass::{Backward, Forward, GradientOut, GradientTarget, InputGradients, Inputs, Write};
pub(crate) use pass::{Layout, Rest, RestMut, clear_columns};
pub use pooling::{Pool, Pooling};
pub use purpose::{Purpose, Training};
pub use window::{Image, Window};

use crate::parameter::ParameterShape;

/// What a layer's backward pass reads besides the gradient of its output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reads {
    /// The values it read.
    pub inputs: bool,
    /// The values it wrote.
    pub output: bool,
}

/// Floating-point operations per example, a multiplication and an addition counting as two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flops {
    /// Of the forward pass.
    pub forward: u64,
    /// Of the backward pass.
    pub backward: u64,
}

/// One kind of node with its dimensions.
pub trait Layer<T>: Debug + Send + Sync {
    /// What it computes, for those who compute it elsewhere.
    fn operation(&self) -> Operation;

    /// Columns of the output for inputs of these columns.
    ///
    /// # Errors
    /// What does not fit, in words that name the mend.
    fn output_columns(&self, inputs: &[usize]) -> Result<usize, String>;

    /// The parameters, in the order in which they lie in the flat vector.
    fn parameters(&self) -> Vec<ParameterShape> {
        Vec::new()
    }

    /// What it has beside parameters, found in training and read in evaluation; each begins
    /// constant.
    fn state(&self) -> Vec<ParameterShape> {
        Vec::new()
    }

    /// Lanes that a forward pass in training says of its block; those of blocks add up.
    fn statistics_lanes(&self) -> usize {
        0
    }

    /// Takes the sum of the statistics over all blocks of a mini-batch into the state.
    fn advance(&self, _state: &mut [T], _statistics: &[T]) {}

    /// Rows and columns of the weight with which its parameters begin, where there is one that it
    /// multiplies by: transposed in the forward pass, as it is in the backward pass.
    fn weight(&self) -> Option<[usize; 2]> {
        None
    }

    /// What the backward pass reads, which is what has to be kept for it.
    fn reads(&self) -> Reads;

    /// Columns beside the output that the forward pass writes for the backward pass alone.
    fn kept_columns(&self) -> usize {
        0
    }

    /// Lanes of numbers that it was made with, and has in memory of its own.
    fn constant_lanes(&self) -> usize {
        0
    }

    /// Lanes that a pass over `rows` examples has to itself; it finds in them what others left.
    fn scratch_lanes(&self, _rows: usize) -> usize {
        0
    }

    /// Longest side of its products, apart from columns of inputs and output, and examples.
    fn product_side(&self) -> usize {
        0
    }

    /// Work per example where the first `wanted[i]` columns of input i want a gradient.
    fn flops(&self, inputs: &[usize], wanted: &[usize]) -> Flops;

    /// Computes the output from the inputs.
    fn forward(&self, pass: Forward<'_, T>);

    /// Computes the gradients of parameters and inputs from that of the output.
    fn backward(&self, pass: Backward<'_, T>);
}
