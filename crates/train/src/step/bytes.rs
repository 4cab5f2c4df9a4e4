//! Memory bounds of a model in training.

use stepwell_base::huge::HugeSlice;
use stepwell_device::Choice;
use stepwell_engine::{EmbeddingBags, PoolShape};
use stepwell_settings::DensePlace;

use super::TrainedModel;
use crate::dense::{DeviceDense, LANES};
use crate::models::Model;
use crate::run_plan::{Batching, RunPlan};

impl TrainedModel {
    /// How rows of `model` may be pooled on `devices` devices.
    pub(crate) fn pool_shape<'a>(
        model: &'a Model,
        plan: &RunPlan<'_>,
        devices: usize,
    ) -> Option<PoolShape<'a>> {
        let is_there = plan.dense.place == DensePlace::Device;
        is_there.then(|| DeviceDense::pool_shape(model, plan, devices)).flatten()
    }

    /// The most bytes of a model in training.
    pub(crate) fn bytes_max(model: &Model, plan: &RunPlan<'_>) -> u64 {
        let RunPlan { batching, threads, device, .. } = *plan;
        let Batching { mini_batch, blocks, .. } = batching;
        let rows = batching.full_mini_batch().largest();
        let own_blocks = blocks.div_ceil(plan.ranks.learners());
        let (lanes, own) = (size_of::<f32>(), HugeSlice::<f32>::bytes_rounded_up);
        let count = model.graph().parameter_count();
        if plan.dense.place == DensePlace::Device {
            // Two copies of the dense part, for checkpoints; rows are updated here.
            let update = EmbeddingBags::workspace_bytes_max(model.tables(), blocks);
            let examples = example_bytes(model, mini_batch);
            // Emulated devices multiply here, each one product at a time.
            let devices = if let Choice::Emulated(count) = *device { count } else { 0 };
            let products = devices * model.graph().packing_bytes(rows);
            return (6 * count * lanes + threads * update + products + examples) as u64;
        }
        let packed = model.graph().packed_bytes();
        let of_graph = model.graph().state_count() + model.graph().statistics_count();
        let averaged = plan.dense.ema.map_or(0, |_| count * lanes + packed);
        let constants = packed + model.graph().constant_bytes();
        let summands = own_blocks * own(model.summed_count());
        let parameters = (3 * count + of_graph) * lanes + averaged + summands + constants;
        let workspace = model.graph().plan().workspace_bytes(rows, lanes);
        let pass = own(rows * model.columns()) + rows * lanes + workspace;
        let update = LANES * lanes + EmbeddingBags::workspace_bytes_max(model.tables(), blocks);
        let threads = threads * (pass + update + model.graph().packing_bytes(rows));
        (parameters + threads + example_bytes(model, mini_batch)) as u64
    }
}

/// Bytes of logits, their gradients, the first-order gradient, the first of several labels, and the
/// gradient of the pooled embeddings.
fn example_bytes(model: &Model, mini_batch: usize) -> usize {
    let labels = model.labels().len();
    let of_example = 2 * labels + 1 + usize::from(labels > 1);
    let d_x = HugeSlice::<f32>::bytes_rounded_up(mini_batch * model.embedding().count);
    of_example * mini_batch * size_of::<f32>() + d_x
}
