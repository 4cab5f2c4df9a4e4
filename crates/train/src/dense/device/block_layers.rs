//! Constants of layers that look at all examples of a block, and the room that they take.

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
