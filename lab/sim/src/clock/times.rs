//! Times of a network, of arithmetic, and of computing with delays.

use stepwell_base::random::Stream;
use stepwell_fabric::Network;

/// A cost model.
#[derive(Clone, Debug)]
pub struct Times {
    /// Each rank's link.
    pub network: Network,
    /// Bytes per second that a protocol's arithmetic reads and writes: see `stepwell_sync::Work`.
    pub arithmetic: f64,
    /// Additional seconds for each parcel that a rank sends.
    pub per_parcel: f64,
    /// Time of a gradient.
    pub computing: Computing,
}

/// Seconds that a rank takes for a gradient: `base` times the gradient's relative cost, plus
/// delays.
#[derive(Clone, Debug)]
pub struct Computing {
    /// Seconds of a usual gradient.
    pub base: f64,
    /// Delays to add.
    pub delays: Vec<Delay>,
    /// Seed of random delays.
    pub seed: u64,
}

/// A delay of some ranks.
#[derive(Clone, Debug)]
pub struct Delay {
    /// Affected ranks.
    pub ranks: Vec<usize>,
    /// Distribution.
    pub kind: DelayKind,
}

/// Distribution of the seconds added to each gradient of each rank.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DelayKind {
    /// Uniform between both.
    Uniform(f64, f64),
    /// Exponential with this mean: memoryless, like interruptions.
    Exponential(f64),
    /// Pareto: at least `scale`, with a tail that falls with the power `shape`; at most 1000 times
    /// `scale`.
    HeavyTail {
        /// Minimum.
        scale: f64,
        /// Exponent; the smaller, the heavier the tail.
        shape: f64,
    },
    /// `seconds` each time, starting with gradient `after`: permanent slowness.
    From {
        /// First slow gradient.
        after: u64,
        /// Seconds to add.
        seconds: f64,
    },
}

impl Computing {
    /// A constant time for all ranks and gradients.
    pub fn even(base: f64) -> Self {
        Self { base, delays: Vec::new(), seed: 0 }
    }

    /// Seconds of gradient `step` of `rank`, with relative cost `cost`.
    pub fn seconds(&self, rank: usize, step: u64, cost: f64) -> f64 {
        let meets = self.delays.iter().enumerate().filter(|(_, delay)| delay.ranks.contains(&rank));
        let drawn = meets.map(|(number, delay)| self.delay(number, rank, step, delay.kind));
        self.base * cost + drawn.sum::<f64>()
    }

    /// Draws from the stream `clock/delay`, followed by the number of the delay, rank and step (u64
    /// each).
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
        // The mean of a Pareto distribution is shape / (shape - 1) times the minimum.
        assert!((mean(DelayKind::HeavyTail { scale: 1.0, shape: 3.0 }) - 1.5).abs() < 0.05);
        assert_eq!(mean(DelayKind::From { after: 10_000, seconds: 4.0 }), 2.0);
    }
}
