//! State of a graph besides parameters: numbers that training computes and evaluation reads.
//!
//! ```text
//! training    block ─► forward ─► statistics of the block ─┐
//!             block ─► forward ─► statistics of the block ─┴► tree_sum ─► advance ─► state
//! evaluation  block, state ─► forward
//! ```
//!
//! Statistics of blocks are added like gradients, in the same tree. Training advances the state
//! once per mini-batch by their sum, and stores it with the parameters.

use super::Graph;
use crate::gemm::Scalar;
use crate::parameter::ParameterSpec;

impl<T: Scalar> Graph<T> {
    /// Name, shape and position of each part of the state.
    pub fn state(&self) -> &[ParameterSpec] {
        &self.state
    }

    /// Length of the flat vector of the state.
    pub fn state_count(&self) -> usize {
        self.state.last().map_or(0, |spec| spec.range.end)
    }

    /// Initial state.
    pub fn initial_state(&self) -> Vec<T> {
        let mut values = vec![T::ZERO; self.state_count()];
        for spec in &self.state {
            spec.init(0, &mut values[spec.range.clone()]);
        }
        values
    }

    /// Length of the statistics vector of a block.
    pub fn statistics_count(&self) -> usize {
        self.statistics_count
    }

    /// Updates the state with the sum of the statistics over all blocks of a mini-batch.
    pub fn advance_state(&self, state: &mut [T], statistics: &[T]) {
        assert_eq!(state.len(), self.state_count(), "state of this graph");
        assert_eq!(statistics.len(), self.statistics_count, "statistics of this graph");
        for node in &self.nodes {
            let statistics = &statistics[node.statistics.clone()];
            node.layer.advance(&mut state[node.state.clone()], statistics);
        }
    }
}
