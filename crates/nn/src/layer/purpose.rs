//! What a pass over a block is for: training, or evaluation.

use std::ops::Range;

/// What a pass over a block is for.
#[derive(Debug)]
pub enum Purpose<'a, T> {
    /// To train; gradients may follow.
    Training(Training<'a, T>),
    /// To evaluate: nothing is dropped, and the state stands for the examples of a block.
    Evaluation {
        /// The state, as training left it; of a graph, or of one layer where it is handed on.
        state: &'a [T],
    },
}

/// Where in training a block is.
#[derive(Debug, Default)]
pub struct Training<'a, T> {
    /// What is drawn is a function of this seed and of names.
    pub seed: u64,
    /// Steps before this one.
    pub step: u64,
    /// Number of the block's first example in its whole mini-batch, whoever has the others.
    pub first_example: u64,
    /// Where the statistics of the block go, if anybody wants them.
    pub statistics: Option<&'a mut [T]>,
}

impl<T> Default for Purpose<'_, T> {
    fn default() -> Self {
        Self::Training(Training { seed: 0, step: 0, first_example: 0, statistics: None })
    }
}

impl<T> Purpose<'_, T> {
    /// That the vectors have the lengths of their graph.
    pub(crate) fn check(&self, of_state: usize, of_statistics: usize) {
        match self {
            Self::Training(Training { statistics: None, .. }) => {}
            Self::Training(Training { statistics: Some(statistics), .. }) => {
                assert_eq!(statistics.len(), of_statistics, "statistics of this graph");
            }
            Self::Evaluation { state } => assert_eq!(state.len(), of_state, "state of this graph"),
        }
    }

    /// The same for a node with these parts of state and statistics.
    pub(crate) fn of_node(
        &mut self,
        of_state: Range<usize>,
        of_statistics: Range<usize>,
    ) -> Purpose<'_, T> {
        match self {
            Self::Training(Training { seed, step, first_example, statistics }) => {
                let statistics = statistics.as_deref_mut().map(|all| &mut all[of_statistics]);
                let (seed, step, first_example) = (*seed, *step, *first_example);
                Purpose::Training(Training { seed, step, first_example, statistics })
            }
            Self::Evaluation { state } => Purpose::Evaluation { state: &state[of_state] },
        }
    }
}
