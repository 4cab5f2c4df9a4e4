//! What things take: a network, arithmetic, and computing with its delays.

use stepwell_base::random::Stream;
use stepwell_fabric::Network;

/// A model of costs.
#[derive(Clone, Debug)]
pub struct Times {
    /// Each rank's link.
    pub network: Network,
    /// What a protocol's arithmetic reads and writes in a second: see `stepwell_sync::Work`.
    pub arithmetic: f64,
    /// What it takes beside that for each parcel that a rank sends, in seconds.
    pub per_parcel: f64,
    /// What a gradient takes.
    pub computing: Computing,
}

/// Seconds that a rank computes a gradient: `base` times what the gradient costs, and delays.
#[derive(Clone, Debug)]
pub struct Computing {
    /// Seconds of a usual one.
    pub base: f64,
    /// What comes on top.
    pub delays: Vec<Delay>,
    /// What drawn delays follow from.
    pub seed: u64,
}

/// A delay of some ranks.
#[derive(Clone, Debug)]
pub struct Delay {
    /// Whom it meets.
    pub ranks: Vec<usize>,
    /// What it is.
    pub kind: DelayKind,
}

/// Seconds that are drawn for each gradient of each rank.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DelayKind {
    /// Uniform between both.
    Uniform(f64, f64),
    /// Exponential with this mean: memoryless, as interruptions are.
    Exponential(f64),
    /// Pareto's: at least `scale`, with a tail that falls with the power `shape`; at most 1000
    /// times `scale`.
    HeavyTail {
        /// The least.
        scale: f64,
        /// The smaller, the heavier.
        shape: f64,
    },
    /// `seconds` each time, from gradient `after` on: one that never recovers.
    From {
        /// The first that is slow.
        after: u64,
        /// How much slower.
        seconds: f64,
    },
}

impl Computing {
    /// So many seconds each, the same for all.
    pub fn even(base: f64) -> Self {
        Self { base, delays: Vec::new(), seed: 0 }
    }

    /// Seconds of gradient `step` of `rank`, which costs `cost` times a usual one.
    pub fn seconds(&self, rank: usize, step: u64, cost: f64) -> f64 {
        let meets = self.delays.iter().enumerate().filter(|(_, delay)| delay.ranks.contains(&rank));
        let drawn = meets.map(|(number, delay)| self.delay(number, rank, step, delay.kind));
        self.base * cost + drawn.sum::<f64>()
    }

    /// Named by `clock/delay`, the number of the delay (u64), rank (u64) and step (u64).
    fn delay(&self, number: usize, rank: usize, step: u64, kind: DelayKind) -> f64 {
        let mut name = b"clock/delay".to_vec();
        for part in [number as u64, rank as u64, step] {
            name.extend(part.to_le_bytes());
        }
        let uniform = Stream::named(self.seed, &name).next_f64();
        match kind {
            DelayKind::Uniform(from, to) => from + (to - from) * uniform,
            DelayKind::Exponential(mean) => -mean * libm::log(1.0 - uniform),
            DelayKind::HeavyTail { scale, shape } => {
                scale * libm::pow(1.0 - uniform, -1.0 / shape).min(1000.0)
            }
            DelayKind::From { after, seconds } => {
                if step >= after {
                    seconds
                } else {
                    0.0
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_functions_of_rank_and_step_with_the_right_means() {
        let mean = |kind| {
            let delays = vec![Delay { ranks: vec![1], kind }];
            let computing = Computing { base: 2.0, delays, seed: 7 };
            assert_eq!(computing.seconds(0, 5, 3.0), 6.0);
            assert_eq!(computing.seconds(1, 5, 1.0), computing.seconds(1, 5, 1.0));
            let seconds = (0..20_000).map(|step| computing.seconds(1, step, 1.0) - 2.0);
            seconds.sum::<f64>() / 20_000.0
        };
        assert!((mean(DelayKind::Uniform(1.0, 2.0)) - 1.5).abs() < 0.01);
        assert!((mean(DelayKind::Exponential(0.5)) - 0.5).abs() < 0.02);
        // The mean of Pareto's law is shape / (shape - 1) of the least.
        assert!((mean(DelayKind::HeavyTail { scale: 1.0, shape: 3.0 }) - 1.5).abs() < 0.05);
        assert_eq!(mean(DelayKind::From { after: 10_000, seconds: 4.0 }), 2.0);
    }
}
