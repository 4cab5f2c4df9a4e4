//! Figures of all parts of the benchmark.

use std::collections::BTreeMap;

use serde::Serialize;

use super::options::Options;
use crate::machine::Machine;

/// All results; what wasn't measured is `None` or empty.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Figures {
    /// Options of the run.
    pub options: Option<Options>,
    pub(super) machine: Option<Machine>,
    /// Connection between the ranks.
    pub fabric: String,
    /// All-to-all messages over MPI relative to `MPI_Alltoallv` of the same bytes: the minimum over
    /// sizes of at least 256 KiB per pair.
    pub alltoallv_over_raw: Option<f64>,
    /// All-to-all messages between threads relative to copying the same bytes in memory.
    pub threads_alltoallv_over_memcpy: Option<f64>,
    /// Results of both, by size.
    pub exchanges: Vec<Exchange>,
    /// Bytes per step relative to the least possible: the maximum of `bytes`.
    pub bytes_over_least: Option<f64>,
    /// Results by model and number of ranks.
    pub bytes: Vec<BytesOfModel>,
    /// Examples per second of two ranks of one thread relative to one rank of two threads, by
    /// model.
    pub ranks_over_threads: BTreeMap<String, f64>,
    /// Like `ranks_over_threads`, with a tenth of the rows in memory.
    pub ranks_over_threads_out_of_core: BTreeMap<String, f64>,
    /// Runs of both comparisons.
    pub pairs: Vec<Pairs>,
    /// Time of a run on a slow network relative to the longer of its computing and its sending: the
    /// maximum of `network`.
    pub wall_over_longest: Option<f64>,
    /// Results by model.
    pub network: Vec<OnNetwork>,
    /// Results by protocol, with delayed ranks.
    pub late: Vec<WhenLate>,
}

/// Exchanges of one size.
#[derive(Clone, Debug, Serialize)]
pub struct Exchange {
    /// Connection between the ranks.
    pub fabric: &'static str,
    /// Name of the limit.
    pub limit: &'static str,
    /// Bytes per pair.
    pub bytes: usize,
    /// Bytes per second that each rank sends to each other one; the median of all rounds.
    pub bytes_per_second: f64,
    /// Bytes per second of the limit.
    pub limit_bytes_per_second: f64,
    /// Ratio of the two.
    pub over_limit: f64,
}

/// Bytes per step of one run.
#[derive(Clone, Debug, Serialize)]
pub struct BytesOfModel {
    /// Name of the model.
    pub model: String,
    /// Number of ranks.
    pub ranks: usize,
    /// Number of steps.
    pub steps: u64,
    /// Keys per step that all ranks request from others.
    pub keys_per_step: f64,
    /// Bytes per step that all ranks together send to others.
    pub bytes_per_step: f64,
    /// The least possible bytes.
    pub least_bytes_per_step: f64,
    /// Ratio of the two.
    pub over_least: f64,
    /// Messages of all ranks per step.
    pub messages_per_step: f64,
}

/// Pairs of runs.
#[derive(Clone, Debug, Serialize)]
pub struct Pairs {
    /// Name of the model.
    pub model: String,
    /// Slots of all ranks together, as a percentage of the rows.
    pub share: u64,
    /// Distinct rows of the data.
    pub rows: u64,
    /// Examples of a run.
    pub examples: u64,
    /// Examples per second of the ranks, by pair.
    pub ranks_examples_per_second: Vec<f64>,
    /// Examples per second of the single rank.
    pub threads_examples_per_second: Vec<f64>,
    /// Median of the pairs' ratios.
    pub ranks_over_threads: f64,
}

/// Runs of one model, in pairs: with and without the slow network.
#[derive(Clone, Debug, Serialize)]
pub struct OnNetwork {
    /// Name of the model.
    pub model: String,
    /// Number of ranks.
    pub ranks: usize,
    /// Bytes per second of each rank's link.
    pub bytes_per_second: f64,
    /// Latency in seconds.
    pub latency_seconds: f64,
    /// Number of steps.
    pub steps: u64,
    /// Seconds until the end of the last step on the slow network, by pair.
    pub wall_seconds: Vec<f64>,
    /// Seconds without the network: computing, and copying messages in memory.
    pub computing_seconds: Vec<f64>,
    /// Seconds for the bytes of the busiest link, plus the latencies of sequential messages.
    pub sending_seconds: f64,
    /// Median of the pairs' ratios: time on the network divided by the longer of the other two.
    pub wall_over_longest: f64,
}

/// Runs of one model with one protocol, paired with runs in step.
#[derive(Clone, Debug, Serialize)]
pub struct WhenLate {
    /// Name of the model.
    pub model: String,
    /// Protocol for dense parameters.
    pub dense: String,
    /// Number of ranks, including servers.
    pub ranks: usize,
    /// Longest delay per step, in seconds.
    pub late_seconds_max: f64,
    /// Steps whose updates rows may miss.
    pub staleness: u64,
    /// Examples per second, by pair.
    pub examples_per_second: Vec<f64>,
    /// Examples per second of ranks in step.
    pub in_step_examples_per_second: Vec<f64>,
    /// Median of the pairs' ratios.
    pub over_in_step: f64,
    /// Speedup that delays alone allow: total seconds of steps that each wait for the slowest rank,
    /// divided by the total seconds of the rank with the longest delays.
    pub delays_allow: f64,
    /// Most steps missing from a row when it was read, in the last run.
    pub staleness_max: u64,
    /// Mean number of steps missing.
    pub staleness_mean: f64,
    /// Share of dropped gradients of dense parameters.
    pub dropped: f64,
}
