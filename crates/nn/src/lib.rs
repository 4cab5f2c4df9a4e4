//! The dense part of a model: an explicit graph of layers with planned memory and a fixed order of
//! sums.
//!
//! A [`Graph`] is built once, layer by layer, and then only executed. It reads a block of examples
//! (embedding values and dense features next to each other, see [`Block`]) and returns one logit
//! each. The backward pass turns gradients of logits into gradients of parameters and of embedding
//! values.
//!
//! ```text
//! mini-batch ─► 8 blocks ─► forward ─► loss ─► backward ─► 8 gradient vectors ─► tree_sum ─► step
//!               any thread takes any whole block                one fixed tree, any lane ranges
//! ```
//!
//! Sums over examples run in example order inside a block, and over blocks in one fixed tree, so
//! the number of threads doesn't affect the bits. All buffers of a block are planned when the graph
//! is built ([`Plan`]) and belong to a [`Workspace`]. In addition, products pack operands and some
//! layers rearrange theirs, in memory bounded by [`Graph::packing_bytes`] per thread. Products are
//! f32, or bf16 with f32 sums if the graph is built with that [`Precision`].

#![deny(unsafe_code)]

mod auc;
mod block_losses;
mod calibration;
mod error;
mod exponential;
mod gemm;
mod graph;
mod layer;
mod loss;
mod matrix;
mod normal;
mod objective;
mod parameter;
mod score_bits;
mod softmax;
mod tree;
mod weighted_auc;

pub use auc::Auc;
pub use block_losses::{LossSums, Targets, losses};
pub use error::GraphError;
pub use gemm::{Bf16Kernel, Gemm, Multiplier, Precision, Scalar, Side, bf16_kernel};
pub use graph::{
    Block, BlockGradients, BufferKind, BufferPlan, Graph, GraphBuilder, InputShape, NodeView,
    PackedWeight, PackedWeights, PassObserver, Plan, Shown, Watched, Workspace,
};
pub use layer::{
    Activate, Activation, Add, BINS, Backward, BatchNorm, Concat, Convolution, Cross, CrossVector,
    Dice, DotInteraction, Dropout, FactorizationMachine, Flops, Forward, FourierFeatures, Function,
    GradientOut, GradientTarget, Image, InBatchSoftmax, InputGradients, Inputs, Layer, LayerNorm,
    Linear, Lstm, Mixture, MultiHeadAttention, Multiply, NodeId, Operation, Pool, Pooling, Purpose,
    Reads, Source, TargetAttention, Training, UnitLength, Window,
};
pub use loss::{Loss, Outcome};
pub use matrix::{Matrix, MatrixMut, Write};
pub use objective::Objective;
pub use parameter::{Initial, ParameterShape, ParameterSpec};
pub use score_bits::{AucValue, Ranked};
pub use softmax::{ClassSums, softmax_losses};
pub use tree::{tree_sum, tree_sum_of_subtrees, tree_sum_values};
pub use weighted_auc::WeightedAuc;
