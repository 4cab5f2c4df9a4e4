//! Where protocols meet: how many ranks, how long they compute, who is late.

use serde::Serialize;
use stepwell_fabric::Network;
use stepwell_sim::clock::{Computing, Delay, DelayKind, Times};
use stepwell_sync::{Groups, Kind};

/// Who is late.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Lateness {
    /// Nobody: all ranks take as long.
    None,
    /// Every rank by 0 to 50 ms each time.
    Delays,
    /// Every rank by 0 to 50 ms, and the second half of them by 50 to 100 ms instead.
    Mixed,
    /// Every rank by a Pareto-distributed time of at least 5 ms, with a mean of 15 ms.
    HeavyTail,
    /// The last rank by 200 ms each time, from its 50th gradient on.
    Straggler,
}

/// A setting.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Setting {
    /// Ranks.
    pub ranks: usize,
    /// Milliseconds of a gradient without delays.
    pub computing_ms: f64,
    /// Who is late.
    pub lateness: Lateness,
}

/// Bytes per second that a rank's arithmetic reads and writes: what one core of the machines of the
/// time copies.
const ARITHMETIC: f64 = 12e9;

impl Setting {
    /// What things take.
    pub(super) fn times(&self, seed: u64) -> Times {
        let (half, all) = (self.ranks / 2, self.ranks);
        let to = |from, to| DelayKind::Uniform(from, to);
        let delays = match self.lateness {
            Lateness::None => Vec::new(),
            Lateness::Delays => vec![(0..all, to(0.0, 0.05))],
            Lateness::Mixed => vec![(0..half, to(0.0, 0.05)), (half..all, to(0.05, 0.1))],
            Lateness::HeavyTail => vec![(0..all, DelayKind::HeavyTail { scale: 5e-3, shape: 1.5 })],
            Lateness::Straggler => {
                vec![(all - 1..all, DelayKind::From { after: 50, seconds: 0.2 })]
            }
        };
        let delay =
            |(ranks, kind): (std::ops::Range<usize>, _)| Delay { ranks: ranks.collect(), kind };
        let delays = delays.into_iter().map(delay).collect();
        Times {
            // EDR InfiniBand.
            network: Network { bytes_per_second: 100e9 / 8.0, latency_seconds: 2e-6 },
            arithmetic: ARITHMETIC,
            per_parcel: 0.0,
            computing: Computing { base: self.computing_ms / 1e3, delays, seed },
        }
    }

    /// A step of the blocking sum over the time in which ranks, left alone, compute as many
    /// gradients.
    pub(super) fn limit(&self, seed: u64) -> f64 {
        const STEPS: u64 = 1000;
        let computing = self.times(seed).computing;
        let seconds = |rank, step| computing.seconds(rank, step, 1.0);
        let slowest = |step| (0..self.ranks).map(|rank| seconds(rank, step)).fold(0.0, f64::max);
        let blocking: f64 = (0..STEPS).map(slowest).sum();
        // Gradients of all ranks in a second.
        let alone = |rank| STEPS as f64 / (0..STEPS).map(|step| seconds(rank, step)).sum::<f64>();
        let rate: f64 = (0..self.ranks).map(alone).sum();
        blocking / STEPS as f64 * rate / self.ranks as f64
    }

    /// The two groups of a mixed setting.
    pub(super) fn halves(&self) -> Groups {
        let half = self.ranks / 2;
        Groups::Several(vec![(0..half).collect(), (half..self.ranks).collect()])
    }
}

/// A protocol as it is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entrant {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    /// Whether each half of the ranks is a group.
    pub(super) grouped: bool,
}

impl Entrant {
    const fn flat(kind: Kind) -> Self {
        Self { name: kind.name(), kind, grouped: false }
    }

    /// Those that run, the baseline first: hierarchical groups where ranks differ for good.
    pub(super) fn of(lateness: Lateness) -> Vec<Self> {
        let kinds = [Kind::Bsp, Kind::EagerMajority, Kind::AdPsgd, Kind::Rna];
        let mut all = kinds.map(Self::flat).to_vec();
        if lateness == Lateness::Mixed {
            all.push(Self { name: "rna_hierarchical", kind: Kind::Rna, grouped: true });
        }
        all
    }
}
