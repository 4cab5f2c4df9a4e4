//! What the paper measured. Source: Lim et al., "RDMA-wild", section 5, tables 1 and 2.

use crate::models::Model;

/// Workers beside one server.
pub(crate) const WORKERS: usize = 15;
/// Examples of a worker's mini-batch.
pub(crate) const MINI_BATCH: usize = 8;
/// Training examples of MNIST.
pub(crate) const EXAMPLES: usize = 60_000;

/// A line of both tables, and what was run for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line {
    pub(crate) model: Model,
    /// Features of an example.
    pub(crate) columns: usize,
    /// Numbers of the model, of 64 bits each.
    pub(crate) lanes: usize,
    pub(crate) epochs: u64,
    /// At the beginning, for the mean over all workers' gradients. The paper's, but for `fcnn`,
    /// where it has 0.1: this is the best of four on examples that were held out.
    pub(crate) rate: f64,
    /// What is left of it after each epoch: what the paper calls weight decay, 0.9, cannot be one
    /// of the weights, which would all but vanish; as a decay of the rate it gives its accuracies.
    pub(crate) decay: f64,
    /// Seconds that Sync-DSGD took.
    pub(crate) sync_seconds: f64,
    /// Seconds that RDMA-wild took.
    pub(crate) wild_seconds: f64,
    /// How much faster than a single node Sync-DSGD was.
    pub(crate) sync_speedup: f64,
    /// And RDMA-wild.
    pub(crate) wild_speedup: f64,
    /// Test accuracy to be reached.
    pub(crate) accuracy: f64,
}

impl Line {
    /// Seconds of a mini-batch on a single node, its step included.
    pub(crate) fn single_seconds(&self) -> f64 {
        let mini_batches = self.epochs as f64 * EXAMPLES as f64 / MINI_BATCH as f64;
        self.sync_seconds * self.sync_speedup / mini_batches
    }

    /// Seconds of a step of all workers under Sync-DSGD.
    pub(crate) fn round_seconds(&self) -> f64 {
        let rounds = self.epochs as f64 * EXAMPLES as f64 / (WORKERS * MINI_BATCH) as f64;
        self.sync_seconds / rounds
    }
}

/// All of them.
pub(crate) const LINES: [Line; 3] = [
    Line {
        model: Model::Lr,
        columns: 784,
        lanes: 7_850,
        epochs: 15,
        rate: 0.9,
        decay: 0.9,
        sync_seconds: 3.10,
        wild_seconds: 2.79,
        sync_speedup: 2.76,
        wild_speedup: 3.08,
        accuracy: 0.92,
    },
    Line {
        model: Model::LrRff,
        columns: 10_000,
        lanes: 100_010,
        epochs: 50,
        rate: 9.0,
        decay: 0.9,
        sync_seconds: 122.36,
        wild_seconds: 95.98,
        sync_speedup: 5.82,
        wild_speedup: 7.42,
        accuracy: 0.95,
    },
    Line {
        model: Model::Fcnn(128),
        columns: 784,
        lanes: 101_770,
        epochs: 50,
        rate: 0.4,
        decay: 1.0,
        sync_seconds: 135.92,
        wild_seconds: 110.29,
        sync_speedup: 1.58,
        wild_speedup: 1.95,
        accuracy: 0.98,
    },
];
