//! The planned buffers of one block, allocated once and reused for every block.

use stepwell_base::huge::HugeSlice;

use super::Graph;
use crate::gemm::Scalar;
use crate::gemm::Scratch;

/// Values and gradients of a block with a bounded number of examples; one workspace per thread.
///
/// Bytes: see [`Plan::workspace_bytes`](super::Plan::workspace_bytes) and [`Graph::packing_bytes`].
/// A block never affects the results of a later one.
#[derive(Debug)]
pub struct Workspace<T> {
    pub(super) rows_max: usize,
    /// Aligned to cache lines, and so are rows of usual widths.
    pub(super) values: HugeSlice<T>,
    pub(super) gradients: HugeSlice<T>,
    /// Scratch of a layer during a pass.
    pub(super) scratch: HugeSlice<T>,
    /// Buffers for packed operands of products.
    pub(super) packing: Scratch,
}

impl<T: Scalar> Workspace<T> {
    /// A workspace for blocks of at most `rows_max` examples.
    pub fn new(graph: &Graph<T>, rows_max: usize) -> Self {
        let plan = graph.plan();
        Self {
            rows_max,
            values: HugeSlice::rounded_up(plan.value_lanes * rows_max),
            gradients: HugeSlice::rounded_up(plan.gradient_lanes * rows_max),
            scratch: HugeSlice::rounded_up(graph.scratch_lanes(rows_max)),
            packing: Scratch::default(),
        }
    }

    /// Most examples of a block.
    pub fn rows_max(&self) -> usize {
        self.rows_max
    }

    /// Whether it matches the graph's dimensions.
    pub(super) fn fits(&self, graph: &Graph<T>) -> bool {
        let plan = graph.plan();
        self.values.len() == plan.value_lanes * self.rows_max
            && self.gradients.len() == plan.gradient_lanes * self.rows_max
            && self.scratch.len() >= graph.scratch_lanes(self.rows_max)
    }
}
