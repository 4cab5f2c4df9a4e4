//! Constants of layers over blocks and sequences, and their memory.

use stepwell_device::Arg;
use stepwell_nn::{NodeView, Operation};

/// Constants of a normalization over a block.
#[derive(Clone, Copy)]
pub(super) struct Norm {
    pub(super) columns: usize,
    pub(super) epsilon: f64,
    pub(super) momentum: f64,
    /// Lanes of a block in `moments`.
    lanes: usize,
}

/// The normalization of `node`, if it has one.
pub(super) fn norm_of(node: &NodeView<'_>) -> Option<Norm> {
    match node.operation {
        Operation::BatchNorm { channels: columns, epsilon, momentum, .. } => {
            Some(Norm { columns, epsilon, momentum, lanes: 2 * columns })
        }
        Operation::Dice { columns, epsilon, momentum } => {
            Some(Norm { columns, epsilon, momentum, lanes: 4 * columns })
        }
        _ => None,
    }
}

/// Lanes of moments and sums that each block has for all of `nodes`.
pub(super) fn moment_lanes<'a>(nodes: impl Iterator<Item = NodeView<'a>>) -> usize {
    nodes.filter_map(|node| norm_of(&node)).map(|norm| norm.lanes).sum()
}

/// Constants of a softmax within a block.
#[derive(Clone, Copy)]
pub(super) struct Softmax {
    pub(super) dim: usize,
    pub(super) temperature: f64,
}

impl Softmax {
    /// Factor of dot products.
    pub(super) fn factor(self) -> Arg<'static> {
        Arg::f32((1.0 / self.temperature) as f32)
    }
}

/// Steps that are multiplied at a time in attention to sequences. The processor pads the last chunk
/// less, which gives the same bits.
pub(super) const CHUNK: usize = 256;

/// Constants of an attention to a sequence.
#[derive(Clone, Copy)]
pub(super) struct Attention {
    pub(super) dim: usize,
    pub(super) steps_max: usize,
    pub(super) hidden: usize,
}

/// The most lanes that any attention of a graph needs for its intermediate results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct AttentionLanes {
    /// Sums of weights.
    pub(super) weights: usize,
    /// Steps of an example.
    pub(super) steps: usize,
    /// Features of an example's steps.
    pub(super) features: usize,
    /// Hidden lanes of an example's steps.
    pub(super) hidden: usize,
    /// Hidden lanes of an example.
    pub(super) of_target: usize,
    /// Lanes of a target.
    pub(super) target: usize,
    /// The steps of a multiple of this many examples fill whole chunks.
    pub(super) multiple: usize,
}

impl AttentionLanes {
    /// The maxima over `nodes`; `None` if none of them is an attention.
    pub(super) fn of<'a>(nodes: impl Iterator<Item = NodeView<'a>>) -> Option<Self> {
        let all = nodes.filter_map(|node| match node.operation {
            Operation::TargetAttention { dim, steps_max, hidden } => Some(Self {
                weights: 3 * dim * hidden,
                steps: steps_max,
                features: steps_max * 2 * dim,
                hidden: steps_max * hidden,
                of_target: hidden,
                target: dim,
                multiple: CHUNK >> steps_max.trailing_zeros().min(CHUNK.ilog2()),
            }),
            _ => None,
        });
        all.reduce(|one, other| Self {
            weights: one.weights.max(other.weights),
            steps: one.steps.max(other.steps),
            features: one.features.max(other.features),
            hidden: one.hidden.max(other.hidden),
            of_target: one.of_target.max(other.of_target),
            target: one.target.max(other.target),
            multiple: one.multiple.max(other.multiple),
        })
    }

    /// Lanes of each buffer, for `rows` rows in `slots` slots.
    pub(super) fn buffers(&self, rows: usize, slots: usize) -> [usize; 8] {
        [
            self.weights,
            rows * self.of_target,
            rows * self.features,
            rows * self.features,
            rows * self.hidden,
            rows * self.steps,
            slots * self.weights,
            rows * self.target,
        ]
    }
}

/// Constants of a multi-head attention.
#[derive(Clone, Copy)]
pub(super) struct Heads {
    pub(super) heads: usize,
    pub(super) dim: usize,
    pub(super) steps_max: usize,
}

impl Heads {
    /// Factor of dot products.
    pub(super) fn scale(self) -> f32 {
        (1.0 / (self.dim as f64).sqrt()) as f32
    }
}
