//! The dense part of a model, on any kind of processor.
//!
//! ```text
//!               x by block ─► forward ─► loss ─► backward ─► d_x, d_first_order, logits, sums
//!  a step ──►                 │                      └► gradients of the parameters by block
//!                             └► statistics by block
//!               gradients over blocks, or their sum over ranks ─► optimizer
//!               statistics, summed alike ─► state, which evaluations read
//! ```
//!
//! - **Why.** A step's work on rows, and with other ranks, is the same wherever layers are
//!   computed.
//! - **How.** A [`DenseExecutor`] owns parameters, optimizer state and gradients. It passes over a
//!   mini-batch, then steps either by its own gradients or by a sum of the [`Summed`] of all ranks.
//!   `host` is the processor, `device` is devices.
//! - **Invariants.**
//!   - TRAIN-I1: the blocks of a mini-batch are its unit of summation: within a block, sums run in
//!     the order of examples; over blocks they follow the fixed tree of `stepwell_nn`. So neither
//!     the number of threads nor of ranks changes the bits.

mod agreed;
mod device;
mod host;
mod input;
mod sections;

use std::ops::Range;

use rayon::ThreadPool;
use stepwell_base::huge::HugeSlice;
use stepwell_engine::{Blocks, Dense, DenseView};
use stepwell_nn::{LossSums, Objective, Source, tree_sum, tree_sum_of_subtrees};

pub(crate) use self::agreed::AgreedOptimizer;
pub(crate) use self::device::DeviceDense;
pub use self::device::HostProducts;
pub(crate) use self::host::HostDense;
pub(crate) use self::input::Input;
pub(crate) use self::sections::{AVERAGED, STATE};
use crate::Result;
use crate::batch::Examples;
use crate::models::Model;
use crate::profile::Profile;

/// Lanes that one task sums or updates.
pub(crate) const LANES: usize = 16 << 10;

/// Computes the dense part: a pass over a mini-batch, and the step that follows.
///
/// An executor knows neither rows nor other ranks: it receives both as numbers.
pub(crate) trait DenseExecutor: Send + Sync {
    /// Number of lanes that are summed over blocks: gradients of the parameters, then statistics.
    fn summed_count(&self) -> usize;

    /// Limits all later passes to the blocks of one of `ranks` ranks.
    fn share(&mut self, ranks: usize);

    /// Starts a pass over the blocks of `work` if it can run asynchronously, without waiting for
    /// it.
    ///
    /// # Errors
    /// If the executor fails.
    fn begin(&mut self, _work: &Work<'_>) -> Result<()> {
        Ok(())
    }

    /// Runs the forward pass over the blocks of `work`, which `begin` was called for, and the
    /// backward pass if they are trained; returns sums over each block.
    ///
    /// # Errors
    /// If the executor fails.
    fn pass(&mut self, work: &Work<'_>, out: Outputs<'_>) -> Result<Vec<LossSums>>;

    /// The parameter gradients and statistics of the last pass.
    ///
    /// # Errors
    /// If the executor fails.
    fn gradients(&mut self) -> Result<Summed<'_>>;

    /// Updates the parameters and the graph's state, after `steps` steps of the model, by `total`
    /// if given, else by the gradients and statistics of the last pass.
    ///
    /// # Errors
    /// If the executor fails.
    fn step(&mut self, steps: u64, total: Option<Pieces<'_>>, on: Processor<'_>) -> Result<()>;

    /// Sets how often the learning rate has fallen at a plateau, for later steps.
    fn set_falls(&mut self, falls: u64);

    /// Parameters, optimizer state, the graph's state and the step count, in the form of digests.
    ///
    /// # Errors
    /// If they cannot be read.
    fn sections(&self) -> Result<DenseView<'_>>;

    /// Loads what [`DenseExecutor::sections`] returned; returns the step count.
    ///
    /// # Errors
    /// Describes what does not fit this model.
    fn load(&mut self, dense: &Dense) -> std::result::Result<u64, String>;

    /// Replaces the parameters, as if after `steps` steps, and keeps the optimizer state.
    ///
    /// # Errors
    /// If the executor fails.
    fn set_parameters(&mut self, parameters: &[f32], steps: u64) -> Result<()>;

    /// Whether all parameters are finite.
    ///
    /// # Errors
    /// If they cannot be read.
    fn is_finite(&self) -> Result<bool>;
}

/// Resources that the host computes with.
#[derive(Clone, Copy)]
pub(crate) struct Processor<'a> {
    pub(crate) pool: &'a ThreadPool,
    pub(crate) profile: &'a Profile,
}

/// The dense part's view of a mini-batch.
#[derive(Clone, Copy)]
pub(crate) struct Work<'a> {
    pub(crate) model: &'a Model,
    pub(crate) input: Input<'a>,
    pub(crate) examples: &'a Examples,
    /// Objective of each label.
    pub(crate) objectives: &'a [Objective],
    /// The blocks on this rank.
    pub(crate) blocks: Blocks,
    pub(crate) trains: bool,
    /// Layers whose outputs are copied, if the pass doesn't train.
    pub(crate) shown: &'a [Source],
    pub(crate) on: Processor<'a>,
}

/// Outputs of a pass.
pub(crate) struct Outputs<'a> {
    pub(crate) logits: &'a mut [f32], // (examples, labels)
    /// Gradient of the sums of first-order weights, if the pass trains. // (examples)
    pub(crate) d_first_order: &'a mut [f32],
    /// Gradient of the pooled embeddings, if the pass trains. // (examples, embedding columns)
    pub(crate) d_x: &'a mut [f32],
    /// Outputs of the shown layers. // (examples, columns)
    pub(crate) shown: &'a mut [f32],
}

/// A vector of summed lanes in pieces, each with its first lane.
pub(crate) type Pieces<'a> = &'a [(usize, &'a [f32])];

/// Summands of gradients and statistics; blocks are counted from this rank's first.
pub(crate) enum Summed<'a> {
    /// The lanes of each block.
    Blocks(&'a [HugeSlice<f32>]),
    /// Sums over subtrees of the blocks, by ascending first block.
    Subtrees(Vec<(usize, &'a [f32])>),
}

impl Summed<'_> {
    /// Sets `sum` to lanes `lanes` of the sum over the blocks of `subtree`, a part of `of`.
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
                // The numbers in the whole mini-batch determine how subtrees join.
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

/// Takes the first `count` elements.
fn front<'a, T>(rest: &mut &'a mut [T], count: usize) -> &'a mut [T] {
    let (front, back) = std::mem::take(rest).split_at_mut(count);
    *rest = back;
    front
}
