//! The dense parameters' update: gradients summed over blocks and the optimizer, in one pass, or in
//! two if the norm of the whole gradient has to be known first.

use std::ops::Range;

use rayon::prelude::*;
use stepwell_base::huge::HugeSlice;
use stepwell_engine::Workspaces;
use stepwell_nn::tree_sum;
use stepwell_optim::{DenseState, DenseStep, square_sum_of};

use crate::dense::{LANES, Pieces, copy_pieces};
use crate::profile::{Kernel, Profile};

/// Inputs of an update.
pub(super) struct DenseUpdate<'a> {
    pub(super) gradient: Gradient<'a>,
    pub(super) step: DenseStep,
    /// Scratch for sums of gradients. // (lanes of a task)
    pub(super) workspaces: &'a Workspaces<Vec<f32>>,
    pub(super) profile: &'a Profile,
}

/// Summands of the parameter gradient and of statistics.
#[derive(Clone, Copy)]
pub(super) enum Gradient<'a> {
    /// The lanes of each block.
    OfBlocks(&'a [HugeSlice<f32>]),
    /// The sum in pieces, each with its first lane.
    Pieces(Pieces<'a>),
}

impl Gradient<'_> {
    /// Number of vectors to read.
    fn count(self) -> usize {
        match self {
            Self::OfBlocks(blocks) => blocks.len(),
            Self::Pieces(_) => 1,
        }
    }

    /// Sets `sum` to the lanes of `range`.
    pub(super) fn sum(self, range: Range<usize>, sum: &mut [f32]) {
        match self {
            Self::OfBlocks(blocks) => {
                let blocks: Vec<&[f32]> =
                    blocks.iter().map(|block| &block[range.clone()]).collect();
                tree_sum(&blocks, sum);
            }
            Self::Pieces(pieces) => copy_pieces(pieces, range, sum),
        }
    }
}

impl DenseUpdate<'_> {
    /// Updates all `parameters`, whose state is `state`.
    pub(super) fn run(mut self, parameters: &mut [f32], state: &mut DenseState) {
        if self.step.clips() {
            self.step.clip(self.square_sum(parameters.len()));
        }
        let Self { gradient, step, profile, .. } = self;
        let vectors = state.vectors().count();
        let parts = parameters.chunks_mut(LANES).zip(state.parts(LANES));
        let tasks: Vec<_> = parts.enumerate().collect();
        tasks.into_par_iter().with_max_len(1).for_each(|(number, (parameters, state))| {
            let lanes = parameters.len() * (gradient.count() + 2 + 2 * vectors);
            profile.count(Kernel::Dense, 0, (lanes * size_of::<f32>()) as u64);
            self.with_sum(number, parameters.len(), |sum| step.apply(parameters, state, sum));
        });
    }

    /// The sum of the squares of the whole gradient of `count` parameters. Parts are added in
    /// order, whatever the threads.
    fn square_sum(&self, count: usize) -> f64 {
        let parts: Vec<f64> = (0..count.div_ceil(LANES))
            .into_par_iter()
            .map(|number| {
                let lanes = LANES.min(count - number * LANES);
                let bytes = lanes * self.gradient.count() * size_of::<f32>();
                self.profile.count(Kernel::Dense, 0, bytes as u64);
                self.with_sum(number, lanes, |sum| f64::from(square_sum_of(sum)))
            })
            .collect();
        parts.into_iter().sum()
    }

    /// Calls `work` with the gradient of the `lanes` parameters of part `number`.
    fn with_sum<T>(&self, number: usize, lanes: usize, work: impl FnOnce(&[f32]) -> T) -> T {
        self.profile.time(Kernel::Dense, || {
            let mut room = self.workspaces.take(|| vec![0.0; LANES]);
            let sum = &mut room[..lanes];
            self.gradient.sum(number * LANES..number * LANES + lanes, sum);
            let result = work(sum);
            self.workspaces.put_back(room);
            result
        })
    }
}
