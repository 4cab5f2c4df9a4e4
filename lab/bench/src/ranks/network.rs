//! Training on a slow network, relative to the longer of computing and sending.

use stepwell_fabric::Network;
use stepwell_settings::ModelKind;
use stepwell_train::Report;

use super::figures::{Figures, OnNetwork};
use super::job::{Bench, Job, exchanged};
use crate::Result;
use crate::measure::{in_turns, median, most, over};

/// 1 Gbit/s per rank, and a latency of 50 us.
pub const NETWORK: Network = Network { bytes_per_second: 125e6, latency_seconds: 50e-6 };
/// Number of ranks.
const RANKS: usize = 2;
/// Sequential messages per step: the weights of rows after the previous step, the gradients of
/// rows, and sums of dense gradients. Keys are sent ahead.
const IN_TURN: f64 = 3.0;

/// Lower bound on the seconds that the network needs for what the ranks of a run sent.
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
