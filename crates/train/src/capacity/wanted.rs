//! Inputs of the capacity plan.

use stepwell_data::{Input, Schema};
use stepwell_device::Offer;
use stepwell_engine::Checkpoint;

use crate::models::Model;
use crate::run_plan::RunPlan;

/// Name of the bound on a learner, if ranks are out of step.
pub(super) const LEARNING: &str = "learning";

/// Bytes of a block of lines; no line and no block of a packed file may be longer.
pub(crate) const BLOCK_BYTES: usize = stepwell_data::BLOCK_BYTES / 4;

/// Inputs of the plan.
#[derive(Debug)]
pub(crate) struct Wanted<'a> {
    /// Settings.
    pub(crate) plan: &'a RunPlan<'a>,
    /// Columns of the data.
    pub(crate) schema: Schema,
    /// The data to read, and the data to evaluate on if separate.
    pub(crate) inputs: [Option<&'a Input>; 2],
    /// The model.
    pub(crate) model: &'a Model,
    /// The devices of a rank, if there are any.
    pub(crate) offer: Option<Offer>,
    /// Examples of an epoch, if counted.
    pub(crate) examples: Option<u64>,
    /// The checkpoint that the run begins with; `None` for a new model.
    pub(crate) from: Option<&'a Checkpoint>,
    /// Rows of each table group in that checkpoint, if known.
    pub(crate) before: Option<Vec<u64>>,
    /// Whether the checkpoint's model is only scored with, not trained.
    pub(crate) scores: bool,
    /// Whether the run may start with rows from a source other than `from`.
    pub(crate) has_rows: bool,
    /// Expected number of rows over all ranks, if given.
    pub(crate) rows: Option<u64>,
    /// Blocks of the cache that is made of the data, and its bytes.
    pub(crate) cache: Option<(u64, u64)>,
    /// Ranks of the run on this machine.
    pub(crate) ranks: RanksHere,
}

/// How many ranks share this process's and this machine's resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RanksHere {
    /// Ranks that are threads of this process.
    pub(crate) threads: usize,
    /// Ranks that are processes on this machine, including this one.
    pub(crate) processes: usize,
}
