//! Clicks: a DeepFM with rows distributed over ranks; one rank is late.
//!
//! ```text
//! examples ─► assigned to ranks ─────► learner ─┐    dense part: a protocol
//!                                               ├──► rows: at their owners, with a staleness bound
//! Criteo lines ───► keys ─────────────────────► ┘    on the virtual clock
//! ```
//!
//! - **How.** Four ranks take 20 ms per gradient; one of them is late by 0 to 50 ms each time. The
//!   baseline is the blocking sum with exact rows. Other protocols read rows that miss a bounded
//!   number of updates, or whatever has arrived. A run ends when the gradients used or dropped
//!   equal the mini-batches of a pass, and the sum that contains the last is over. Compared are its
//!   duration and the AUC of the test examples at the end, over several seeds of initial values and
//!   delays.
//! - **Limit.** The blocking sum takes 45 ms on average for four gradients. Independent ranks
//!   compute 3 / 20 + 1 / 45 gradients per millisecond, 1.94 times as many.
//! - **Bounds.** All examples are in memory, 264 bytes each, and all rows, 68 bytes of weights and
//!   the same of state each. Alternatively, rows are in tiers with a given memory size, which
//!   doesn't affect results.

mod data;
mod evaluate;
pub(crate) mod examples;
mod learner;
mod model;
mod page;
mod tiered;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde::Serialize;
use stepwell_base::random::initial_weights;
use stepwell_base::{ByteCount, Key, TableId};
use stepwell_fabric::Fabric;
use stepwell_optim::{RowOptimizer, Rule};
use stepwell_sim::clock::{BoxedLearner, ClockedRun, Computing, Delay, DelayKind};
use stepwell_sync::{Counts, Kind, MemoryRows, Options, RankRows, Rate, Rules, Staleness};

use self::data::{Data, RANKS};
use self::evaluate::{Looked, look};
use self::examples::Clicks;
use self::learner::{ClickLearner, Deal, MINI_BATCH, SharedRows, keys_of};
use self::model::{DIM, LANES, Pass, deep_fm};
pub use self::page::page;
use self::tiered::TieredRows;
use crate::Result;
use crate::costs::Costs;

/// The late rank.
const LATE: usize = 3;
/// Seconds of a gradient, and the maximum delay of the late rank.
const COMPUTING: f64 = 0.02;
const DELAY: f64 = 0.05;
/// Updates that rows may miss.
const STALENESS: u64 = 8;
/// Learning rate of dense parameters, along the mean of all ranks' gradients, and of rows, with
/// Adagrad. Of all rates that were tried, these are the best for the baseline.
const RATE: f64 = 0.07;
const ROW_RATE: f64 = 0.018;
const INITIAL_RANGE: f32 = 0.01;
/// Least memory for a rank's rows.
pub const DRAM_LEAST: ByteCount = ByteCount(64 << 10);

/// Options of the study.
#[derive(Clone, Debug)]
pub struct StudyOptions {
    /// Uses one in this many training examples.
    pub part: usize,
    /// First seed, for initial values, probes and delays.
    pub seed: u64,
    /// Number of seeds.
    pub seeds: usize,
    /// Memory for each rank's rows, with the rest on disk; `None` for all rows in memory. Doesn't
    /// affect results.
    pub dram: Option<ByteCount>,
    /// Costs of messages and arithmetic.
    pub costs: Costs,
}

/// Results.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    /// The data.
    pub data: String,
    /// One in this many training examples was used.
    pub part: usize,
    /// The first seed.
    pub seed: u64,
    /// Gradients of all ranks in the pass of each run.
    pub gradients: u64,
    /// Bound on the staleness of rows, in updates.
    pub staleness: u64,
    /// The model's results, over all seeds.
    pub models: Vec<ModelFigures>,
    /// Costs of messages and arithmetic.
    pub costs: Costs,
    /// Gradients that neither reached the dense part, nor were dropped by a rule, nor were left at
    /// the end. Gradients of rows in flight at the end of runs aren't included; tests of
    /// `stepwell_sync` count those.
    pub lost_gradients: i64,
}

/// Results for a model.
#[derive(Clone, Debug, Serialize)]
pub struct ModelFigures {
    /// Name of the model.
    pub name: &'static str,
    /// By protocol, speedup of the pass over the blocking sum with exact rows: the mean over seeds.
    pub speedup: BTreeMap<&'static str, f64>,
    /// By protocol, mean AUC of the test examples.
    pub auc: BTreeMap<&'static str, f64>,
    /// All runs, by protocol.
    pub runs: BTreeMap<&'static str, Vec<RunFigures>>,
}

/// Results of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunFigures {
    /// Seed.
    pub seed: u64,
    /// Seconds on the virtual clock.
    pub seconds: f64,
    /// Updates of the dense part.
    pub updates: u64,
    /// Gradients that were computed.
    pub given: u64,
    /// Gradients that the dense part didn't get, because they were too old.
    pub dropped: u64,
    /// Largest number of updates by which a rank that read rows was ahead of one whose gradient
    /// hadn't arrived; under `ad_psgd`, counted in its own steps.
    pub staleness_max: u64,
    /// AUC of the test examples.
    pub auc: f64,
    /// Mean log loss of the test examples.
    pub log_loss: f64,
    /// Digest of the dense parameters and the rows of the test examples; equal for equal bits.
    pub digest: String,
}

/// A protocol, and the staleness of rows.
#[derive(Clone, Copy, Debug)]
struct Entrant {
    name: &'static str,
    kind: Kind,
    staleness: Staleness,
}

const ENTRANTS: [Entrant; 5] = [
    Entrant { name: "bsp", kind: Kind::Bsp, staleness: Staleness::Exact },
    Entrant {
        name: "eager_majority",
        kind: Kind::EagerMajority,
        staleness: Staleness::Bounded(STALENESS),
    },
    Entrant { name: "ad_psgd", kind: Kind::AdPsgd, staleness: Staleness::Async },
    Entrant { name: "rna", kind: Kind::Rna, staleness: Staleness::Bounded(STALENESS) },
    Entrant { name: "rna_async", kind: Kind::Rna, staleness: Staleness::Async },
];

/// Runs the study on a file of Criteo's lines; calls `say` with a description of each part.
///
/// # Errors
/// Data that can't be read, or a protocol error.
pub fn run(file: &Path, options: &StudyOptions, say: &mut dyn FnMut(&str)) -> Result<Figures> {
    let [train, test] = Clicks::both(file, options.part, RANKS * MINI_BATCH)?;
    // Equally many for each rank if they take turns.
    let gradients = train.count() / MINI_BATCH / RANKS * RANKS;
    let graph = Arc::new(deep_fm()?);
    let data = Data {
        train: Arc::new(train),
        test,
        gradients,
        graph,
        dram: options.dram,
        costs: options.costs,
    };
    let (mut runs, mut lost) = (BTreeMap::<_, Vec<RunFigures>>::new(), 0);
    for seed in (0..options.seeds as u64).map(|number| options.seed.wrapping_add(number)) {
        for entrant in ENTRANTS {
            say(&format!("{}, seed {seed}", entrant.name));
            let (figures, counts) = run_one(entrant, &data, seed, DELAY)?;
            lost += counts.lost();
            runs.entry(entrant.name).or_default().push(figures);
        }
    }
    let mean = |values: &mut dyn Iterator<Item = f64>| values.sum::<f64>() / options.seeds as f64;
    let blocking = runs["bsp"].clone();
    let speedup = |runs: &[RunFigures]| {
        let pairs = blocking.iter().zip(runs);
        mean(&mut pairs.map(|(blocking, own)| blocking.seconds / own.seconds))
    };
    let model = ModelFigures {
        name: "deepfm",
        speedup: runs.iter().map(|(name, runs)| (*name, speedup(runs))).collect(),
        auc: runs
            .iter()
            .map(|(name, runs)| (*name, mean(&mut runs.iter().map(|run| run.auc))))
            .collect(),
        runs,
    };
    Ok(Figures {
        data: file.display().to_string(),
        part: options.part,
        seed: options.seed,
        gradients: gradients as u64,
        staleness: STALENESS,
        models: vec![model],
        costs: options.costs,
        lost_gradients: lost,
    })
}

fn computing(seed: u64, delay: f64) -> Computing {
    let delay = Delay { ranks: vec![LATE], kind: DelayKind::Uniform(0.0, delay) };
    Computing { base: COMPUTING, delays: vec![delay], seed }
}

fn run_one(entrant: Entrant, data: &Data, seed: u64, delay: f64) -> Result<(RunFigures, Counts)> {
    let Entrant { kind, staleness, .. } = entrant;
    let mut options = Options::new(u64::MAX, Rate::constant(RATE));
    options.seed = seed;
    let deal = Deal::new(RANKS, kind == Kind::Bsp, data.gradients);
    let tables = (0..RANKS).map(|_| rows(seed, data.dram)).collect::<Result<Vec<SharedRows>>>()?;
    let begin = data.graph.initial_parameters(seed);
    let end = |fabric: &Fabric| {
        let rank = fabric.rank();
        let dense = kind.begin(fabric, begin.clone(), &options)?;
        let rows = RankRows {
            staleness,
            owned: Box::new(tables[rank].clone()),
            keys: Box::new(keys_of(rank, &data.train, &deal)),
        };
        kind.with_rows(fabric, dense, rows, Rules::default())
    };
    let learner = |rank| -> BoxedLearner<f32> {
        let (graph, clicks) = (Arc::clone(&data.graph), Arc::clone(&data.train));
        let pass = Pass::new(&graph, MINI_BATCH);
        Box::new(ClickLearner { rank, graph, clicks, deal: Arc::clone(&deal), pass })
    };
    let learners = (0..RANKS).map(learner).collect();
    let times = data.costs.times(computing(seed, delay));
    let mut run = ClockedRun::of_ends(kind, end, learners, times)?;
    let wanted = data.gradients as u64;
    let through = |counts: Counts| counts.used + counts.dropped >= wanted;
    while !through(run.counts()) && run.advance()? {}
    // These protocols count gradients at the start of a sum: wait for its end.
    let (before, sums) = (run.counts().updates, [Kind::Rna, Kind::EagerMajority].contains(&kind));
    while sums && run.counts().updates == before && run.advance()? {}
    let (model, counts) = (run.model(), run.counts());
    let Looked { auc, log_loss, digest } = look(data, &model, &tables)?;
    let figures = RunFigures {
        seed,
        seconds: run.seconds(),
        updates: counts.updates,
        given: counts.given,
        dropped: counts.dropped,
        staleness_max: counts.staleness_max,
        auc,
        log_loss,
        digest,
    };
    Ok((figures, counts))
}

fn rows(seed: u64, dram: Option<ByteCount>) -> Result<SharedRows> {
    let optimizer = RowOptimizer::new(Rule::adagrad(ROW_RATE));
    let Ok(optimizer) = optimizer else { unreachable!("Adagrad's rate is above 0") };
    if let Some(dram) = dram {
        let rows = TieredRows::open(DIM, seed, INITIAL_RANGE, optimizer, dram)?;
        return Ok(SharedRows::new(rows));
    }
    let initial = move |key: Key, weights: &mut [f32]| {
        initial_weights(seed, TableId(0), key, INITIAL_RANGE, DIM, weights);
    };
    Ok(SharedRows::new(MemoryRows::new(LANES, optimizer, initial)))
}

#[cfg(test)]
mod tests {
    use super::examples::{DENSE, SLOTS};
    use super::*;
    use stepwell_base::random::Stream;

    /// Clicks that depend on the first slot's key and the first feature.
    fn data(mini_batches: usize) -> Data {
        let mut stream = Stream::named(9, b"clicks");
        let mut clicks = |count: usize| {
            let mut all = Clicks::default();
            for _ in 0..count {
                let keys: Vec<Key> = (0..SLOTS as u64)
                    .map(|slot| Key(slot << 32 | (stream.next_u64() % 40)))
                    .collect();
                let dense: Vec<f32> = (0..DENSE).map(|_| stream.next_f32()).collect();
                let clicked = keys[0].0.is_multiple_of(2) == (dense[0] < 0.9);
                all.labels.push(f32::from(u8::from(clicked)));
                all.dense.extend(dense);
                all.keys.extend(keys);
            }
            all
        };
        let train = Arc::new(clicks(mini_batches * MINI_BATCH));
        let graph = Arc::new(deep_fm().unwrap());
        let (test, dram, costs) = (clicks(500), None, Costs::GIVEN);
        Data { train, test, gradients: mini_batches, graph, dram, costs }
    }

    #[test]
    fn memory_for_rows_changes_nothing() {
        let mut data = data(24);
        for entrant in ENTRANTS {
            data.dram = None;
            let (figures, _) = run_one(entrant, &data, 1, DELAY).unwrap();
            // A rank owns 260 or more of the 1,040 keys, which take 40 KB.
            data.dram = Some(ByteCount(20 << 10));
            let (tiny, _) = run_one(entrant, &data, 1, DELAY).unwrap();
            assert_eq!(tiny, figures, "{}", entrant.name);
        }
    }

    #[test]
    fn delays_change_times_alone_where_all_wait_and_no_gradient_is_lost_elsewhere() {
        let data = data(40);
        let [bsp, .., rna, rna_async] = ENTRANTS;
        let (late, counts) = run_one(bsp, &data, 3, DELAY).unwrap();
        let (prompt, _) = run_one(bsp, &data, 3, 0.0).unwrap();
        assert!(late.seconds > 1.5 * prompt.seconds, "{} {}", late.seconds, prompt.seconds);
        assert_eq!((&late.digest, late.auc), (&prompt.digest, prompt.auc));
        assert_eq!((counts.lost(), counts.staleness_max), (0, 0));
        assert!(late.auc > 0.55, "it learns: {}", late.auc);
        for entrant in [rna, rna_async] {
            let (figures, counts) = run_one(entrant, &data, 3, DELAY).unwrap();
            assert!(figures.seconds < late.seconds / 1.5, "{}: {}", entrant.name, figures.seconds);
            assert!(figures.auc > 0.55, "{}: {}", entrant.name, figures.auc);
            assert_eq!(counts.lost(), 0, "{}", entrant.name);
            if let Staleness::Bounded(most) = entrant.staleness {
                assert!((1..=most).contains(&counts.staleness_max), "{counts:?}");
            }
            assert_eq!(run_one(entrant, &data, 3, DELAY).unwrap().0, figures, "it repeats");
        }
    }
}
