//! The dense parameters' update: gradients summed over blocks and the optimizer, in one pass.

use rayon::prelude::*;
use stepwell_base::huge::HugeSlice;
use stepwell_engine::Workspaces;
use stepwell_nn::tree_sum;
use stepwell_optim::{DenseState, DenseStep};

use crate::profile::{Kernel, Profile};

/// Lanes that one task updates.
pub(super) const LANES: usize = 16 << 10;

/// Everything that an update reads.
pub(super) struct DenseUpdate<'a> {
    /// Gradient of the parameters by block.
    pub(super) gradients: &'a [HugeSlice<f32>],
    pub(super) step: DenseStep,
    /// Room for sums of gradients. // (lanes of a task)
    pub(super) workspaces: &'a Workspaces<Vec<f32>>,
    pub(super) profile: &'a Profile,
}

impl DenseUpdate<'_> {
    /// Updates all `parameters`, whose state is `state`.
    pub(super) fn run(&self, parameters: &mut [f32], state: &mut DenseState) {
        let Self { gradients, step, workspaces, profile } = self;
        let vectors = state.vectors().count();
        let parts = parameters.chunks_mut(LANES).zip(state.parts(LANES));
        let tasks: Vec<_> = parts.enumerate().collect();
        tasks.into_par_iter().with_max_len(1).for_each(|(number, (parameters, state))| {
            let range = number * LANES..number * LANES + parameters.len();
            let lanes = parameters.len() * (gradients.len() + 2 + 2 * vectors);
            profile.count(Kernel::Dense, 0, (lanes * size_of::<f32>()) as u64);
            profile.time(Kernel::Dense, || {
                let blocks: Vec<&[f32]> =
                    gradients.iter().map(|gradient| &gradient[range.clone()]).collect();
                let mut room = workspaces.take(|| vec![0.0; LANES]);
                let sum = &mut room[..parameters.len()];
                tree_sum(&blocks, sum);
                step.apply(parameters, state, sum);
                workspaces.put_back(room);
            });
        });
    }
}
