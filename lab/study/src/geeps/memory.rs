//! Throughput from all the memory that a model needs down to twice its largest layer, and the
//! contribution of each feature of the server: measured on an emulated device, and predicted.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use stepwell_base::clock::ManualClock;
use stepwell_device::Device;
use stepwell_device::emulated::{self, Machine, Rate};
use stepwell_geeps::placement::Placement;
use stepwell_geeps::{Geeps, Place, Settings, ShardRows};
use stepwell_train::HostProducts;

use super::device::{Came, Run, run};
use super::paper;
use super::predict::Costs;
use super::steps::{Needless, Step, data, entries, steps};
use crate::costs::median;
use crate::images::Images;
use crate::{Effort, Result};

/// Scale of the paper's seconds.
const TIME_SCALE: f64 = 0.1;
/// Latency of each copy.
const LATENCY: Duration = Duration::from_micros(20);
/// Shares of the memory that avoids all swapping.
const SHARES: [f64; 6] = [paper::SWAPPED_SHARE, 0.45, 0.55, 0.7, 0.85, 1.0];
/// Shares in quick runs.
const SHARES_QUICK: [f64; 3] = [paper::SWAPPED_SHARE, 0.7, 1.0];
/// Fractions of the paper's PCIe speed.
const SPEEDS: [f64; 3] = [1.0, 0.5, 0.25];

/// Results with less and less memory.
#[derive(Clone, Debug, Serialize)]
pub struct MemoryFigures {
    /// Memory in bytes that avoids all swapping.
    pub full_bytes: u64,
    /// Twice the largest layer, as a share of that memory.
    pub least_share: f64,
    /// Given seconds per iteration.
    pub iteration_seconds: f64,
    /// Results by speed between host and device.
    pub speeds: Vec<SpeedFigures>,
    /// Results with features disabled, at [`SwitchFigures::share`].
    pub switches: Vec<SwitchFigures>,
    /// Mean loss of the first mini-batch and of the last, the same in all runs.
    pub losses: [f64; 2],
    /// Number of runs, all with the same bits.
    pub runs_of_same_bits: usize,
}

/// Results for a speed between host and device.
#[derive(Clone, Debug, Serialize)]
pub struct SpeedFigures {
    /// Bytes per second, each way, on the scale of the paper's machines.
    pub bytes_per_second: f64,
    /// Measured seconds per iteration with all memory.
    pub full_seconds: f64,
    /// Results by share of the memory.
    pub shares: Vec<ShareFigures>,
}

/// Results for a share of the memory.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ShareFigures {
    /// Share of the memory.
    pub share: f64,
    /// Throughput relative to all memory, with algorithm 2.
    pub over_full: f64,
    /// Predicted `over_full`.
    pub predicted: f64,
    /// Throughput relative to all memory, with nothing pinned.
    pub unpinned: f64,
    /// Predicted `unpinned`.
    pub unpinned_predicted: f64,
}

/// Results with a feature disabled.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct SwitchFigures {
    /// Name of the feature.
    pub off: &'static str,
    /// Share of the memory.
    pub share: f64,
    /// Throughput relative to all memory and all features.
    pub over_full: f64,
    /// Bytes copied to the device per iteration.
    pub bytes_up: u64,
    /// Bytes copied to the host per iteration.
    pub bytes_down: u64,
}

/// How a run differs from the one with all memory.
#[derive(Clone, Copy, Debug)]
struct Case {
    share: f64,
    speed: f64,
    off: &'static str,
}

/// Features to disable, one at a time.
const SWITCHES: [&str; 9] = [
    "nothing",
    "handing over",
    "reads without fetch",
    "releases without save",
    "pinning",
    "reading ahead",
    "virtual iteration",
    "index",
    "batches",
];

struct Bench<'a> {
    images: &'a Images,
    iterations: usize,
    seed: u64,
    full_bytes: u64,
    model: Option<Vec<ShardRows>>,
    losses: [f64; 2],
    runs: usize,
}

/// Runs all cases on images, downscaled to 7 x 7.
///
/// # Errors
/// A server or device error.
pub(super) fn run_all(
    images: &Images,
    effort: Effort,
    seed: u64,
    say: &mut dyn FnMut(&str),
) -> Result<MemoryFigures> {
    let settings = data(seed);
    let iteration = steps(Needless::default());
    // Enough for everything.
    let within = |pins| Settings { pins, budget_bytes: 1 << 30, ..settings.clone() };
    let everything = place(&within(true), &iteration)?;
    let least = 2 * place(&within(false), &iteration)?.peak_bytes;
    let floats = entries(&settings).map(|entry| entry.floats(&settings));
    let bytes = floats.map(|floats| Device::bytes_counted((size_of::<f32>() * floats) as u64));
    let pinned = bytes.sum::<u64>();
    let full_bytes = pinned + 2 * everything.peak_bytes;
    let least_share = least as f64 / full_bytes as f64;
    let images = images.shrunk(4);
    let iterations = if effort == Effort::Quick { 4 } else { 16 };
    let (model, losses, runs) = (None, [0.0; 2], 0);
    let mut bench = Bench { images: &images, iterations, seed, full_bytes, model, losses, runs };
    let speeds = if effort == Effort::Quick { &SPEEDS[..1] } else { &SPEEDS };
    let shares = if effort == Effort::Quick { &SHARES_QUICK[..] } else { &SHARES };
    let shares: Vec<f64> = shares.iter().copied().filter(|of| *of >= least_share).collect();
    let speeds = speeds.iter().map(|speed| {
        say(&format!(
            "a device's memory, from all to {least_share:.3} of it, at {speed} of PCIe's speed"
        ));
        bench.speed(*speed, &shares)
    });
    let speeds = speeds.collect::<Result<Vec<_>>>()?;
    say("a device's memory: switches");
    let switches = bench.switches()?;
    Ok(MemoryFigures {
        full_bytes,
        least_share,
        iteration_seconds: iteration_seconds(),
        speeds,
        switches,
        losses: bench.losses,
        runs_of_same_bits: bench.runs,
    })
}

fn iteration_seconds() -> f64 {
    TIME_SCALE * paper::MINI_BATCH_SECONDS
}

/// Placement of data, determined by a server that only gathers.
pub(super) fn place(settings: &Settings, iteration: &[Step]) -> Result<Placement> {
    let fabric = stepwell_fabric::threads(1).remove(0);
    let (server, _machines) = Geeps::new(settings, fabric, Arc::new(ManualClock::default()))?;
    server.begin_virtual()?;
    for step in iteration {
        let held = step.acquire(&server, settings)?;
        step.release(&server, held)?;
    }
    Ok(server.end_virtual()?)
}

impl Bench<'_> {
    fn speed(&mut self, speed: f64, all: &[f64]) -> Result<SpeedFigures> {
        let full = self.case(Case { share: 1.0, speed, off: "nothing" })?;
        let mut shares = Vec::new();
        for share in all.iter().copied() {
            let of = |off| Case { share, speed, off };
            let pinned = if share < 1.0 { self.case(of("nothing"))? } else { full };
            let unpinned = self.case(of("pinning"))?;
            shares.push(ShareFigures {
                share,
                over_full: full.seconds / pinned.seconds,
                predicted: full.predicted / pinned.predicted,
                unpinned: full.seconds / unpinned.seconds,
                unpinned_predicted: full.predicted / unpinned.predicted,
            });
        }
        let bytes_per_second = speed * paper::PCIE_BYTES_PER_SECOND;
        Ok(SpeedFigures { bytes_per_second, full_seconds: full.seconds, shares })
    }

    fn switches(&mut self) -> Result<Vec<SwitchFigures>> {
        let share = paper::SWAPPED_SHARE;
        let full = self.case(Case { share: 1.0, speed: 1.0, off: "nothing" })?;
        let of = |off: &&'static str| {
            let timed = self.case(Case { share, speed: 1.0, off })?;
            let over_full = full.seconds / timed.seconds;
            let [bytes_up, bytes_down] = timed.copied;
            Ok(SwitchFigures { off, share, over_full, bytes_up, bytes_down })
        };
        SWITCHES.iter().map(of).collect()
    }

    /// Runs a case; its model must have the same bits as all others.
    fn case(&mut self, case: Case) -> Result<Timed> {
        let off = |what| case.off == what;
        let needless =
            Needless { fetches: off("reads without fetch"), saves: off("releases without save") };
        let iteration = steps(needless);
        let budget_bytes = (case.share * self.full_bytes as f64) as u64;
        let rate = Rate {
            bytes_per_second: case.speed * paper::PCIE_BYTES_PER_SECOND * self.full_bytes as f64
                / paper::FULL_BYTES
                / TIME_SCALE,
            latency: LATENCY,
        };
        let machine = Machine::new(emulated::Settings {
            rate: Some(rate),
            seed: self.seed,
            products: Arc::new(HostProducts::default()),
            ..emulated::Settings::default()
        });
        let device = &machine.devices()[0];
        let settings = Settings {
            place: Place::Device(device.clone()),
            budget_bytes,
            pins: !off("pinning"),
            hands_over: !off("handing over"),
            prefetch: !off("reading ahead"),
            indexed: !off("index"),
            batched: !off("batches"),
            ..data(self.seed)
        };
        let came = run(&Run {
            device,
            settings: &settings,
            steps: &iteration,
            iteration_seconds: iteration_seconds(),
            iterations: self.iterations,
            gathers: !off("virtual iteration"),
            images: self.images,
        })?;
        self.check(&came, budget_bytes);
        let host = Settings { place: Place::Host, ..settings };
        let placement = place(&host, &iteration)?;
        let costs = Costs {
            settings: &host,
            steps: &iteration,
            placement: &placement,
            rate,
            iteration_seconds: iteration_seconds(),
        };
        Ok(Timed {
            seconds: median(came.seconds),
            predicted: costs.seconds(),
            copied: [came.statistics.bytes_up, came.statistics.bytes_down]
                .map(|bytes| bytes / self.iterations as u64),
        })
    }

    /// Placement and transfers never affect bits, and memory never exceeds the budget.
    fn check(&mut self, came: &Came, budget_bytes: u64) {
        let peak = came.statistics.peak_bytes;
        assert!(peak <= budget_bytes, "{peak} bytes of {budget_bytes}");
        self.runs += 1;
        self.losses = came.losses;
        let bits = |model: &[ShardRows]| -> Vec<u32> {
            let rows = model.iter().flatten();
            rows.flat_map(|(_, row)| row).map(|value| value.to_bits()).collect()
        };
        let first = self.model.get_or_insert_with(|| came.model.clone());
        assert!(bits(first) == bits(&came.model), "a placement changed bits of the model");
    }
}

/// Timing of a case.
#[derive(Clone, Copy, Debug)]
struct Timed {
    /// Median of its iterations.
    seconds: f64,
    predicted: f64,
    /// Bytes copied up and down per iteration.
    copied: [u64; 2],
}

impl MemoryFigures {
    /// Results by share, at the paper's speed.
    pub(super) fn over_full(&self) -> BTreeMap<String, f64> {
        let shares = self.speeds.first().map_or(&[][..], |of| &of.shares);
        shares.iter().map(|of| (format!("{:.2}", of.share), of.over_full)).collect()
    }
}
