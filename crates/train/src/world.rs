//! A world that a run can be put into, so that it can be simulated: a disk that is not the
//! machine's, checkpoints that are kept elsewhere, a witness of every row that is read, and rules
//! that are switched off.

use std::sync::Arc;

use rayon::ThreadPool;
use stepwell_base::rules::Rules;
use stepwell_disk::Disk;
use stepwell_engine::{Checkpoint, Keep, Witness};

use crate::capacity::Capacity;

/// What stands in for the machine.
pub struct World {
    /// Where the stores lie, each in a directory below. Segments are merged by the thread that
    /// writes, so that no thread but the driver's is at work.
    pub disk: Arc<dyn Disk>,
    /// The model to go on from.
    pub from: Option<Checkpoint>,
    /// Makes who keeps checkpoints, where the run writes some.
    pub keeper: Option<Box<dyn Fn() -> Box<dyn Keep> + Send + Sync>>,
    /// Sees every row that is read.
    pub witness: Arc<dyn Witness>,
    /// The rules that hold.
    pub rules: Rules,
    /// Sizes in place of those that the capacity plan chooses.
    pub sizes: Option<Sizes>,
    /// Threads that compute; none for a pool of the run's own.
    pub pool: Option<Arc<ThreadPool>>,
}

/// Sizes that the capacity plan would choose larger than a small job can fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Bytes of a block of lines.
    pub block_bytes: usize,
    /// Rows of a staged chunk.
    pub chunk_rows: usize,
    /// Chunks of each table group.
    pub chunks: usize,
}

impl Sizes {
    pub(crate) fn apply(self, capacity: &mut Capacity) {
        capacity.block_bytes = self.block_bytes;
        for group in &mut capacity.tiers.groups {
            (group.chunk_rows, group.chunks) = (self.chunk_rows, self.chunks);
        }
    }
}
