//! Settings of the protocols: number of ranks, computing time, and lateness.

use serde::Serialize;
use stepwell_sim::clock::{Computing, Delay, DelayKind, Times};
use stepwell_sync::{Groups, Kind, Several};

use crate::costs::Costs;

/// Lateness of ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Lateness {
    /// None: all ranks take equally long.
    None,
    /// Every rank, by 0 to 50 ms each time.
    Delays,
    /// Every rank, by 0 to 50 ms in the first half, and by 50 to 100 ms in the second.
    Mixed,
    /// Every rank, by a Pareto-distributed time of at least 5 ms, with a mean of 15 ms.
    HeavyTail,
    /// The last rank, by 200 ms each time, from its 50th gradient.
    Straggler,
    /// Every rank, by 0 to 50 ms; in addition, ranks are of the thesis's three kinds of machines
    /// (its table 5.2). Half of them compute for the setting's time, a quarter for 0.84 times, and
    /// a quarter for 2.6 times as long, by the peak rates of a GTX 1080 Ti, a 2080 Ti and half a
    /// K80.
    Machines,
}

/// A setting.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Setting {
    /// Number of ranks.
    pub ranks: usize,
    /// Milliseconds of a gradient without delays.
    pub computing_ms: f64,
    /// Lateness of ranks.
    pub lateness: Lateness,
}

/// The headline's setting, close to the thesis's ResNet50.
pub(super) const HEADLINE: Setting =
    Setting { ranks: 16, computing_ms: 5.0, lateness: Lateness::Delays };

/// Computing time on the faster and the slower kind of machine, relative to the usual one.
const FASTER: f64 = 0.84;
const SLOWER: f64 = 2.6;

impl Setting {
    /// Times for the given costs of messages and arithmetic.
    pub(super) fn times(&self, costs: &Costs, seed: u64) -> Times {
        costs.times(self.computing(seed))
    }

    /// Times of gradients.
    fn computing(&self, seed: u64) -> Computing {
        let (half, three_quarters, all) = (self.ranks / 2, self.ranks / 4 * 3, self.ranks);
        let usual = self.computing_ms / 1e3;
        let always = |seconds| DelayKind::From { after: 0, seconds };
        let to = |from, to| DelayKind::Uniform(from, to);
        let delays = match self.lateness {
            Lateness::None => Vec::new(),
            Lateness::Delays => vec![(0..all, to(0.0, 0.05))],
            Lateness::Mixed => vec![(0..half, to(0.0, 0.05)), (half..all, to(0.05, 0.1))],
            Lateness::HeavyTail => vec![(0..all, DelayKind::HeavyTail { scale: 5e-3, shape: 1.5 })],
            Lateness::Straggler => {
                vec![(all - 1..all, DelayKind::From { after: 50, seconds: 0.2 })]
            }
            Lateness::Machines => vec![
                (0..all, to(0.0, 0.05)),
                (0..half, always((1.0 - FASTER) * usual)),
                (three_quarters..all, always((SLOWER - FASTER) * usual)),
            ],
        };
        let delay =
            |(ranks, kind): (std::ops::Range<usize>, _)| Delay { ranks: ranks.collect(), kind };
        let delays = delays.into_iter().map(delay).collect();
        let base = if self.lateness == Lateness::Machines { FASTER * usual } else { usual };
        Computing { base, delays, seed }
    }

    /// A step of the blocking sum, divided by the time in which independent ranks compute as many
    /// gradients. `cost` is the relative cost of a rank's gradient.
    pub(super) fn limit(&self, seed: u64, cost: impl Fn(usize, u64) -> f64) -> f64 {
        const STEPS: u64 = 1000;
        let computing = self.computing(seed);
        let seconds = |rank, step| computing.seconds(rank, step, cost(rank, step));
        let slowest = |step| (0..self.ranks).map(|rank| seconds(rank, step)).fold(0.0, f64::max);
        let blocking: f64 = (0..STEPS).map(slowest).sum();
        // Gradients of all ranks per second.
        let alone = |rank| STEPS as f64 / (0..STEPS).map(|step| seconds(rank, step)).sum::<f64>();
        let rate: f64 = (0..self.ranks).map(alone).sum();
        blocking / STEPS as f64 * rate / self.ranks as f64
    }

    /// Groups of ranks with similar times.
    fn groups(&self) -> Groups {
        let (half, three_quarters, all) = (self.ranks / 2, self.ranks / 4 * 3, self.ranks);
        // The slow ranks of three kinds of machines, or otherwise the second half.
        let slow = if self.lateness == Lateness::Machines { three_quarters } else { half };
        Groups::Several(vec![(0..slow).collect(), (slow..all).collect()])
    }
}

/// A protocol with its options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entrant {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    /// Whether ranks with similar times form groups.
    pub(super) grouped: bool,
    /// How several gradients of a rank are combined in one sum.
    pub(super) several: Several,
}

impl Entrant {
    const fn flat(kind: Kind) -> Self {
        Self { name: kind.name(), kind, grouped: false, several: Several::Summed }
    }

    /// Ranks that sum among themselves.
    pub(super) fn groups(&self, setting: &Setting) -> Groups {
        if self.grouped { setting.groups() } else { Groups::One }
    }

    /// The protocols to run, the baseline first, including groups if ranks differ permanently. The
    /// thesis's plain RNA is `rna_averaged`: waiting gradients of a rank count as one.
    pub(super) fn of(lateness: Lateness) -> Vec<Self> {
        let kinds = [Kind::Bsp, Kind::EagerMajority, Kind::AdPsgd, Kind::Rna];
        let mut all = kinds.map(Self::flat).to_vec();
        let several = Several::Averaged;
        all.push(Self { name: "rna_averaged", several, ..Self::flat(Kind::Rna) });
        if matches!(lateness, Lateness::Mixed | Lateness::Machines) {
            all.push(Self { name: "rna_hierarchical", grouped: true, ..Self::flat(Kind::Rna) });
        }
        all
    }
}
