//! The paper's measurements. Source: Lim et al., "RDMA-wild", section 5, tables 1 and 2.

use crate::models::Model;

/// Number of workers, in addition to one server.
pub(crate) const WORKERS: usize = 15;
/// Examples of a worker's mini-batch.
pub(crate) const MINI_BATCH: usize = 8;
/// Training examples of MNIST.
pub(crate) const EXAMPLES: usize = 60_000;

/// A line of both tables, with the configuration to run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line {
    pub(crate) model: Model,
    /// Features per example.
    pub(crate) columns: usize,
    /// Number of model parameters, 64 bits each.
    pub(crate) lanes: usize,
    pub(crate) epochs: u64,
    /// Initial learning rate, for the mean over all workers' gradients. The paper's, except for
    /// `fcnn`, for which the paper has 0.1: this is the best of four on held-out examples.
    pub(crate) rate: f64,
    /// Factor of the rate per epoch. The paper calls it weight decay, 0.9, but applied to weights,
    /// it would nearly remove them; as a decay of the rate, it reproduces the paper's accuracies.
    pub(crate) decay: f64,
    /// Seconds that Sync-DSGD took.
    pub(crate) sync_seconds: f64,
    /// Seconds that RDMA-wild took.
    pub(crate) wild_seconds: f64,
    /// Speedup of Sync-DSGD over a single node.
    pub(crate) sync_speedup: f64,
    /// Speedup of RDMA-wild over a single node.
    pub(crate) wild_speedup: f64,
    /// Target test accuracy.
    pub(crate) accuracy: f64,
}

impl Line {
    /// Seconds of a mini-batch on a single node, including its step.
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

/// All lines.
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
