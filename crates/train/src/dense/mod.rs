//! The dense part of a model, wherever it is computed.
//!
//! ```text
//!               x by block ─► forward ─► loss ─► backward ─► d_x, d_first_order, logits, sums
//!  Trainer ──►                                      └► gradients of the parameters by block
//!               gradients over blocks, or their sum over ranks ─► optimizer
//! ```
//!
//! - **Why.** What a step does with rows, and with other ranks, is the same wherever layers are
//!   computed.
//! - **How.** A [`DenseExecutor`] owns parameters, the optimizer's state and gradients. It is given
//!   a mini-batch to pass over, then either steps by the gradients that it has or by a sum that
//!   others made of the [`Summed`] of all ranks. `host` is the processor, `device` is devices.
//! - **Invariants.** D1 the blocks of a mini-batch are its unit of summation: within one, sums run
//!   in the order of examples; over blocks they follow the one tree of `stepwell_nn`. So neither
//!   threads nor ranks show in the bits.

mod agreed;
mod device;
mod host;
mod input;
mod sections;

use std::ops::Range;

use rayon::ThreadPool;
use stepwell_base::huge::HugeSlice;
use stepwell_engine::{Blocks, Dense, DenseView};
use stepwell_nn::{Loss, LossSums, tree_sum, tree_sum_of_subtrees};

pub(crate) use self::agreed::AgreedOptimizer;
pub(crate) use self::device::DeviceDense;
pub use self::device::HostProducts;
pub(crate) use self::host::HostDense;
pub(crate) use self::input::Input;
use crate::Result;
use crate::batch::Examples;
use crate::models::Model;
use crate::profile::Profile;

/// Lanes that one task sums or updates.
pub(crate) const LANES: usize = 16 << 10;

/// What computes the dense part: a pass over a mini-batch, and the step that follows.
///
/// It never looks at rows, nor at other ranks: both reach it as numbers.
pub(crate) trait DenseExecutor: Send + Sync {
    /// Number of parameters.
    fn parameter_count(&self) -> usize;

    /// From now on it has the blocks of one of so many ranks at most.
    fn share(&mut self, ranks: usize);

    /// Begins a pass over the blocks of `work`, where what computes it goes on by itself; nobody
    /// waits for it yet.
    ///
    /// # Errors
    /// When what computes it fails.
    fn begin(&mut self, _work: &Work<'_>) -> Result<()> {
        Ok(())
    }

    /// The forward pass over the blocks of `work`, which was begun, and the backward pass where
    /// they are trained; sums over each block.
    ///
    /// # Errors
    /// When what computes it fails.
    fn pass(&mut self, work: &Work<'_>, out: Outputs<'_>) -> Result<Vec<LossSums>>;

    /// The gradients of the parameters that the last pass found.
    ///
    /// # Errors
    /// When what computes them fails.
    fn gradients(&mut self) -> Result<Summed<'_>>;

    /// Updates the parameters by the gradients of the last pass; where `total` is there, by that.
    ///
    /// # Errors
    /// When what computes it fails.
    fn step(&mut self, total: Option<Pieces<'_>>, on: Processor<'_>) -> Result<()>;

    /// Parameters, state of the optimizer and its count of steps, as they go into digests.
    ///
    /// # Errors
    /// When they cannot be read.
    fn sections(&self) -> Result<DenseView<'_>>;

    /// Takes over what [`DenseExecutor::sections`] gave; gives the count of steps.
    ///
    /// # Errors
    /// Says what does not fit this model.
    fn load(&mut self, dense: &Dense) -> std::result::Result<u64, String>;

    /// Goes on with other parameters, as after so many steps; the optimizer's state stays.
    ///
    /// # Errors
    /// When what computes with them fails.
    fn set_parameters(&mut self, parameters: &[f32], steps: u64) -> Result<()>;

    /// Whether every parameter is a number.
    ///
    /// # Errors
    /// When they cannot be read.
    fn is_finite(&self) -> Result<bool>;
}

/// What the host computes with.
#[derive(Clone, Copy)]
pub(crate) struct Processor<'a> {
    pub(crate) pool: &'a ThreadPool,
    pub(crate) profile: &'a Profile,
}

/// A mini-batch, as far as it concerns the dense part.
#[derive(Clone, Copy)]
pub(crate) struct Work<'a> {
    pub(crate) model: &'a Model,
    pub(crate) input: Input<'a>,
    pub(crate) examples: &'a Examples,
    /// Of each label.
    pub(crate) losses: &'a [Loss],
    /// Those that are here.
    pub(crate) blocks: Blocks,
    pub(crate) trains: bool,
    pub(crate) on: Processor<'a>,
}

/// Where a pass puts what others want of it.
pub(crate) struct Outputs<'a> {
    pub(crate) logits: &'a mut [f32], // (examples, labels)
    /// Gradient of the sums of first-order weights, where it trains. // (examples)
    pub(crate) d_first_order: &'a mut [f32],
    /// Gradient of the pooled embeddings, where it trains. // (examples, embedding columns)
    pub(crate) d_x: &'a mut [f32],
}

/// A vector of parameters in pieces, with the first lane of each.
pub(crate) type Pieces<'a> = &'a [(usize, &'a [f32])];

/// What the gradient of the parameters is the sum of, blocks counted from the first that are here.
pub(crate) enum Summed<'a> {
    /// The gradient of each block.
    Blocks(&'a [HugeSlice<f32>]),
    /// Sums over subtrees of the blocks, by the first block of each, which ascend.
    Subtrees(Vec<(usize, &'a [f32])>),
}

impl Summed<'_> {
    /// Sets `sum` to lanes `lanes` of the sum over the blocks of `subtree`, one of `of`.
    pub(crate) fn sum(
        &self,
        (of, subtree): (Blocks, Range<usize>),
        lanes: Range<usize>,
        sum: &mut [f32],
    ) {
        match self {
            Self::Blocks(blocks) => {
                let blocks = blocks[subtree].iter().map(|block| &block[lanes.clone()]);
                tree_sum(&blocks.collect::<Vec<_>>(), sum);
            }
            Self::Subtrees(sums) => {
                // Where two meet is told by their numbers in the whole mini-batch.
                let inside = sums.iter().filter(|(first, _)| subtree.contains(first));
                let parts = inside.map(|(first, sum)| (of.first() + first, &sum[lanes.clone()]));
                tree_sum_of_subtrees(&parts.collect::<Vec<_>>(), sum);
            }
        }
    }
}

/// Sets `sum` to lanes `lanes` of a vector in pieces.
fn copy_pieces(pieces: Pieces<'_>, lanes: Range<usize>, sum: &mut [f32]) {
    for (first, piece) in pieces {
        let (from, to) = (lanes.start.max(*first), lanes.end.min(first + piece.len()));
        if from < to {
            sum[from - lanes.start..to - lanes.start]
                .copy_from_slice(&piece[from - first..to - first]);
        }
    }
}

/// Takes the first `count` lanes.
fn front<'a>(rest: &mut &'a mut [f32], count: usize) -> &'a mut [f32] {
    let (front, back) = std::mem::take(rest).split_at_mut(count);
    *rest = back;
    front
}
