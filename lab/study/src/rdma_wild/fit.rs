//! Times of the paper's cluster, fitted only to its baseline.
//!
//! - **Given.** A network of 100 Gbit/s and 2 µs; a single node's seconds for a mini-batch, from
//!   table 2; Sync-DSGD's seconds for a step of all workers, from table 1.
//! - **Fitted.** Two numbers for all three models: the bytes per second of a step's arithmetic, and
//!   the mean of an exponential delay of each gradient, relative to its time. They are chosen so
//!   that Sync-DSGD on the virtual clock takes the paper's time.
//! - **How.** A gradient takes the single node's time minus the step on its model. The protocol
//!   runs unchanged, with models, links and arithmetic scaled to a hundredth, which gives the same
//!   times. A narrowing grid search minimizes the squared logarithms of the ratios.

use serde::Serialize;
use stepwell_fabric::Network;
use stepwell_sim::clock::{BoxedLearner, ClockedRun, Computing, Delay, DelayKind, Times};
use stepwell_sync::{Kind, Options, Rate};

use super::paper::{LINES, Line, WORKERS};
use crate::Result;

/// Factor by which models, links and arithmetic are scaled down.
const SCALE: usize = 100;
/// Steps of all workers to average.
const STEPS: u64 = 8;
/// Grid points per side, and number of times the grid narrows.
const GRID: usize = 5;
const NARROWS: usize = 6;
/// Search ranges for the bytes per second of arithmetic, and for the relative delay.
const ARITHMETIC: [f64; 2] = [1e9, 2e11];
const DELAY: [f64; 2] = [1e-3, 3.0];

/// Fitted values, and the remaining errors.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fit {
    /// Bytes per second that a step's arithmetic reads and writes.
    pub arithmetic_bytes_per_second: f64,
    /// Mean delay of a gradient, relative to its time.
    pub delay_share: f64,
    /// By model, seconds of a gradient.
    pub gradient_seconds: [f64; 3],
    /// By model, fitted divided by measured seconds of Sync-DSGD.
    pub fitted_over_paper: [f64; 3],
}

/// The paper's links.
pub(crate) fn network() -> Network {
    Network { bytes_per_second: 100e9 / 8.0, latency_seconds: 2e-6 }
}

impl Fit {
    /// Times of a full-sized model.
    pub(crate) fn times(&self, line: &Line, seed: u64) -> Times {
        let bytes_per_second = self.arithmetic_bytes_per_second;
        times(line, Parameters { bytes_per_second, delay_share: self.delay_share }, seed)
    }

    /// Performs the fit.
    pub(crate) fn new() -> Result<Self> {
        let logs = |range: [f64; 2]| range.map(libm::log);
        let (mut arithmetic, mut delay) = (logs(ARITHMETIC), logs(DELAY));
        let mut best = (f64::INFINITY, Parameters::default());
        for _ in 0..NARROWS {
            for (a, d) in grid(arithmetic).flat_map(|a| grid(delay).map(move |d| (a, d))) {
                let (bytes_per_second, delay_share) = (libm::exp(a), libm::exp(d));
                let parameters = Parameters { bytes_per_second, delay_share };
                let off = off(parameters)?;
                if off < best.0 {
                    best = (off, parameters);
                }
            }
            arithmetic = narrower(arithmetic, libm::log(best.1.bytes_per_second));
            delay = narrower(delay, libm::log(best.1.delay_share));
        }
        let parameters = best.1;
        let mut fitted_over_paper = [0.0; 3];
        for (ratio, line) in fitted_over_paper.iter_mut().zip(&LINES) {
            *ratio = round_seconds(line, parameters)? / line.round_seconds();
        }
        Ok(Self {
            arithmetic_bytes_per_second: parameters.bytes_per_second,
            delay_share: parameters.delay_share,
            gradient_seconds: LINES
                .map(|line| gradient_seconds(&line, parameters.bytes_per_second)),
            fitted_over_paper,
        })
    }
}

/// Fitted parameters.
#[derive(Clone, Copy, Debug, Default)]
struct Parameters {
    /// Bytes per second of arithmetic.
    bytes_per_second: f64,
    /// Mean delay as a share of the time of a gradient.
    delay_share: f64,
}

/// Points of a range, including both ends.
fn grid(range: [f64; 2]) -> impl Iterator<Item = f64> + Clone {
    (0..GRID).map(move |at| range[0] + (range[1] - range[0]) * at as f64 / (GRID - 1) as f64)
}

/// The range around `best`, one and a half grid steps each way.
fn narrower(range: [f64; 2], best: f64) -> [f64; 2] {
    let step = (range[1] - range[0]) / (GRID - 1) as f64;
    [best - 1.5 * step, best + 1.5 * step]
}

/// Sum of squared logarithms of fitted over measured times.
fn off(parameters: Parameters) -> Result<f64> {
    let mut sum = 0.0;
    for line in &LINES {
        let log = libm::log(round_seconds(line, parameters)? / line.round_seconds());
        sum += log * log;
    }
    Ok(sum)
}

/// Seconds of a gradient: a single node's mini-batch without its step, which reads a gradient and
/// reads and writes the model; at least a tenth of the mini-batch.
fn gradient_seconds(line: &Line, arithmetic: f64) -> f64 {
    let step = (3 * line.lanes * size_of::<f64>()) as f64 / arithmetic;
    (line.single_seconds() - step).max(0.1 * line.single_seconds())
}

fn times(line: &Line, parameters: Parameters, seed: u64) -> Times {
    let Parameters { bytes_per_second: arithmetic, delay_share } = parameters;
    let base = gradient_seconds(line, arithmetic);
    let kind = DelayKind::Exponential(delay_share * base);
    let delays = vec![Delay { ranks: (1..=WORKERS).collect(), kind }];
    let computing = Computing { base, delays, seed };
    Times { network: network(), arithmetic, per_parcel: 0.0, computing }
}

/// Seconds of a step of all workers under Sync-DSGD.
fn round_seconds(line: &Line, parameters: Parameters) -> Result<f64> {
    let mut times = times(line, parameters, 1);
    times.arithmetic /= SCALE as f64;
    times.network.bytes_per_second /= SCALE as f64;
    let options = Options::new(STEPS, Rate::constant(1.0));
    let null = |_: usize| -> BoxedLearner<f64> {
        Box::new(|_: u64, _: &[f64], gradient: &mut [f64]| gradient.fill(0.0))
    };
    let learners = (0..=WORKERS).map(null).collect();
    let begin = vec![0.0; line.lanes / SCALE];
    let mut run = ClockedRun::new(Kind::SyncDsgd, &options, &begin, learners, times)?;
    while run.advance()? {}
    Ok(run.seconds() / STEPS as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_baseline_takes_the_papers_time() {
        let fit = Fit::new().unwrap();
        for ratio in fit.fitted_over_paper {
            assert!((0.7..1.4).contains(&ratio), "{fit:?}");
        }
    }
}
