//! The other ranks of a run, and delays of ranks for measurements.

use std::time::Duration;

use stepwell_base::random::Stream;
use stepwell_base::stop::StopRequest;
use stepwell_fabric::Fabric;

/// The connection of a rank to the others.
#[derive(Clone, Debug)]
pub struct Ranks {
    /// The fabric that joins them.
    pub fabric: Fabric,
    /// Asks all ranks to end after the same step, requested on any rank.
    pub stop: StopRequest,
    /// Number of ranks on this machine, including this one, as far as known, if ranks are
    /// processes, which may differ in build, machine and data.
    pub processes: Option<usize>,
}

/// Delays each rank in every training step, as other work on its machine would.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Late {
    /// The longest delay in seconds; delays are uniform, drawn for each rank and step.
    pub seconds_max: f64,
    /// Seed of the delays.
    pub seed: u64,
}

impl Late {
    /// Delay of `rank` in step `step`, in seconds.
    pub fn seconds(&self, rank: usize, step: u64) -> f64 {
        let name = [b"train/late/".as_slice(), &(rank as u64).to_le_bytes()].concat();
        let drawn = Stream::named(self.seed, &name).at(step) >> 11;
        self.seconds_max * drawn as f64 / (1u64 << 53) as f64
    }

    /// Sleeps for the delay of `rank` in step `step`.
    pub(crate) fn hold_up(&self, rank: usize, step: u64) {
        std::thread::sleep(Duration::from_secs_f64(self.seconds(rank, step)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_uniform_and_of_each_rank_its_own() {
        let late = Late { seconds_max: 0.05, seed: 1 };
        let of = |rank| (0..1000).map(move |step| late.seconds(rank, step)).collect::<Vec<_>>();
        let mean = of(0).iter().sum::<f64>() / 1000.0;
        assert!((mean - 0.025).abs() < 0.002, "{mean}");
        assert!(of(0).iter().all(|seconds| (0.0..0.05).contains(seconds)));
        assert_ne!(of(0), of(1));
    }
}
