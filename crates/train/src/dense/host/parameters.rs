//! The dense parameters, and their packed weights for a step's blocks.

use rayon::ThreadPool;
use rayon::prelude::*;
use stepwell_nn::{Graph, PackedWeights};

use crate::profile::{Kernel, Profile};

/// Invariant: if `is_packed`, nothing has changed since packing.
#[derive(Debug)]
pub(super) struct Parameters {
    values: Vec<f32>,
    packed: PackedWeights,
    is_packed: bool,
}

impl Parameters {
    /// The initial parameters.
    pub(super) fn new(graph: &Graph<f32>, seed: u64) -> Self {
        let values = graph.initial_parameters(seed);
        Self { values, packed: graph.packed_weights(), is_packed: false }
    }

    /// All parameters.
    pub(super) fn values(&self) -> &[f32] {
        &self.values
    }

    /// All parameters, to be changed.
    pub(super) fn values_mut(&mut self) -> &mut [f32] {
        self.is_packed = false;
        &mut self.values
    }

    /// All parameters, and their packed weights.
    pub(super) fn packed(&self) -> (&[f32], &PackedWeights) {
        assert!(self.is_packed, "weights are packed before a pass");
        (&self.values, &self.packed)
    }

    /// Packs the weights, if they changed.
    pub(super) fn pack(&mut self, graph: &Graph<f32>, pool: &ThreadPool, profile: &Profile) {
        if std::mem::replace(&mut self.is_packed, true) {
            return;
        }
        let (values, parts) = (&self.values, self.packed.parts_mut());
        if parts.is_empty() {
            return;
        }
        // A lane is read as f32 and written as half as many bytes.
        profile.count(Kernel::Dense, 0, 3 * graph.packing_writes() as u64);
        let pack = |part| profile.time(Kernel::Dense, || graph.pack(values, part));
        pool.install(|| parts.par_iter_mut().with_max_len(1).for_each(pack));
    }
}
