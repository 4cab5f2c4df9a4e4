//! GeePS under BSP, SSP and Async, and with less and less memory of a device.
//!
//! - **Synchrony.** Eight workers train through `stepwell_geeps` on the virtual clock, with real
//!   gradients: `synchrony.rs`, `clocked.rs`, `worker.rs`.
//! - **Memory.** One worker trains on an emulated device, whose copies and layers take given times,
//!   with and without pinned data, from all memory down to twice the largest layer; compared with
//!   the prediction of a cost model: `memory.rs`, `device.rs`, `predict.rs`.
//! - **Scale.** Times are as for the paper's largest model: there are fewer bytes, and links are
//!   proportionally slower.
//! - **Source.** Cui et al., "GeePS: Scalable deep learning on distributed GPUs with a
//!   GPU-specialized parameter server" (EuroSys 2016), sections 4.4, 5.3 and 5.4.

mod clocked;
mod device;
mod memory;
mod net;
mod page;
mod paper;
mod predict;
mod steps;
mod synchrony;
mod worker;

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

pub use self::memory::{MemoryFigures, ShareFigures, SpeedFigures, SwitchFigures};
use self::net::Net;
pub use self::page::{page, plots};
pub use self::paper::PaperFigures;
pub use self::synchrony::{CurvePoint, Lateness, ModeFigures, SettingFigures};
use self::synchrony::{Data, MINI_BATCH, Training, WORKERS, run_setting};
use crate::images::Images;
use crate::{Effort, Error, Result};

/// Test examples evaluated during training.
const LOOKED_AT: usize = 2000;

/// Passes over the examples.
const EPOCHS: f64 = 3.0;
/// Learning rate along the mean of all workers' gradients: of 0.01, 0.02, 0.05 and 0.1, the largest
/// with which every mode learns both models; larger ones are better only for BSP.
const RATE: f32 = 0.02;

/// Options of the study.
#[derive(Clone, Debug)]
pub struct StudyOptions {
    /// All clocks and iterations on a device, or a tenth of them.
    pub effort: Effort,
    /// Uses one in this many training examples.
    pub part: usize,
    /// Seed of the order of data, initial values and delays.
    pub seed: u64,
}

/// Results.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    /// Whether only a tenth was run.
    pub quick: bool,
    /// Number of workers.
    pub workers: usize,
    /// Target test accuracy.
    pub target_accuracy: f64,
    /// Results by model, with workers that have random delays.
    pub models: Vec<ModelFigures>,
    /// Results by model and lateness.
    pub settings: Vec<SettingFigures>,
    /// Throughput relative to all memory, by share of the memory, measured at the paper's PCIe
    /// speed.
    pub throughput_over_full: BTreeMap<String, f64>,
    /// Detailed results of the memory part.
    pub memory: MemoryFigures,
    /// Updates that shards lack or have twice, over all runs.
    pub lost_updates: u64,
    /// The paper's measurements.
    pub paper: PaperFigures,
}

/// Results for a model.
#[derive(Clone, Debug, Serialize)]
pub struct ModelFigures {
    /// Name of the model.
    pub name: &'static str,
    /// By mode, speedup over BSP to the target accuracy.
    pub speedup: BTreeMap<&'static str, f64>,
    /// By mode, share of test examples that are classified correctly at the end.
    pub accuracy: BTreeMap<&'static str, f64>,
    /// By mode, most clocks missing from a read.
    pub staleness_max: BTreeMap<&'static str, u64>,
}

/// Runs the study on the MNIST files in a directory; calls `say` with a description of each part.
///
/// # Errors
/// Data that can't be read, or a parameter server error.
pub fn run(folder: &Path, options: &StudyOptions, say: &mut dyn FnMut(&str)) -> Result<Figures> {
    let least = (WORKERS * MINI_BATCH).max(steps::ROWS);
    let [train, test] = Images::both(folder, options.part, least, options.seed)?;
    if train.columns != net::SIDE * net::SIDE {
        let why =
            format!("images have {} pixels, but 28 x 28 are needed: give MNIST", train.columns);
        return Err(Error::Images { path: folder.to_owned(), why });
    }
    let looked_at = test.shuffled(LOOKED_AT.min(test.count()), options.seed.wrapping_add(1));
    let data = Data { train, looked_at, test };
    let mut settings = Vec::new();
    for training in trainings(options.effort, &data.train)? {
        for lateness in who_is_late(options.effort) {
            let (name, clocks) = (training.net.name, training.clocks);
            say(&format!("{name}: {WORKERS} workers, {clocks} clocks, {lateness:?}"));
            settings.push(run_setting(&training, lateness, &data, options.seed)?);
        }
    }
    let memory = memory::run_all(&data.train, options.effort, options.seed, say)?;
    let all = settings.iter().flat_map(|of| of.modes.values());
    Ok(Figures {
        quick: options.effort == Effort::Quick,
        workers: WORKERS,
        target_accuracy: target(options.effort),
        models: headline(&settings),
        lost_updates: all.map(|of| of.lost_updates).sum(),
        settings,
        throughput_over_full: memory.over_full(),
        memory,
        paper: paper::PAPER,
    })
}

fn who_is_late(effort: Effort) -> Vec<Lateness> {
    let all = vec![Lateness::Delays, Lateness::None, Lateness::Straggler];
    if effort == Effort::Quick { all[..1].to_vec() } else { all }
}

/// Target accuracy; a tenth of the clocks reaches a lower one.
fn target(effort: Effort) -> f64 {
    if effort == Effort::Quick { 0.8 } else { 0.9 }
}

fn trainings(effort: Effort, train: &Images) -> Result<Vec<Training>> {
    let epochs = if effort == Effort::Quick { EPOCHS / 10.0 } else { EPOCHS };
    let mini_batches = train.count() as f64 / (WORKERS * MINI_BATCH) as f64;
    let clocks = (epochs * mini_batches).ceil() as u64;
    let training = |net| Training { net, clocks, rate: RATE, target: target(effort) };
    Ok(vec![training(Net::fcnn(train.columns, 64)?), training(Net::cnn()?)])
}

/// Results of each model with random delays.
fn headline(settings: &[SettingFigures]) -> Vec<ModelFigures> {
    let of = settings.iter().filter(|of| of.lateness == Lateness::Delays);
    let figures = |of: &SettingFigures| {
        let late = of.modes.iter().filter(|(name, _)| **name != "bsp");
        ModelFigures {
            name: of.model,
            speedup: late.filter_map(|(name, of)| Some((*name, of.speedup?))).collect(),
            accuracy: of.modes.iter().map(|(name, of)| (*name, of.accuracy)).collect(),
            staleness_max: of.modes.iter().map(|(name, of)| (*name, of.staleness_max)).collect(),
        }
    };
    of.map(figures).collect()
}
