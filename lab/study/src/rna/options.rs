//! Options of the study.

use crate::Effort;
use crate::costs::Costs;

/// Options of the study.
#[derive(Clone, Debug)]
pub struct StudyOptions {
    /// All settings, or a tenth of them.
    pub effort: Effort,
    /// Uses one in this many training examples.
    pub part: usize,
    /// First seed, for the order of data, sequences, initial values, probes and delays.
    pub seed: u64,
    /// Number of seeds, starting with `seed`.
    pub seeds: u64,
    /// Costs of messages and arithmetic.
    pub costs: Costs,
}
