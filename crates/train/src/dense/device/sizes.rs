//! Sizes of a device's buffers for the dense part.

use stepwell_base::owner::RankOf;
use stepwell_device::{Device, WORKSPACE_BYTES_MAX};
use stepwell_engine::Blocks;
use stepwell_nn::{Graph, NodeView, Operation};

use super::block_layers::{AttentionLanes, moment_lanes};
use crate::dense::LANES;
use crate::models::Model;
use crate::run_plan::RunPlan;

/// The rows of a slot, and the lanes of a block's gradient, are multiples of this. So every slot
/// has everything at multiples of 256 bytes: a library that chooses its algorithm by the operands'
/// alignment chooses the same for a block in any slot.
const MULTIPLE: usize = 64;

/// Partial sums of the squares of each part of a gradient.
pub(super) const PART_SUMS: usize = 16;

/// Sizes of each device's buffers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sizes {
    /// Devices that have blocks.
    pub(super) devices: usize,
    /// Blocks of a mini-batch, on all devices of all ranks.
    pub(super) blocks: usize,
    /// Slots, each with room for a block.
    pub(super) slots: usize,
    /// Rows of a slot.
    pub(super) slot_rows: usize,
    /// Columns of the graph's input, and of the embeddings among them.
    pub(super) columns: usize,
    pub(super) embedding: usize,
    pub(super) labels: usize,
    pub(super) parameters: usize,
    /// Lanes summed over blocks: gradients of the parameters, then statistics.
    pub(super) summed: usize,
    /// Lanes of the graph's state.
    pub(super) state: usize,
    /// Lanes of a block's moments and sums.
    pub(super) moments: usize,
    /// Vectors of the optimizer's state.
    pub(super) vectors: usize,
    /// Lanes of an example, according to the graph's plan.
    pub(super) value_lanes: usize,
    pub(super) gradient_lanes: usize,
    /// Scores of an example with the others of its block, if a layer compares them.
    pub(super) scores: usize,
    /// Lanes of attention to sequences, if a layer has it.
    pub(super) attention: Option<AttentionLanes>,
    /// Lanes of an example's intermediate results.
    pub(super) terms: usize,
    /// Bound of the gradient's norm; 0 if it has none.
    pub(super) norm_max: f64,
    /// Whether evaluations use a mean of the parameters over steps.
    pub(super) averages: bool,
    /// Layers that drop lanes.
    pub(super) dropping: usize,
    /// The most subtrees that a device's blocks make up.
    pub(super) subtrees: usize,
}

impl Sizes {
    /// Sizes for `devices` devices, or fewer if there are fewer blocks.
    pub(super) fn new(model: &Model, plan: &RunPlan<'_>, devices: usize) -> Self {
        let RunPlan { batching, ranks, dense, .. } = plan;
        let (graph, plan) = (model.graph(), model.graph().plan());
        let (all, ranks) = (batching.blocks, ranks.count);
        let own = all.div_ceil(ranks);
        let devices = devices.clamp(1, own);
        let attention = AttentionLanes::of(graph.nodes());
        let multiple = attention.map_or(MULTIPLE, |of| of.multiple.max(MULTIPLE));
        let slot_rows = batching.full_mini_batch().largest().next_multiple_of(multiple);
        let subtrees = |rank: usize, device: usize| {
            let own = Blocks::new(0, all).of_rank(RankOf { rank, ranks });
            own.part(device, devices).subtrees().count()
        };
        let of_ranks = (0..ranks).flat_map(|rank| (0..devices).map(move |of| (rank, of)));
        Self {
            devices,
            blocks: all,
            slots: own.div_ceil(devices),
            slot_rows,
            columns: model.columns(),
            embedding: model.embedding().count,
            labels: model.labels().len(),
            parameters: graph.parameter_count(),
            summed: model.summed_count(),
            state: graph.state_count(),
            moments: moment_lanes(graph.nodes()),
            vectors: dense.rule.state_names().len(),
            value_lanes: plan.value_lanes,
            gradient_lanes: plan.gradient_lanes,
            scores: if graph.nodes().any(|of| compares(&of)) { slot_rows } else { 0 },
            attention,
            terms: terms(graph),
            norm_max: dense.regularization.clip_norm,
            averages: dense.ema.is_some(),
            dropping: graph.nodes().filter(drops).count(),
            subtrees: of_ranks.map(|(rank, of)| subtrees(rank, of)).max().unwrap_or(0).max(1),
        }
    }

    /// Columns of dense features.
    pub(super) fn features(&self) -> usize {
        self.columns - self.embedding
    }

    /// Rows of all slots.
    pub(super) fn rows(&self) -> usize {
        self.slots * self.slot_rows
    }

    /// Lanes of a vector of parameters, of summed lanes, or of the state.
    pub(super) fn vector(&self) -> usize {
        self.summed.max(self.state)
    }

    /// Lanes between the gradients of consecutive blocks.
    pub(super) fn apart(&self) -> usize {
        self.summed.next_multiple_of(MULTIPLE)
    }

    /// Random streams of all layers that drop lanes.
    pub(super) fn streams(&self) -> usize {
        self.dropping * self.rows()
    }

    /// Partial sums of the squares of a gradient.
    pub(super) fn square_sums(&self) -> usize {
        self.parameters.div_ceil(LANES) * PART_SUMS
    }

    /// Lanes uploaded for an example, by buffer.
    pub(super) fn lanes_up(&self) -> [usize; 4] {
        [self.columns, 1, self.labels, 1]
    }

    /// Bytes of a device for attention to sequences.
    fn attention_bytes(&self) -> u64 {
        let bytes = |lanes: usize| Device::bytes_counted(lanes.max(1) as u64 * 4);
        let (rows, slots) = (self.rows(), self.slots);
        let of_buffers = |lanes: AttentionLanes| -> u64 {
            lanes.buffers(rows, slots).map(bytes).iter().sum::<u64>() + bytes(rows) + bytes(slots)
        };
        self.attention.map_or(0, of_buffers)
    }

    /// The most bytes of a device, and of pinned host memory.
    pub(super) fn bytes(&self) -> (u64, u64) {
        let (rows, slots) = (self.rows(), self.slots);
        let lanes = |lanes: usize| Device::bytes_counted(lanes.max(1) as u64 * 4);
        let doubles = |count: usize| lanes(2 * count.max(1));
        let up = self.lanes_up().map(|of| lanes(rows * of)).iter().sum::<u64>()
            + lanes(slots)
            + doubles(self.streams());
        let down = lanes(rows * self.embedding) + lanes(rows) + doubles(3 * slots);
        let passes = lanes(rows * self.value_lanes)
            + lanes(rows * self.gradient_lanes)
            + lanes(rows * self.terms)
            + lanes(rows * self.scores)
            + self.attention_bytes()
            + lanes(rows * self.features())
            + doubles(rows * (self.labels + 1))
            + lanes(self.labels)
            + doubles(3 * self.labels);
        let parameters = lanes(self.parameters)
            + lanes(self.parameters * self.vectors)
            + if self.averages { lanes(self.parameters) } else { 0 }
            + if self.norm_max > 0.0 { lanes(self.square_sums()) + lanes(1) } else { 0 }
            + lanes(slots * self.apart())
            + lanes(self.subtrees * self.vector())
            + lanes(self.state)
            + lanes(slots * self.moments);
        let pinned = up + down + lanes(rows * self.labels);
        let carried = lanes(self.subtrees * self.vector()) + lanes(self.vector());
        (up + down + passes + parameters + WORKSPACE_BYTES_MAX, pinned + carried)
    }
}

/// Whether a node drops lanes at random.
pub(super) fn drops(node: &NodeView<'_>) -> bool {
    matches!(node.operation, Operation::Dropout { .. })
}

/// Whether a node compares the examples of a block.
fn compares(node: &NodeView<'_>) -> bool {
    matches!(node.operation, Operation::InBatchSoftmax { .. })
}

/// The most lanes per example of a layer's intermediate results.
fn terms(graph: &Graph<f32>) -> usize {
    let terms = graph.nodes().map(|node| match node.operation {
        Operation::FactorizationMachine { dim, .. } => dim,
        Operation::CrossVector { .. } | Operation::UnitLength { .. } => 1,
        Operation::LayerNorm { groups, .. } => 2 * groups,
        Operation::Mixture { experts, .. } => experts,
        Operation::InBatchSoftmax { dim, .. } => dim,
        Operation::MultiHeadAttention { heads, dim, steps_max } => heads * (steps_max + dim),
        _ => 0,
    });
    terms.max().unwrap_or(0)
}
