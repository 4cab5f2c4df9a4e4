//! Ranks whose gradients take given times, on the virtual clock and with real sleeps, to compare
//! predictions with measurements.

#![expect(clippy::unwrap_used, reason = "a failed test panics")]

use std::fmt::{Display, Formatter};
use std::time::Duration;

use stepwell_base::Key;
use stepwell_base::random::Stream;
use stepwell_fabric::{Fabric, Network};
use stepwell_optim::{RowOptimizer, Rule};
use stepwell_sim::clock::{BoxedLearner, ClockedRun, Computing, Delay, DelayKind, Times};
use stepwell_sync::{
    Driven, Kind, MemoryRows, Options, OptionsError, Protocol, RankRows, Rate, Rules, Staleness,
    drive,
};

pub(crate) const RANKS: usize = 4;
/// Number of dense parameters.
pub(crate) const LANES: usize = 64;
const ROW_LANES: usize = 4;
/// Number of rows, and of rows that a mini-batch needs.
const ROWS: u64 = 200;
const ROWS_PER_STEP: u64 = 8;
const STEPS: u64 = 25;

/// Each rank's dense part converges to a different target, rows to 1.
pub(crate) fn gradient(rank: usize, step: u64, parameters: &[f32], gradient: &mut [f32]) {
    let goal = |at: usize| match at {
        0..LANES => (rank + 1) as f32 + step as f32 * 0.1 + at as f32,
        _ => 1.0,
    };
    let lanes = gradient.iter_mut().zip(parameters).enumerate();
    lanes.for_each(|(at, (g, w))| *g = w - goal(at));
}

/// Time of a wake-up and a message between threads of a machine.
pub(crate) const LATENCY: f64 = 1e-4;

/// 10 ms of computing, 0 to 30 ms of delay, and messages with this latency.
pub(crate) fn times(latency_seconds: f64) -> Times {
    let kind = DelayKind::Uniform(0.0, 0.03);
    let delays = vec![Delay { ranks: (0..RANKS).collect(), kind }];
    Times {
        network: Network { bytes_per_second: 1e9, latency_seconds },
        arithmetic: 1e9,
        per_parcel: 0.0,
        computing: Computing { base: 0.010, delays, seed: 7 },
    }
}

/// A protocol, optionally with rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) kind: Kind,
    rows: Option<Staleness>,
}

impl Display for Case {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let rows = self.rows.map_or_else(|| "no".to_owned(), |rows| format!("{rows:?}"));
        write!(f, "{}, {rows} rows", self.kind)
    }
}

impl Case {
    /// Every protocol, without rows and with each staleness that it supports.
    pub(crate) fn all() -> Vec<Self> {
        let rows = [None, Some(Staleness::Bounded(8)), Some(Staleness::Async)];
        let of = |kind| rows.map(|rows| Self { kind, rows });
        let mut all: Vec<Self> = Kind::ALL.into_iter().flat_map(of).collect();
        all.push(Self { kind: Kind::Bsp, rows: Some(Staleness::Exact) });
        all
    }

    /// A rank's end of the protocol.
    fn end(self, fabric: &Fabric) -> Result<Box<dyn Protocol<f32>>, OptionsError> {
        let options = Options::new(STEPS, Rate::constant(0.1));
        let dense = self.kind.begin(fabric, vec![0.0; LANES], &options)?;
        let Some(staleness) = self.rows else { return Ok(dense) };
        let optimizer = RowOptimizer::new(Rule::sgd(0.1)).unwrap();
        let owned = MemoryRows::new(ROW_LANES, optimizer, |_, weights| weights.fill(0.0));
        let rank = fabric.rank() as u64;
        let keys = move |step: u64, keys: &mut Vec<Key>| {
            let mut stream = Stream::named(step * RANKS as u64 + rank, b"keys");
            let first = stream.next_u64();
            keys.extend((0..ROWS_PER_STEP).map(|next| Key((first % ROWS + next * 7) % ROWS)));
        };
        let rows = RankRows { staleness, owned: Box::new(owned), keys: Box::new(keys) };
        self.kind.with_rows(fabric, dense, rows, Rules::default())
    }

    /// Seconds on the virtual clock, for a message latency of `latency`.
    pub(crate) fn predicted(self, latency: f64) -> f64 {
        let learner = |rank| -> BoxedLearner<f32> {
            Box::new(move |step: u64, w: &[f32], g: &mut [f32]| gradient(rank, step, w, g))
        };
        let learners = (0..RANKS).map(learner).collect();
        let end = |fabric: &Fabric| self.end(fabric);
        let mut run = ClockedRun::of_ends(self.kind, end, learners, times(latency)).unwrap();
        while run.advance().unwrap() {}
        assert_eq!((run.counts().lost(), run.counts().rows_lost()), (0, 0), "{self:?}");
        run.seconds()
    }

    /// Runs a rank that really sleeps.
    pub(crate) fn slept(self, fabric: &Fabric) -> Driven<f32> {
        let (rank, computing) = (fabric.rank(), times(LATENCY).computing);
        let mut learner = move |step: u64, w: &[f32], g: &mut [f32]| {
            std::thread::sleep(Duration::from_secs_f64(computing.seconds(rank, step, 1.0)));
            gradient(rank, step, w, g);
        };
        drive(fabric, self.end(fabric).unwrap(), &mut learner).unwrap()
    }
}
