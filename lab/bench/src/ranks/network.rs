//! Training on a slow network, over the longer of computing and sending.

use serde::Serialize;
use stepwell_fabric::Network;
use stepwell_settings::ModelKind;
use stepwell_train::Report;

use super::job::{Bench, Job, exchanged};
use super::{Figures, most};
use crate::Result;
use crate::measure::{in_turns, median, over};

/// 1 Gbit/s of each rank, and 50 us.
pub const NETWORK: Network = Network { bytes_per_second: 125e6, latency_seconds: 50e-6 };
/// Ranks.
const RANKS: usize = 2;
/// Messages of a step that must follow one another: the weights of rows as the step before left
/// them, what is said of them, and sums of dense gradients of what was said. Keys go ahead.
const IN_TURN: f64 = 3.0;

/// Runs of one model, in pairs: on the slow network and without it.
#[derive(Clone, Debug, Serialize)]
pub struct OnNetwork {
    /// The model.
    pub model: String,
    /// Ranks.
    pub ranks: usize,
    /// Bytes a second of each rank's link.
    pub bytes_per_second: f64,
    /// Latency.
    pub latency_seconds: f64,
    /// Steps.
    pub steps: u64,
    /// To the end of the last step on the slow network, by pair.
    pub wall_seconds: Vec<f64>,
    /// The same without it: computing, and copying messages in memory.
    pub computing_seconds: Vec<f64>,
    /// Bytes of the busiest link at its rate, and the latencies of messages that must follow one
    /// another.
    pub sending_seconds: f64,
    /// The median of the pairs' ratios: time on the network over the longer of the other two.
    pub wall_over_longest: f64,
}

/// How long a network is busy with what the ranks of a run sent, at least.
fn sending_seconds(network: Network, report: &Report) -> f64 {
    let busiest = exchanged(report).iter().map(|rank| rank.bytes_sent).max().unwrap_or(0);
    let latencies = IN_TURN * report.steps as f64 * network.latency_seconds;
    busiest as f64 / network.bytes_per_second + latencies
}

pub(super) fn run(
    bench: &Bench<'_>,
    kind: ModelKind,
    say: &mut dyn FnMut(&str),
    figures: &mut Figures,
) -> Result<()> {
    let fast = Job::of_ranks(kind, RANKS);
    let slow = Job { network: Some(NETWORK), ..fast };
    let (name, rounds) = (kind.name(), bench.options.rounds);
    let mut of_model = OnNetwork {
        model: name.to_owned(),
        ranks: RANKS,
        bytes_per_second: NETWORK.bytes_per_second,
        latency_seconds: NETWORK.latency_seconds,
        steps: 0,
        wall_seconds: Vec::new(),
        computing_seconds: Vec::new(),
        sending_seconds: 0.0,
        wall_over_longest: 0.0,
    };
    let mut ratios = Vec::new();
    for round in 0..rounds {
        say(&format!("{name}, on a slow network: pair {} of {rounds}", round + 1));
        let (slowed, computing) = in_turns(round, || bench.train(&slow), || bench.train(&fast))?;
        let (wall, computing) = (slowed.train_seconds, computing.train_seconds);
        let sending = sending_seconds(NETWORK, &slowed);
        ratios.push(over(wall, computing.max(sending)));
        of_model.wall_seconds.push(wall);
        of_model.computing_seconds.push(computing);
        (of_model.steps, of_model.sending_seconds) = (slowed.steps, sending);
    }
    of_model.wall_over_longest = median(ratios);
    figures.network.push(of_model);
    figures.wall_over_longest = most(figures.network.iter().map(|of| of.wall_over_longest));
    Ok(())
}
