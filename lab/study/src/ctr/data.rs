//! Data of all runs, and the ranks that share it.

use std::sync::Arc;

use stepwell_base::ByteCount;
use stepwell_nn::Graph;

use super::examples::Clicks;
use crate::costs::Costs;

/// Number of ranks.
pub(super) const RANKS: usize = 4;

/// Examples, model and costs of all runs.
#[derive(Debug)]
pub(super) struct Data {
    pub(super) train: Arc<Clicks>,
    pub(super) test: Clicks,
    /// Mini-batches of a pass.
    pub(super) gradients: usize,
    pub(super) graph: Arc<Graph<f32>>,
    /// Memory for each rank's rows.
    pub(super) dram: Option<ByteCount>,
    pub(super) costs: Costs,
}
