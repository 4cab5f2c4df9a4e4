//! Time that a sum waits for its initiator, by the number of probes: figure 5.7.
//!
//! A hundred ranks have tasks of 10 to 50 ms each, and almost nothing to sum. The time between sums
//! is the time of the probes, the answer, and the rest of the faster task.

use std::collections::BTreeMap;

use serde::Serialize;
use stepwell_fabric::Network;
use stepwell_sim::clock::{BoxedLearner, ClockedRun, Computing, Delay, DelayKind, Times};
use stepwell_sync::{Kind, Options, Rate};

use crate::{Effort, Result};

/// Number of ranks.
const RANKS: usize = 100;
/// Numbers of probes.
const PROBES: [usize; 5] = [1, 2, 3, 5, 10];
/// Untimed sums at the start.
const WARM_UP: u64 = 20;

/// Milliseconds between sums.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Response {
    /// 5th percentile.
    pub p5: f64,
    /// Median.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
}

/// Measures each number of probes.
pub(super) fn run(effort: Effort, seed: u64) -> Result<BTreeMap<usize, Response>> {
    let (probes, sums) = match effort {
        Effort::Quick => (&PROBES[..2], 50),
        Effort::Full => (&PROBES[..], 100),
    };
    let of = |probes: &usize| Ok((*probes, of_probes(*probes, RANKS, sums, seed)?));
    probes.iter().map(of).collect()
}

fn of_probes(probes: usize, ranks: usize, sums: u64, seed: u64) -> Result<Response> {
    let delays = vec![Delay { ranks: (0..ranks).collect(), kind: DelayKind::Uniform(0.01, 0.05) }];
    let times = Times {
        network: Network { bytes_per_second: 100e9 / 8.0, latency_seconds: 2e-6 },
        arithmetic: 1e12,
        // A probe is a small remote call, which takes its sender a microsecond.
        per_parcel: 1e-6,
        computing: Computing { base: 0.0, delays, seed },
    };
    let options = Options { probes, seed, ..Options::new(WARM_UP + sums, Rate::constant(1.0)) };
    let null = |_: usize| -> BoxedLearner<f32> {
        Box::new(|_: u64, _: &[f32], gradient: &mut [f32]| gradient.fill(0.0))
    };
    let learners = (0..ranks).map(null).collect();
    let mut run = ClockedRun::new(Kind::Rna, &options, &[0.0f32], learners, times)?;
    let mut ends = vec![0.0];
    while run.advance()? {
        if run.updates_of(0) as usize == ends.len() {
            ends.push(run.seconds());
        }
    }
    let sums = ends.windows(2).skip(WARM_UP as usize).map(|pair| 1e3 * (pair[1] - pair[0]));
    let mut sums: Vec<f64> = sums.collect();
    sums.sort_by(f64::total_cmp);
    let at = |share: f64| sums[((sums.len() - 1) as f64 * share).round() as usize];
    Ok(Response { p5: at(0.05), p50: at(0.5), p95: at(0.95) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_probe_helps_most() {
        let medians = [1, 2, 10].map(|probes| of_probes(probes, 30, 100, 1).unwrap().p50);
        let [one, two, ten] = medians;
        assert!(one > 1.3 * two && two > ten && one - two > two - ten, "{medians:?}");
    }
}
