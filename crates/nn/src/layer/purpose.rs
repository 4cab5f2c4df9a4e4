//! Purpose of a pass over a block: training or evaluation.

use std::ops::Range;

/// Purpose of a pass over a block.
#[derive(Debug)]
pub enum Purpose<'a, T> {
    /// Training; a backward pass may follow.
    Training(Training<'a, T>),
    /// Evaluation: nothing is dropped, and the state replaces statistics of the block.
    Evaluation {
        /// State from training: of a graph, or of one layer inside its pass.
        state: &'a [T],
    },
}

/// Position of a block in training.
#[derive(Debug, Default)]
pub struct Training<'a, T> {
    /// Seed of random numbers, together with names.
    pub seed: u64,
    /// Number of completed steps.
    pub step: u64,
    /// Number of the block's first example in its whole mini-batch, over all ranks.
    pub first_example: u64,
    /// State from earlier steps: of a graph, or of one layer inside its pass; empty if it isn't
    /// known.
    pub state: &'a [T],
    /// Output for the statistics of the block, if needed.
    pub statistics: Option<&'a mut [T]>,
}

impl<T> Default for Purpose<'_, T> {
    fn default() -> Self {
        let (seed, step, first_example) = (0, 0, 0);
        Self::Training(Training { seed, step, first_example, state: &[], statistics: None })
    }
}

impl<T> Purpose<'_, T> {
    /// Asserts that the vectors have the lengths of their graph.
    pub(crate) fn check(&self, of_state: usize, of_statistics: usize) {
        match self {
            Self::Training(Training { state, statistics, .. }) => {
                let is_known = !state.is_empty();
                assert!(!is_known || state.len() == of_state, "state of this graph");
                let lanes = statistics.as_ref().map_or(of_statistics, |of| of.len());
                assert_eq!(lanes, of_statistics, "statistics of this graph");
            }
            Self::Evaluation { state } => assert_eq!(state.len(), of_state, "state of this graph"),
        }
    }

    /// The purpose for a node, with these parts of state and statistics.
    pub(crate) fn of_node(
        &mut self,
        of_state: Range<usize>,
        of_statistics: Range<usize>,
    ) -> Purpose<'_, T> {
        match self {
            Self::Training(Training { seed, step, first_example, state, statistics }) => {
                let statistics = statistics.as_deref_mut().map(|all| &mut all[of_statistics]);
                let (seed, step, first_example) = (*seed, *step, *first_example);
                let state = state.get(of_state).unwrap_or_default();
                Purpose::Training(Training { seed, step, first_example, state, statistics })
            }
            Self::Evaluation { state } => Purpose::Evaluation { state: &state[of_state] },
        }
    }
}
