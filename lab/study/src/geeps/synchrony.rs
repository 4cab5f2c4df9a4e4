//! BSP, SSP and Async with the same model, examples and step; they differ in who waits for whom.

use std::collections::BTreeMap;

use rayon::prelude::*;
use serde::Serialize;
use stepwell_fabric::Network;
use stepwell_geeps::{Applies, Staleness};
use stepwell_sim::clock::{Computing, Delay, DelayKind};

use super::clocked::{Ended, Look, run};
use super::net::Net;
use super::paper;
use super::worker::{Job, TableLayout, tables};
use crate::Result;
use crate::curve::share;
use crate::images::Images;

/// Number of workers, as in the paper.
pub(super) const WORKERS: usize = 8;
/// Examples of a worker's mini-batch.
pub(super) const MINI_BATCH: usize = 16;
/// Number of evaluations during training.
const LOOKS: u64 = 50;
/// Latency of an empty message between machines.
const LATENCY: f64 = 100e-6;

/// Synchronization mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mode {
    pub(super) name: &'static str,
    pub(super) staleness: Staleness,
}

/// All modes, the baseline first.
pub(super) const MODES: [Mode; 4] = [
    Mode { name: "bsp", staleness: Staleness::BSP },
    Mode { name: "ssp_1", staleness: Staleness::Clocks(1) },
    Mode { name: "ssp_3", staleness: Staleness::Clocks(3) },
    Mode { name: "async", staleness: Staleness::Unbounded },
];

/// Lateness of workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Lateness {
    /// None, as on the paper's machines.
    None,
    /// Every worker, by up to half of a mini-batch's time, each time.
    Delays,
    /// The last worker, always by half of a mini-batch's time.
    Straggler,
}

impl Lateness {
    fn computing(self, seed: u64) -> Computing {
        let base = paper::MINI_BATCH_SECONDS;
        let all = (0..WORKERS).collect();
        let delays = match self {
            Self::None => Vec::new(),
            Self::Delays => {
                vec![Delay { ranks: all, kind: DelayKind::Uniform(0.0, 0.5 * base) }]
            }
            Self::Straggler => {
                let kind = DelayKind::From { after: 0, seconds: 0.5 * base };
                vec![Delay { ranks: vec![WORKERS - 1], kind }]
            }
        };
        Computing { base, delays, seed }
    }
}

/// Results for a model and a lateness.
#[derive(Clone, Debug, Serialize)]
pub struct SettingFigures {
    /// Name of the model.
    pub model: &'static str,
    /// Lateness of workers.
    pub lateness: Lateness,
    /// Results by mode.
    pub modes: BTreeMap<&'static str, ModeFigures>,
    /// Share of the time that workers are idle under BSP with a single table for all layers.
    pub single_table_stall: f64,
}

/// Results for a mode.
#[derive(Clone, Debug, Serialize)]
pub struct ModeFigures {
    /// Clocks that a read may miss; `None` if unbounded.
    pub slack: Option<u64>,
    /// Most clocks of any worker missing from a read.
    pub staleness_max: u64,
    /// Mean number of clocks missing, over all reads.
    pub staleness_mean: f64,
    /// Seconds on the virtual clock to the accuracy; `None` if it wasn't reached.
    pub seconds_to_accuracy: Option<f64>,
    /// Examples of all workers to the accuracy.
    pub examples_to_accuracy: Option<u64>,
    /// Speedup over BSP.
    pub speedup: Option<f64>,
    /// Examples relative to BSP.
    pub examples_over_bsp: Option<f64>,
    /// Seconds per clock of all workers.
    pub seconds_per_clock: f64,
    /// Share of the time in which workers don't compute.
    pub stall: f64,
    /// Share of test examples that are classified correctly at the end.
    pub accuracy: f64,
    /// Updates that shards lack or have twice.
    pub lost_updates: u64,
    /// Learning curve.
    pub curve: Vec<CurvePoint>,
}

/// A point of a learning curve, evaluated on the first worker's model.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct CurvePoint {
    /// Seconds on the virtual clock.
    pub seconds: f64,
    /// Examples of all workers.
    pub examples: u64,
    /// Share of the evaluated test examples that are classified correctly.
    pub test_accuracy: f64,
}

/// Examples of the study.
#[derive(Debug)]
pub(super) struct Data {
    pub(super) train: Images,
    /// Test examples evaluated during training.
    pub(super) looked_at: Images,
    pub(super) test: Images,
}

/// How to train a model.
#[derive(Debug)]
pub(super) struct Training {
    pub(super) net: Net,
    pub(super) clocks: u64,
    /// Learning rate along the mean of all workers' gradients.
    pub(super) rate: f32,
    /// Target test accuracy.
    pub(super) target: f64,
}

/// Runs all modes.
pub(super) fn run_setting(
    training: &Training,
    lateness: Lateness,
    data: &Data,
    seed: u64,
) -> Result<SettingFigures> {
    let one = |run: One| run_one(training, run, data, seed);
    let run_mode = |mode: &Mode| {
        let of =
            One { mode: *mode, lateness, layout: TableLayout::PerLayer, clocks: training.clocks };
        Ok((mode.name, mode_figures(of, &one(of)?, training, data)))
    };
    let modes = MODES.par_iter().map(run_mode).collect::<Result<Vec<_>>>()?;
    let mut modes: BTreeMap<_, _> = modes.into_iter().collect();
    compare(&mut modes);
    // A few clocks suffice to measure idle time.
    let clocks = training.clocks.min(20);
    let single = one(One { mode: MODES[0], lateness, layout: TableLayout::Single, clocks })?;
    let (model, single_table_stall) = (training.net.name, single.stall);
    Ok(SettingFigures { model, lateness, modes, single_table_stall })
}

/// Compares all modes with BSP.
fn compare(modes: &mut BTreeMap<&'static str, ModeFigures>) {
    let examples = |of: &ModeFigures| of.examples_to_accuracy.map(|count| count as f64);
    let bsp = modes.get(MODES[0].name);
    let seconds_of_bsp = bsp.and_then(|of| of.seconds_to_accuracy);
    let examples_of_bsp = bsp.and_then(examples);
    for of in modes.values_mut() {
        of.speedup = seconds_of_bsp.zip(of.seconds_to_accuracy).map(|(bsp, own)| bsp / own);
        of.examples_over_bsp = examples(of).zip(examples_of_bsp).map(|(own, bsp)| own / bsp);
    }
}

/// Configuration of one run.
#[derive(Clone, Copy, Debug)]
struct One {
    mode: Mode,
    lateness: Lateness,
    layout: TableLayout,
    clocks: u64,
}

fn run_one(training: &Training, one: One, data: &Data, seed: u64) -> Result<Ended> {
    let Training { net, rate, .. } = training;
    let One { mode: Mode { staleness, .. }, lateness, layout, clocks } = one;
    let applies = if staleness == Staleness::BSP { Applies::ByClock } else { Applies::OnArrival };
    let (settings, rows) = tables(net, layout, applies, seed);
    let look_every = (clocks / LOOKS).max(1);
    let job = Job {
        net,
        rows: &rows,
        images: &data.train,
        workers: WORKERS,
        mini_batch: MINI_BATCH,
        clocks,
        rate: *rate,
        staleness,
        look_every,
    };
    // This model's bytes take as long as the bytes of the paper's model.
    let bytes = (size_of::<f32>() * net.parameter_count()) as f64;
    let network = Network {
        bytes_per_second: paper::NETWORK_BYTES_PER_SECOND * bytes / paper::PARAMETER_BYTES,
        latency_seconds: LATENCY,
    };
    let look = |model: &[Vec<f32>]| share(net.look(&data.looked_at, model));
    let ended = run(job, &settings, network, &lateness.computing(seed), &look)?;
    if let Staleness::Clocks(slack) = staleness {
        assert!(ended.missed.max <= slack, "{slack} clocks of slack: {:?}", ended.missed);
        let is_ahead = slack == 0 && ended.missed.ahead > 0;
        assert!(!is_ahead, "under BSP, no worker reads part of a clock: {:?}", ended.missed);
    }
    assert_eq!(ended.lost, 0, "every update is in a shard exactly once");
    Ok(ended)
}

fn mode_figures(one: One, ended: &Ended, training: &Training, data: &Data) -> ModeFigures {
    let point = |look: &Look| CurvePoint {
        seconds: look.seconds,
        examples: look.mini_batches * MINI_BATCH as u64,
        test_accuracy: look.accuracy,
    };
    let accuracy = share(training.net.look(&data.test, &ended.model));
    let mut curve: Vec<CurvePoint> = ended.looks.iter().map(point).collect();
    let examples = one.clocks * (WORKERS * MINI_BATCH) as u64;
    let last = training.net.look(&data.looked_at, &ended.model);
    curve.push(CurvePoint { seconds: ended.seconds, examples, test_accuracy: share(last) });
    let reached = curve.iter().find(|point| point.test_accuracy >= training.target);
    let missed = ended.missed;
    ModeFigures {
        slack: match one.mode.staleness {
            Staleness::Clocks(slack) => Some(slack),
            Staleness::Unbounded => None,
        },
        staleness_max: missed.max,
        staleness_mean: missed.sum as f64 / missed.reads as f64,
        seconds_to_accuracy: reached.map(|point| point.seconds),
        examples_to_accuracy: reached.map(|point| point.examples),
        speedup: None,
        examples_over_bsp: None,
        seconds_per_clock: ended.seconds / one.clocks as f64,
        stall: ended.stall,
        accuracy,
        lost_updates: ended.lost,
        curve,
    }
}

#[cfg(test)]
mod tests {
    use stepwell_base::random::Stream;

    use super::*;

    fn images(count: usize) -> Images {
        let mut stream = Stream::named(5, b"images");
        let features = (0..count * 64).map(|_| stream.next_f64() as f32).collect();
        let labels = (0..count).map(|image| (image % 10) as u8).collect();
        Images { columns: 64, features, labels }
    }

    #[test]
    fn a_run_repeats_from_its_seed_and_no_other() -> Result<()> {
        let set = images(WORKERS * MINI_BATCH * 2);
        let data = Data { train: set.clone(), looked_at: set.clone(), test: set };
        let training = Training { net: Net::fcnn(64, 16)?, clocks: 12, rate: 0.02, target: 2.0 };
        let figures = |seed| {
            let figures = run_setting(&training, Lateness::Delays, &data, seed)?;
            Ok::<_, crate::Error>(format!("{figures:?}"))
        };
        assert_eq!(figures(3)?, figures(3)?);
        assert_ne!(figures(3)?, figures(4)?);
        Ok(())
    }
}
